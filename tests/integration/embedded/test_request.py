"""Nothing that is asked of a keeper ends it: what is too long, too deep or makes no sense is answered, and its pod runs on."""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from api.errors import FailureKind
from api.ports.runtime import ExecInContainer, RuntimeContainerState
from runtime.drivers.embedded.keeper import frame
from tests.conformance.containers.driver import CallFailedError
from tests.conformance.containers.script import IgnoreTerm, Run
from tests.harness.wait import until
from tests.integration.embedded.world import folder_of, is_gone, keeper_of, sleeping, unique_seconds


def execute(bench, sandbox, container, *command, timeout_s=5.0):
    return bench.call(
        ExecInContainer(
            uid=sandbox.uid,
            container_id=container.id,
            command=command,
            timeout_s=timeout_s,
            limit_bytes=1 << 20,
        )
    )


def refusal(bench, sandbox, container, *command):
    with pytest.raises(CallFailedError) as told:
        execute(bench, sandbox, container, *command)
    assert told.value.kind is FailureKind.REJECTED
    return told.value.failure.message


@pytest.fixture
def pod(bench):
    """Return a sandbox with a running container, whose keeper must be the same afterwards."""
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    keeper = keeper_of(bench, sandbox)
    yield sandbox, container
    assert not is_gone(keeper)
    assert not (folder_of(bench, sandbox) / "crash.txt").exists()
    assert bench.look(sandbox, container).state is RuntimeContainerState.RUNNING
    assert execute(bench, sandbox, container, "echo", "well").stdout == b"well\n"


@pytest.mark.parametrize("letters", [4_200, 200_000])
def test_a_command_with_a_long_name_is_refused_in_a_few_words(bench, pod, letters):
    for name in ("a" * letters, "/" + "a" * letters, "ä" * letters):
        message = refusal(bench, *pod, name)
        assert "file name too long" in message
        assert len(message) < 2_000


def test_long_arguments_arrive_whole_or_are_answered_with_what_the_kernel_says(bench, pod):
    letters = "b" * 100_000
    assert execute(bench, *pod, "sh", "-c", f"printf %s {letters}").stdout == letters.encode()
    assert "argument list too long" in refusal(bench, *pod, "echo", "c" * 200_000)


def test_a_request_beyond_the_limit_is_answered_with_the_limit(bench, pod):
    message = refusal(bench, *pod, "echo", "d" * frame.MAX_REQUEST_BYTES)
    assert str(frame.MAX_REQUEST_BYTES) in message


def test_words_that_no_program_can_be_given_are_answered(bench, pod):
    assert "surrogates not allowed" in refusal(bench, *pod, "echo", "\ud800")


def test_a_long_working_directory_is_told_in_a_few_words(bench, pod):
    sandbox, _ = pod
    container = bench.run(sandbox, Run(), "far", working_dir="/" + "e" * 5_000)
    ended = bench.look(sandbox, container)
    assert (ended.exit_code, ended.reason) == (128, "StartError")
    assert ended.message.endswith("file name too long")
    assert len(ended.message) < 2_000


def test_times_that_no_selector_waits_for_are_waited_for_in_parts(bench, pod):
    sandbox, _ = pod
    # Zero is no limit: the keeper gets a year.
    assert execute(bench, *pod, "echo", "in a year", timeout_s=0).stdout == b"in a year\n"
    stubborn = bench.run(sandbox, IgnoreTerm(), "stubborn")
    bench.printed(stubborn, "ready")
    patient = bench.stop(sandbox, stubborn, 60 * 86_400)
    assert execute(bench, *pod, "echo", "still there").stdout == b"still there\n"
    assert not patient.ended
    bench.wait(bench.stop(sandbox, stubborn, 0))


def talk(bench, sandbox, data):
    """Say something to a keeper on a connection of its own, and return what it answers after its greeting."""
    place = os.open(folder_of(bench, sandbox), os.O_PATH)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with link:
        link.settimeout(10)
        # A socket's address holds 108 bytes.
        link.connect(f"/proc/self/fd/{place}/keeper.sock")
        os.close(place)
        inbox, heard = frame.FrameReader(), []
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        while (bodies := inbox.receive(link)) is not None:
            heard += bodies
    return heard[1:]


def framed(text):
    return struct.pack(">I", len(text)) + text


@pytest.mark.parametrize(
    "body",
    [
        {"op": "exec", "id": 1},
        {"op": "exec", "id": [], "container": {}},
        {"op": "create", "id": 1, "spec": 3},
        {"op": "run", "id": 1, "spec": {}},
        {"op": ["run"], "id": 1},
        {"op": "stop"},
        {"op": "no-such-operation", "id": 1},
    ],
)
def test_a_request_that_makes_no_sense_is_answered(bench, pod, body):
    (answer,) = talk(bench, pod[0], framed(json.dumps(body).encode()))
    assert answer["id"] == body.get("id", 0)
    assert "error" in answer


