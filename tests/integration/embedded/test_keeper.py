"""A keeper holds its pod: whole process trees, records while nobody looks, logs, commands in context."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from api.errors import FailureKind
from api.ports.runtime import (
    EnvironmentVariable,
    ExecInContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimeContainerState,
    SandboxState,
    StopSandbox,
)
from runtime.drivers.embedded.keeper import process
from tests.conformance.containers.driver import CallFailedError, one
from tests.conformance.containers.script import IgnoreTerm, Run, SleepThenExit, SlowTerm
from tests.integration.embedded.world import (
    folder_of,
    is_gone,
    keeper_of,
    record_of,
    shell,
    sleeping,
    unique_seconds,
)

DAEMONS = (
    "(sleep {0} &) ; (setsid sleep {0} &) ; setsid sh -c '(sleep {0} &)' ; sh -c 'sleep {0} & wait' & "
    "env -i setsid sh -c '(sleep {0} &)'"
)
"""Five ways for a process to get away: orphaned, in a session of its own, both, as a grandchild, without a mark."""

AGENT = """
import sys
from api.ports.runtime import ListPods
from runtime.drivers.embedded.driver import EmbeddedRuntime
runtime = EmbeddedRuntime(root=sys.argv[1])
runtime.begin(ListPods(), 5, lambda result, _: print(len(result.pods), flush=True))
sys.stdin.read()
"""


def test_an_exit_is_recorded_while_no_agent_is_there(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, SleepThenExit(0.3, 44))
    bench.driver.runtime.close()
    bench.until(lambda: record_of(bench, sandbox)["containers"][0]["state"] == "exited", "the exit on disk")
    row = record_of(bench, sandbox)["containers"][0]
    assert (row["exit_code"], row["signal"], row["reason"]) == (44, 0, "Error")
    bench.driver.reopen()
    ended = bench.look(sandbox, container)
    assert (ended.state, ended.exit_code) == (RuntimeContainerState.EXITED, 44)
    assert 0.3e9 <= ended.finished_at - ended.started_at < 3e9


def test_an_agent_that_is_killed_loses_no_pod(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    bench.driver.runtime.close()
    # An agent of its own, killed without any goodbye while it looks at the pod.
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(bench.driver.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert agent.stdout.readline() == b"1\n"
    agent.kill()
    agent.wait()
    agent.stdin.close()
    agent.stdout.close()
    bench.driver.reopen()
    assert bench.look(sandbox, container) == container
    assert not is_gone(container.pid)


@pytest.mark.parametrize("ending", ["stop", "kill at once", "by itself", "sandbox"])
def test_the_whole_process_tree_ends_with_its_container(bench, ending):
    seconds = unique_seconds()
    sandbox = bench.run_sandbox()
    last = "sleep 0.3" if ending == "by itself" else f"exec sleep {seconds}"
    script = DAEMONS.format(seconds) + f"; echo ready; {last}"
    container = bench.run(sandbox, Run(), **shell(script))
    bench.printed(container, "ready")
    bench.until(lambda: len(sleeping(seconds)) >= 5, "all processes of the tree")
    if ending == "stop":
        bench.wait(bench.stop(sandbox, container, 20))
    elif ending == "kill at once":
        bench.wait(bench.stop(sandbox, container, 0))
    elif ending == "sandbox":
        bench.call(StopSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    ended = bench.exited(sandbox, container)
    assert sleeping(seconds) == []
    assert ended.exit_code == {"stop": 143, "by itself": 0}.get(ending, 137)
    assert ended.message == ""


def test_the_tree_of_one_container_ends_and_its_neighbour_lives(bench):
    mine, other = unique_seconds(), unique_seconds()
    tree = "(sleep {0} &) ; (setsid sleep {0} &) ; setsid sh -c '(sleep {0} &)'; echo ready; exec sleep {0}"
    sandbox = bench.run_sandbox()
    first = bench.run(sandbox, Run(), "first", **shell(tree.format(mine)))
    second = bench.run(sandbox, Run(), "second", **shell(tree.format(other)))
    bench.until(lambda: len(sleeping(mine)) == len(sleeping(other)) == 4, "both trees")
    bench.wait(bench.stop(sandbox, first, 20))
    assert sleeping(mine) == []
    assert len(sleeping(other)) == 4
    assert bench.look(sandbox, second).state is RuntimeContainerState.RUNNING


def test_nothing_of_a_removed_pod_stays(bench):
    seconds = unique_seconds()
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run(), **shell(f"(setsid sleep {seconds} &); exec sleep {seconds}"))
    record = record_of(bench, sandbox)
    keeper = keeper_of(bench, sandbox)
    assert all(Path(group).is_dir() for group in record["cgroups"])
    bench.call(RemoveSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    assert is_gone(keeper)
    assert is_gone(container.pid)
    assert sleeping(seconds) == []
    assert not folder_of(bench, sandbox).exists()
    assert not any(Path(group).exists() for group in record["cgroups"])
    assert Path(container.log_path).exists()


def test_a_container_has_its_own_session_and_only_its_own_environment(bench, monkeypatch):
    monkeypatch.setenv("AGENT_SECRET", "not for pods")
    sandbox = bench.run_sandbox()
    variables = (EnvironmentVariable("GREETING", "hello = world"), EnvironmentVariable("EMPTY", ""))
    container = bench.run(
        sandbox, Run(), env=variables, working_dir="/usr", **shell("pwd; env; echo ready; exec sleep 1000000")
    )
    bench.printed(container, "ready")
    lines = [text for _, text in bench.driver.log_lines(container)]
    assert lines[0] == "/usr"
    assert "GREETING=hello = world" in lines
    assert "EMPTY=" in lines
    assert not [line for line in lines if "AGENT_SECRET" in line or line.startswith("LANG=")]
    seen = process.look(container.pid)
    assert seen.session == container.pid
    result = bench.call(
        ExecInContainer(
            uid=sandbox.uid,
            container_id=container.id,
            command=("sh", "-c", "pwd; echo $GREETING; cat /proc/self/cgroup"),
            timeout_s=5,
        )
    )
    where, greeting, *groups = result.stdout.decode().splitlines()
    assert (where, greeting) == ("/usr", "hello = world")
    assert Path(f"/proc/{container.pid}/cgroup").read_text().splitlines() == groups


def test_a_container_holds_no_descriptor_but_its_own_three(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run(), command=("sleep", "1000000"), args=())
    bench.until(lambda: Path(f"/proc/{container.pid}/comm").read_text() == "sleep\n", "the program")
    held = {
        fd.name: str(fd.readlink()).partition(":")[0] for fd in Path(f"/proc/{container.pid}/fd").iterdir()
    }
    assert held == {"0": "/dev/null", "1": "pipe", "2": "pipe"}


def test_environment_values_are_never_on_disk(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run(), env=(EnvironmentVariable("PASSWORD", "swordfish-4711"),))
    for path in (bench.driver.root / "run", *(bench.driver.root / "run").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        assert not path.is_file() or b"swordfish-4711" not in path.read_bytes()
    assert bench.look(sandbox, container).state is RuntimeContainerState.RUNNING


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": ("frobnicate",), "args": ()}, 'exec "frobnicate": no such file or directory in $PATH'),
        ({"command": ("/no/such",), "args": ()}, 'exec "/no/such": no such file or directory'),
        ({"command": ("/etc/passwd",), "args": ()}, 'exec "/etc/passwd": permission denied'),
        ({"working_dir": "/no/such"}, 'working directory "/no/such": no such file or directory'),
    ],
)
def test_a_start_that_fails_says_why_in_words(bench, fields, message):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run(), **fields)
    assert (container.exit_code, container.reason, container.message) == (128, "StartError", message)


def test_a_command_that_cannot_be_run_says_why(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    with pytest.raises(CallFailedError, match="frobnicate") as refused:
        bench.call(
            ExecInContainer(uid=sandbox.uid, container_id=container.id, command=("frobnicate",), timeout_s=5)
        )
    assert refused.value.kind is FailureKind.REJECTED


def test_a_command_past_its_time_is_killed_with_its_children(bench):
    seconds = unique_seconds()
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    command = ("sh", "-c", f"setsid sleep {seconds} & sleep {seconds}")
    with pytest.raises(CallFailedError):
        bench.call(
            ExecInContainer(uid=sandbox.uid, container_id=container.id, command=command, timeout_s=0.5)
        )
    bench.until(lambda: sleeping(seconds) == [], "the end of the command's processes")


def test_a_rotated_log_is_followed(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run(), **shell("while :; do echo tick; sleep 0.1; done"))
    bench.printed(container, "tick")
    Path(container.log_path).rename(container.log_path + ".1")
    bench.until(lambda: Path(container.log_path).exists(), "a new log file")
    bench.printed(container, "tick")


def test_a_sigterm_to_the_keeper_ends_the_pod_with_its_own_grace(bench):
    sandbox = bench.run_sandbox(grace_s=1)
    polite = bench.run(sandbox, SlowTerm(0.2, 7), "polite")
    stubborn = bench.run(sandbox, IgnoreTerm(), "stubborn")
    bench.printed(polite, "ready")
    bench.printed(stubborn, "ready")
    os.kill(keeper_of(bench, sandbox), signal.SIGTERM)
    assert bench.exited(sandbox, polite).exit_code == 7
    assert bench.exited(sandbox, stubborn).exit_code == 137
    bench.until(
        lambda: bench.inspect(sandbox.uid).sandboxes[0].state is SandboxState.NOT_READY, "the sandbox's end"
    )


def test_a_root_folder_may_have_a_very_long_path(bench, tmp_path):
    bench.driver.runtime.close()
    bench.driver.root = tmp_path / ("d" * 100) / ("e" * 100)
    assert len(str(bench.driver.root)) > 200
    bench.driver.reopen()
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    bench.driver.reopen()
    assert bench.look(sandbox, container) == container
    assert one(bench.wait(bench.stop(sandbox, container, 10)), container.id).exit_code == 143


def test_a_pod_without_log_folder_is_refused_in_words_and_leaves_nothing(bench, tmp_path):
    (tmp_path / "blocker").write_text("")
    spec = bench.sandbox_spec(bench.new_uid(), log_directory=str(tmp_path / "blocker" / "logs"))
    with pytest.raises(CallFailedError, match="log folder") as refused:
        bench.call(RunSandbox(spec=spec))
    assert refused.value.kind is FailureKind.UNAVAILABLE
    folder = bench.driver.root / "run" / "sandboxes"
    bench.until(lambda: list(folder.iterdir()) == [], "an empty folder")
