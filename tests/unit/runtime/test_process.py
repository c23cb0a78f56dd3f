"""The process: one agent per root directory, clear words at the start, signals that end it."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from api.errors import AlreadyExistsError, DeniedError, RejectedError, UnavailableError
from runtime.process import (
    LOCK_NAME,
    RootLock,
    StopSignals,
    boot_id,
    has_cgroup_v2,
    node_name,
    prepare_root,
    set_umask,
)

REPOSITORY = Path(__file__).parents[3]


def test_a_missing_root_directory_is_made(tmp_path):
    root = prepare_root(tmp_path / "a/b")
    assert root.is_dir()
    assert root.stat().st_mode & 0o007 == 0
    assert list(root.iterdir()) == []
    assert prepare_root(root) == root


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_root_directory_that_is_a_file_is_named(tmp_path, below):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RejectedError, match=f"{tmp_path}/file is not a folder"):
        prepare_root(tmp_path / "file" / below)


def test_a_root_directory_that_cannot_be_written_is_a_clear_line():
    with pytest.raises(DeniedError, match="cannot write to the root directory /proc/nodeagent-test as user"):
        prepare_root(Path("/proc/nodeagent-test"))


def test_a_second_agent_is_told_the_pid_of_the_first(tmp_path):
    with RootLock.acquire(tmp_path):
        with pytest.raises(AlreadyExistsError) as refused:
            RootLock.acquire(tmp_path)
        assert f"pid {os.getpid()}" in str(refused.value)
        assert str(tmp_path) in str(refused.value)
        assert "\n" not in str(refused.value)
    RootLock.acquire(tmp_path).release()


def test_the_lock_goes_with_its_process_even_when_killed(tmp_path):
    script = (
        "import sys; from pathlib import Path; from runtime.process import RootLock\n"
        "lock = RootLock.acquire(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(AlreadyExistsError, match=f"pid {holder.pid}"):
            RootLock.acquire(tmp_path)
        holder.kill()
    lock = RootLock.acquire(tmp_path)
    assert (tmp_path / LOCK_NAME).read_text() == f"{os.getpid()}\n"
    lock.release()
    lock.release()


def test_a_holder_that_wrote_no_pid_yet_is_refused_all_the_same(tmp_path):
    fd = os.open(tmp_path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(AlreadyExistsError, match="pid unknown"):
            RootLock.acquire(tmp_path)
    finally:
        os.close(fd)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_stop_is_heard_by_name(number):
    before = signal.getsignal(number)
    signals = StopSignals()
    try:
        os.kill(os.getpid(), number)
        assert signals.wait(5) == number.name
    finally:
        signals.close()
    assert signal.getsignal(number) == before


def test_a_second_signal_ends_the_process_at_once():
    script = (
        # A single blocking call could begin after the signal was noted and before its handler ran.
        "from runtime.process import StopSignals; import select\n"
        "s = StopSignals(); print('ready', flush=True); print(s.wait(), flush=True)\n"
        "while True: select.select([], [], [], 0.02)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"SIGTERM\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert b"second time" in process.stderr.read()


def test_the_boot_id_is_the_kernels():
    assert len(boot_id()) == 36
    assert boot_id() == boot_id()


def test_a_boot_id_that_cannot_be_read_is_a_clear_line(tmp_path):
    with pytest.raises(UnavailableError, match="boot id"):
        boot_id(tmp_path / "missing")


@pytest.mark.parametrize(
    ("override", "hostname", "expected"),
    [("", "Worker-1", "worker-1"), (" Node.A ", "x", "node.a"), ("", "a.b.example\n", "a.b.example")],
)
def test_the_nodes_name_is_trimmed_and_lower_case(override, hostname, expected):
    assert node_name(override, hostname) == expected


@pytest.mark.parametrize("name", [" ", "under_score", "-a", "a-", "a..b", "x" * 254, "a b"])
def test_a_name_that_no_node_may_have_is_refused(name):
    with pytest.raises(RejectedError, match="--hostname-override"):
        node_name(name, "x")


def test_the_umask_is_ours():
    old = os.umask(0o077)
    try:
        set_umask()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(old)


def test_unified_cgroups_are_known_by_their_controllers(tmp_path):
    assert not has_cgroup_v2(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert has_cgroup_v2(tmp_path)