@pytest.mark.parametrize(
    "data",
    [
        framed(b'{"id":1,"op":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        framed(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
        framed(b"1" * 10_000),
        framed(b"\xff"),
        struct.pack(">I", frame.MAX_REQUEST_BYTES + 1),
        b"\0",
    ],
    ids=["lists", "objects", "number", "no-text", "length", "half"],
)
def test_a_frame_that_is_none_ends_its_own_connection_only(bench, pod, data):
    assert talk(bench, pod[0], data) == []


AS_PLAIN_USER = """
import os, sys, threading
from api.ports.runtime import *
from runtime.drivers.embedded.driver import EmbeddedRuntime
root, program, seconds = sys.argv[1:]
os.setgroups([]); os.setgid(12345); os.setuid(12345)
# This interpreter was found as root; the keeper server must be one that the new user may run.
sys.executable = "/usr/bin/python3"
def call(what):
    got, there = [], threading.Event()
    runtime.begin(what, 30, lambda result, failure: (got.append(result or failure), there.set()))
    assert there.wait(35)
    return got[0]
def make(name, *command):
    spec = ContainerSpec(name=name, image=HOST_IMAGE, attempt=0, command=command, log_path=name + "/0.log")
    pod = call(CreateContainer(uid=uid, sandbox_id=sandbox, sandbox=box, spec=spec))
    return call(StartContainer(uid=uid, container_id=next(k.id for k in pod.containers if k.name == name)))
runtime = EmbeddedRuntime(root=root)
uid = "changes-user"
box = SandboxSpec(uid=uid, name="p", namespace="n", attempt=0, log_directory=root + "/logs")
sandbox = call(RunSandbox(spec=box)).sandboxes[0].id
container = make("other", program, "--reuid=54321", "--regid=54321", "--clear-groups", "sleep", seconds).containers[0]
input()
for grace in (0, 5):
    print(call(StopContainer(uid=uid, container_id=container.id, grace_s=grace)).brief(), flush=True)
print(call(ExecInContainer(uid=uid, container_id=container.id, command=("echo", "well"), timeout_s=5)).stdout, flush=True)
print(call(RemoveSandbox(uid=uid, sandbox_id=sandbox)).brief(), flush=True)
print([k.state for k in call(InspectPod(uid=uid)).containers], flush=True)
input()
while call(InspectPod(uid=uid)).sandboxes[0].state == "ready":
    threading.Event().wait(0.05)
print([k.exit_code for k in call(InspectPod(uid=uid)).containers], flush=True)
print(len(call(RemoveSandbox(uid=uid, sandbox_id=sandbox)).sandboxes), flush=True)
runtime.close()
"""


@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a setuid program: run the tests as root")
def test_a_main_process_that_became_another_user_is_told_and_ends_no_keeper():
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs /usr/bin/python3 (Debian package python3): the keeper server of an ordinary user")
    # Not below /tmp, which may be mounted without setuid.
    folder = Path(tempfile.mkdtemp(prefix="setuid-", dir="/var/lib"))
    seconds = unique_seconds()
    try:
        folder.chmod(0o755)
        program = folder / "setpriv"
        subprocess.run(["cp", shutil.which("setpriv"), program], check=True)
        program.chmod(0o4755)
        root = folder / "root"
        root.mkdir(mode=0o700)
        os.chown(root, 12345, 12345)
        agent = subprocess.Popen(
            [sys.executable, "-c", AS_PLAIN_USER, str(root), str(program), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with agent:
            try:
                until(lambda: sleeping(seconds), "the process of another user")
                tell(agent)
                for line in (heard(agent), heard(agent)):
                    assert line.startswith("Denied: container other: its main process")
                    assert "became another user, which user 12345 may not signal" in line
                assert heard(agent) == "b'well\\n'"
                assert heard(agent).startswith("Denied: container other: its main process")
                assert "running" in heard(agent)
                (pid,) = sleeping(seconds)
                os.kill(pid, 9)
                tell(agent)
                assert heard(agent) == "[137]", "the keeper lived to see it"
                assert heard(agent) == "0"
            finally:
                agent.kill()
    finally:
        for pid in sleeping(seconds):
            os.kill(pid, 9)
        shutil.rmtree(folder)


def tell(agent):
    agent.stdin.write("\n")
    agent.stdin.flush()


def heard(agent):
    return agent.stdout.readline().strip()
