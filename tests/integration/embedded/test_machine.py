"""What needs root: users, a full disk under the logs, cgroups; and an agent that is not root."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from api.ports.runtime import ExecInContainer, RuntimeContainerState, RuntimeStatus
from runtime.drivers.embedded.keeper import process
from tests.conformance.containers.driver import Bench
from tests.conformance.containers.embedded import EmbeddedDriver
from tests.conformance.containers.script import Run
from tests.integration.embedded.world import keeper_of, record_of, shell, sleeping, unique_seconds

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: run the tests as root"),
]


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_under_the_logs_stops_neither_container_nor_keeper(small_disk, bench):
    sandbox = bench.run_sandbox(log_directory=str(small_disk / "logs"))
    container = bench.run(
        sandbox,
        Run(),
        **shell(
            "i=0; while [ $i -lt 4000 ]; do echo line $i of a container that talks a lot; i=$((i+1)); done; "
            "echo done > /proc/self/fd/2; while [ ! -e "
            + str(bench.driver.root)
            + "/go ]; do sleep 0.05; done; "
            "echo after; exec sleep 1000000"
        ),
    )
    bench.until(
        lambda: "log lines were dropped" in bench.look(sandbox, container).message, "the container to say so"
    )
    told = bench.look(sandbox, container)
    assert told.state is RuntimeContainerState.RUNNING
    assert "No space left on device" in told.message
    result = bench.call(
        ExecInContainer(uid=sandbox.uid, container_id=container.id, command=("true",), timeout_s=5)
    )
    assert result.exit_code == 0
    path = Path(container.log_path)
    whole = path.read_text().splitlines()
    assert all(" F line " in line for line in whole)
    path.write_text("")
    (bench.driver.root / "go").write_text("")
    bench.printed(container, "after")
    assert "log lines were dropped here: No space left on device" in path.read_text()


def test_a_container_runs_as_the_user_that_was_asked_for(bench):
    sandbox = bench.run_sandbox()
    script = shell("id -u; id -g; id -G; echo $HOME; exec sleep 1000000")
    container = bench.run(sandbox, Run(), user=12345, group=54321, **script)
    bench.until(lambda: len(bench.driver.log_lines(container)) == 4, "four lines")
    assert [text for _, text in bench.driver.log_lines(container)] == ["12345", "54321", "54321", "/"]
    result = bench.call(
        ExecInContainer(uid=sandbox.uid, container_id=container.id, command=("id", "-u"), timeout_s=5)
    )
    assert result.stdout == b"12345\n"
    assert bench.look(sandbox, container).state is RuntimeContainerState.RUNNING


def test_a_process_of_another_user_is_killed_with_its_container(bench):
    seconds = unique_seconds()
    sandbox = bench.run_sandbox()
    container = bench.run(
        sandbox, Run(), user=12345, group=12345, **shell(f"(setsid sleep {seconds} &); exec sleep {seconds}")
    )
    bench.until(lambda: len(sleeping(seconds)) == 2, "both processes")
    bench.wait(bench.stop(sandbox, container, 10))
    assert sleeping(seconds) == []


def test_a_keeper_has_left_the_agents_session_and_cgroup(bench):
    sandbox = bench.run_sandbox()
    keeper = keeper_of(bench, sandbox)
    assert process.look(keeper).session == keeper
    groups = record_of(bench, sandbox)["cgroups"]
    for group in groups:
        assert str(keeper) in Path(group, "keeper", "cgroup.procs").read_text().split()
    if not groups:
        assert "found by parent process" in bench.call(RuntimeStatus()).detail


NOT_ROOT = """
import os, sys, threading
from api.ports.confinement import Mount
from api.ports.runtime import *
from runtime.drivers.embedded.driver import EmbeddedRuntime
os.setgroups([]); os.setgid(12345); os.setuid(12345)
# This interpreter was found as root; the keeper server must be one that the new user may run.
sys.executable = "/usr/bin/python3"
root = sys.argv[1]
def call(what):
    got, there = [], threading.Event()
    runtime.begin(what, 10, lambda result, failure: (got.append((result, failure)), there.set()))
    assert there.wait(15)
    assert got[0][1] is None or any(text in got[0][1].message for text in sys.argv[2:]), got
    return got[0][0]
runtime = EmbeddedRuntime(root=root)
print(call(RuntimeStatus()).detail)
uid = "not-root"
box = SandboxSpec(uid=uid, name="p", namespace="n", attempt=0, log_directory=root + "/logs")
pod = call(RunSandbox(spec=box))
spec = dict(image=HOST_IMAGE, attempt=0, command=("sh", "-c"), args=("(setsid sleep 77777 &); exec sleep 77777",))
sandbox = pod.sandboxes[0].id
assert call(CreateContainer(uid=uid, sandbox_id=sandbox, sandbox=box, spec=ContainerSpec(name="b", user=0, log_path="b/0.log", **spec))) is None
mounts = (Mount(container_path="/tmp", host_path="/tmp"),)
assert call(CreateContainer(uid=uid, sandbox_id=sandbox, sandbox=box, spec=ContainerSpec(name="m", mounts=mounts, log_path="m/0.log", **spec))) is None
pod = call(CreateContainer(uid=uid, sandbox_id=sandbox, sandbox=box, spec=ContainerSpec(name="c", log_path="c/0.log", **spec)))
call(StartContainer(uid=uid, container_id=pod.containers[0].id))
print(call(StopContainer(uid=uid, container_id=pod.containers[0].id, grace_s=5)).containers[0].exit_code)
print(len(call(RemoveSandbox(uid=uid, sandbox_id=sandbox)).sandboxes))
runtime.close()
"""


def test_without_root_everything_works_but_cgroups_and_users(tmp_path_factory):
    root = Path("/tmp") / f"nodeagent-not-root-{os.getpid()}"
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs /usr/bin/python3 (Debian package python3): the keeper server of an ordinary user")
    root.mkdir(mode=0o700)
    os.chown(root, 12345, 12345)
    try:
        ran = subprocess.run(
            [
                *(sys.executable, "-c", NOT_ROOT, str(root)),
                *("runAsUser 0 needs root", "volumeMounts needs a mount namespace"),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        detail, code, left = ran.stdout.splitlines()
        assert "not root: every container runs as user 12345" in detail
        assert "no cgroup" in detail
        assert (code, left) == ("143", "0")
        assert sleeping(77777) == []
        assert list((root / "run" / "sandboxes").iterdir()) == []
    finally:
        subprocess.run(["rm", "-rf", root], check=True)


@pytest.mark.slow
def test_a_hundred_keepers_need_less_than_220_mb_of_their_own(tmp_path, record_property):
    bench = Bench(EmbeddedDriver(tmp_path))
    try:
        bench.listing()
        began = bench.driver.now()
        specs = [bench.sandbox_spec(bench.new_uid()) for _ in range(100)]
        sandboxes = [bench.run_sandbox(spec.uid) for spec in specs]
        containers = [bench.run(sandbox, Run()) for sandbox in sandboxes]
        took = bench.driver.now() - began
        keepers = [keeper_of(bench, sandbox) for sandbox in sandboxes]
        private = sum(
            private_bytes(pid) for pid in [*keepers, bench.driver.runtime._keeper_server.permitted.pid]
        )
        record_property("start_s", round(took, 2))
        record_property("private_mb", round(private / 1e6, 1))
        assert len(containers) == 100
        assert private < 220e6
    finally:
        bench.clean_up()


def private_bytes(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
