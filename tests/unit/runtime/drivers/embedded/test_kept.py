"""The driver's end of a connection to a keeper, and the keeper's own listener, where something lacks or makes no sense."""

import contextlib
import errno
import os
import resource
import socket
import threading

import pytest

from runtime.drivers.embedded.descriptor import SPARE, leave_spare, pods_at_most
from runtime.drivers.embedded.keeper import store
from runtime.drivers.embedded.keeper.frame import NEWEST, pack
from runtime.drivers.embedded.keeper.link import Links
from runtime.drivers.embedded.keeper.loop import KeeperLoop
from runtime.drivers.embedded.kept import Kept
from runtime.net.loop import Loop
from tests.harness.wait import until

HELLO = {"hello": {"pid": 1, "start": 1, "oldest": NEWEST, "newest": NEWEST}}


@pytest.fixture
def loop():
    """Return a loop whose thread runs, and hold that no test ends it."""
    ended = threading.Event()
    made = Loop("test", ended.set)
    yield made
    assert not ended.is_set()
    made.stop(2.0)


def kept_of(loop, folder):
    """Return a sandbox in `folder`, and the words that it said when its keeper changed or was lost."""
    words = []
    kept = Kept(loop, "s1", folder, lambda _: words.append("changed"), lambda _: words.append("lost"))
    return kept, words


def on(loop, work):
    """Return what `work` returns on the loop's thread."""
    done, found = threading.Event(), []

    def run():
        found.append(work())
        done.set()

    loop.submit(run)
    assert done.wait(5.0)
    return found[0]


@contextlib.contextmanager
def open_files(limit):
    """Have this process open at most so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_nobody_is_there_where_no_socket_is_or_nobody_listens(loop, tmp_path):
    kept, _ = kept_of(loop, tmp_path)
    assert not on(loop, kept.connect)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / store.SOCKET))
    assert not on(loop, kept.connect)
    assert not kept.is_live


def test_a_lack_of_descriptors_says_nothing_about_the_keeper_and_calls_fail_with_it(loop, tmp_path):
    kept, words = kept_of(loop, tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / store.SOCKET))
        listener.listen()
        with open_files(3):
            assert on(loop, kept.connect)
            assert kept.is_live
            failures = []
            on(loop, lambda: kept.request("stop", lambda _, failure: failures.append(failure)))
            assert (
                "the keeper of sandbox s1 cannot be reached now: Too many open files" in failures[0].message
            )
        until(lambda: not kept.trouble, "it is tried again", 5.0)
        keeper, _ = listener.accept()
        with keeper:
            keeper.sendall(pack(HELLO))
            until(lambda: not kept.is_joining, "the keeper spoke", 5.0)
            assert words == []
            on(loop, kept.disconnect)


@pytest.mark.parametrize(
    "body", [{"id": []}, {"id": {}}, {"id": 1}, {"id": 1, "error": {"kind": "x"}}, {"record": 1}]
)
def test_what_no_keeper_says_costs_at_most_the_call_that_it_answers(loop, tmp_path, body):
    kept, words = kept_of(loop, tmp_path)
    ours, theirs = socket.socketpair()
    with theirs:
        on(loop, lambda: kept.attach(ours))
        failures = []
        theirs.sendall(pack(HELLO))
        on(loop, lambda: kept.request("exec", lambda _, failure: failures.append(failure)))
        on(loop, lambda: kept.request("stop", lambda result, _: failures.append(result)))
        theirs.sendall(pack(body) + pack({"id": 2, "ok": {}}))
        until(lambda: {} in failures, "the other call is answered", 5.0)
        asked = body.get("id") == 1
        assert len(failures) == 1 + asked
        assert not asked or "invalid message" in failures[0].message
        assert words == []
        on(loop, kept.disconnect)


def test_a_record_that_cannot_be_read_for_want_of_descriptors_is_not_damaged(tmp_path):
    store.write(str(tmp_path), {"sandbox": {}}, durable=False)
    with open_files(3), pytest.raises(OSError, match="Too many open files") as lacking:
        store.read(str(tmp_path))
    assert lacking.value.errno == errno.EMFILE
    assert store.read(str(tmp_path))["sandbox"] == {}


def test_connections_leave_descriptors_for_the_rest_of_the_agent(tmp_path):
    # The listing of them is one too.
    taken = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with open_files(taken + SPARE), (tmp_path / "one").open("w") as one:
        with pytest.raises(OSError, match=f"the agent may open {taken + SPARE}"):
            leave_spare(one.fileno())
        one.close()
        leave_spare(taken)
    assert pods_at_most(0) == 0
    assert pods_at_most(1024) < 1024 - SPARE


def test_a_keeper_without_descriptors_lets_nobody_in_for_a_while_and_does_not_spin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loop = KeeperLoop()
    links = Links(loop, lambda: HELLO, lambda _, __: None, lambda: None)
    links.listen("socket")
    turns = []
    with socket.socket(socket.AF_UNIX) as driver:
        driver.connect("socket")
        driver.setblocking(False)
        over = threading.Event()

        def work():
            while not over.is_set():
                loop.turn()
                turns.append(None)

        with open_files(3):
            loop.turn()
            thread = threading.Thread(target=work)
            thread.start()
        # The listener is readable all the time: without a pause there would be thousands of turns until then.
        until(lambda: heard(driver), "it is let in later", 10.0)
        over.set()
        driver.shutdown(socket.SHUT_RDWR)
        thread.join(5.0)
    for key in list(loop._selector.get_map().values()):
        key.fileobj.close()
    assert len(turns) < 20
    assert os.path.exists("socket")  # noqa: PTH110


def heard(link):
    """Tell whether something came."""
    try:
        return link.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return b""
