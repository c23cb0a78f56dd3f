"""Types are taken apart by one thread at a time, and what a peer sends is of its kind or undecodable."""

import subprocess
import sys
from pathlib import Path

import pytest

from api.decoding import UndecodableError, from_json
from api.problem import FieldProblem

ROOT = Path(__file__).parents[3]
AT_ONCE = """
import sys, threading
import msgspec
from actors.pod.outcome import decoded
from actors.pod.state import PodMemo
from api.kube.scheme import SCHEME

POD = b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "x", "image": "y"}]}}'
LIST = b'{"apiVersion": "v1", "kind": "PodList", "items": [' + POD + b']}'
PAGE = msgspec.msgpack.encode(PodMemo())
pod, pods, page = lambda: SCHEME.decode(POD, "a"), lambda: SCHEME.decode(LIST, "b"), lambda: decoded(PAGE, PodMemo)
start, done = threading.Barrier(4), []

def work(decode):
    start.wait()
    done.append(decode())

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work, args=(decode,)) for decode in (%s)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(done) == 4 and None not in done, done
"""


@pytest.mark.parametrize("first", ["pod, pod, pod, pod", "pod, pods, pod, pods", "page, page, page, page"])
def test_threads_may_decode_for_the_first_time_at_once(first):
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", AT_ONCE % first], cwd=ROOT, check=False)
        assert done.returncode == 0


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"path": 1}', b'{"path": "\xff"}', b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
                                  b'{"path": "a", "expected": ' + b"1" * 5000 + b"}"])  # fmt: skip
def test_json_of_a_peer_is_of_its_kind_or_undecodable(text):
    with pytest.raises(UndecodableError) as caught:
        from_json(text, FieldProblem)
    assert len(str(caught.value)) <= 200
    assert from_json(b'{"path": "a", "found": "b", "expected": "c", "x": []}', FieldProblem).path == "a"
