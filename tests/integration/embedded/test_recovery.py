"""What is left when keepers, nurseries, records and machines fail."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from api.errors import FailureKind
from api.ports.runtime import (
    ListPods,
    RemoveSandbox,
    ReopenContainerLog,
    RuntimeContainerState,
    RuntimeStatus,
    SandboxState,
    StopSandbox,
)
from runtime.drivers.embedded.keeper import frame, process
from runtime.drivers.embedded.keeperserver import KEEPER_PACKAGE
from tests.conformance.containers.driver import CallFailedError, one
from tests.conformance.containers.script import ExitWith, IgnoreTerm, Run
from tests.integration.embedded.world import (
    change_record,
    folder_of,
    is_gone,
    keeper_of,
    kill_keeper,
    record_of,
    shell,
    sleeping,
    unique_seconds,
)


def expect_unknown_end(bench, sandbox, container):
    ended = bench.exited(sandbox, container)
    assert (ended.exit_code, ended.reason, ended.pid) == (255, "ContainerStatusUnknown", 0)
    assert ended.message
    assert bench.inspect(sandbox.uid).sandboxes[0].state is SandboxState.NOT_READY
    return ended


@pytest.mark.parametrize("agent", ["there", "away"])
def test_what_a_killed_keeper_left_is_killed_and_its_end_is_unknown(bench, agent):
    seconds = unique_seconds()
    sandbox = bench.run_sandbox()
    known = bench.exited(sandbox, bench.run(sandbox, ExitWith(9), "known"))
    container = bench.run(
        sandbox,
        Run(),
        **shell(f"(setsid sleep {seconds} &); setsid sleep {seconds} & echo ready; exec sleep {seconds}"),
    )
    bench.until(lambda: len(sleeping(seconds)) == 3, "the processes")
    if agent == "there":
        bench.listen()
        kill_keeper(bench, sandbox)
        bench.until(lambda: sandbox.uid in bench.heard, "a hint")
    else:
        bench.driver.runtime.close()
        kill_keeper(bench, sandbox)
        bench.until(lambda: container.pid not in sleeping(seconds), "the main process to die with its keeper")
        bench.driver.reopen()
    ended = expect_unknown_end(bench, sandbox, container)
    assert "keeper" in ended.message
    assert sleeping(seconds) == []
    assert bench.look(sandbox, known) == known
    pod = bench.call(RemoveSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    assert pod.sandboxes == ()
    assert not folder_of(bench, sandbox).exists()


def test_a_stop_under_way_succeeds_when_the_keeper_dies(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, IgnoreTerm())
    bench.printed(container, "ready")
    pending = bench.stop(sandbox, container, 60)
    kill_keeper(bench, sandbox)
    assert one(bench.wait(pending), container.id).state is RuntimeContainerState.EXITED
    assert is_gone(container.pid)


def test_a_restarted_machine_shows_every_container_exited(bench):
    sandbox = bench.run_sandbox()
    known = bench.exited(sandbox, bench.run(sandbox, ExitWith(3), "known"))
    running = bench.run(sandbox, Run(), "running")
    bench.driver.runtime.close()
    kill_keeper(bench, sandbox)
    change_record(bench, sandbox, lambda record: record.update(boot="00000000-0000-0000-0000-000000000000"))
    bench.driver.reopen()
    ended = expect_unknown_end(bench, sandbox, running)
    assert "machine was restarted" in ended.message
    assert bench.look(sandbox, known) == known


@pytest.mark.parametrize("boot", ["same", "other"])
def test_a_process_that_got_a_recorded_number_again_is_left_alone(bench, boot):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    bench.driver.runtime.close()
    kill_keeper(bench, sandbox)
    bench.until(lambda: is_gone(container.pid), "the container's death")
    with subprocess.Popen(["sleep", str(unique_seconds())]) as stranger:

        def reuse(record):
            record["keeper"]["pid"] = record["containers"][0]["pid"] = stranger.pid
            if boot == "other":
                record["boot"] = "00000000-0000-0000-0000-000000000000"
                record["keeper"]["start"] = process.look(stranger.pid).start

        change_record(bench, sandbox, reuse)
        bench.driver.reopen()
        expect_unknown_end(bench, sandbox, container)
        bench.call(RemoveSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
        assert stranger.poll() is None
        stranger.kill()


def test_a_keeper_that_hangs_holds_up_only_its_own_pod(bench):
    hung, well = bench.run_sandbox(), bench.run_sandbox()
    container = bench.run(hung, Run())
    keeper = keeper_of(bench, hung)
    os.kill(keeper, signal.SIGSTOP)
    with contextlib.ExitStack() as later:
        later.callback(lambda: is_gone(keeper) or os.kill(keeper, signal.SIGCONT))
        late = bench.begin(
            bench.stop(hung, container, 0) and StopSandbox(uid=hung.uid, sandbox_id=hung.id), 0.5
        )
        assert bench.exited(well, bench.run(well, ExitWith(5))).exit_code == 5
        with pytest.raises(CallFailedError) as unknown:
            bench.wait(late)
        assert unknown.value.kind is FailureKind.TIMED_OUT
        bench.driver.reopen()
        listing = bench.call(ListPods(), 8)
        assert [p.uid for p in listing.pods] == sorted([hung.uid, well.uid])
    pod = bench.call(RemoveSandbox(uid=hung.uid, sandbox_id=hung.id))
    assert pod.sandboxes == ()


@pytest.mark.slow
def test_a_keeper_that_hangs_for_good_is_killed_to_stop_its_sandbox(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    keeper = keeper_of(bench, sandbox)
    os.kill(keeper, signal.SIGSTOP)
    pod = bench.call(RemoveSandbox(uid=sandbox.uid, sandbox_id=sandbox.id), 40)
    assert pod.sandboxes == ()
    assert is_gone(keeper)
    assert is_gone(container.pid)


def test_a_damaged_record_is_set_aside_and_said(bench):
    sandbox, well = bench.run_sandbox(), bench.run_sandbox()
    bench.driver.runtime.close()
    kill_keeper(bench, sandbox)
    (folder_of(bench, sandbox) / "record.json").write_text('{"version":1,"sandb')
    bench.driver.reopen()
    assert [p.uid for p in bench.listing().pods] == [well.uid]
    info = bench.call(RuntimeStatus())
    assert info.ready
    assert sandbox.id in info.detail
    assert (bench.driver.root / "run" / "damaged" / sandbox.id / "record.json").exists()


def test_a_folder_of_sandboxes_that_cannot_be_read_at_the_start_is_tried_again(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    bench.driver.runtime.close()
    folder = bench.driver.root / "run" / "sandboxes"
    folder.rename(folder.with_name("away"))
    folder.write_text("in the way")
    bench.driver.reopen()
    with pytest.raises(CallFailedError, match="cannot be made or read"):
        bench.listing()
    info = bench.call(RuntimeStatus())
    assert not info.ready
    assert str(folder) in info.detail
    folder.unlink()
    folder.with_name("away").rename(folder)
    bench.until(lambda: bench.call(RuntimeStatus()).ready, "it was read after all")
    [pod] = bench.listing().pods
    assert [c.pid for c in pod.containers] == [container.pid]


def test_a_half_made_sandbox_is_cleared_away(bench):
    bench.listing()
    bench.driver.runtime.close()
    place = bench.driver.root / "run" / "sandboxes" / ("0" * 32)
    place.mkdir(mode=0o700)
    bench.driver.reopen()
    assert bench.listing().pods == ()
    assert not place.exists()


def test_a_keeper_server_that_died_is_started_again(bench):
    first = bench.run_sandbox()
    (pid,) = [pid for pid in process.all_pids() if pid == bench.driver.runtime._keeper_server.permitted.pid]
    os.kill(pid, signal.SIGKILL)
    bench.until(lambda: is_gone(pid), "the end of the keeper server")
    second = bench.run_sandbox()
    assert bench.exited(second, bench.run(second, ExitWith(2))).exit_code == 2
    assert bench.exited(first, bench.run(first, ExitWith(4))).exit_code == 4


@contextlib.contextmanager
def in_the_keepers_place(bench, sandbox, *, oldest, newest):
    """Be the keeper of a sandbox, of these protocol versions; give its connection to a new driver."""
    record = record_of(bench, sandbox)
    bench.driver.runtime.close()
    kill_keeper(bench, sandbox)
    with socket.socket(socket.AF_UNIX) as listener:
        place = folder_of(bench, sandbox)
        (place / "keeper.sock").unlink()
        fd = os.open(place, os.O_PATH)
        listener.bind(f"/proc/self/fd/{fd}/keeper.sock")
        os.close(fd)
        listener.listen()
        bench.driver.reopen()
        link = []

        def greet():
            link.append(listener.accept()[0])
            me = process.look(os.getpid())
            hello = {
                "oldest": oldest,
                "newest": newest,
                "sandbox": sandbox.id,
                "pid": me.pid,
                "start": me.start,
            }
            body = {"hello": hello, "record": record | {"a field of the future": 1}}
            link[0].sendall(frame.pack(body))

        yield greet
        # It is this test that keeps this pod: its end must not be taken for ours.
        bench.driver.runtime.close()
        for one in link:
            one.close()
    bench.driver.reopen()
    bench.until(
        lambda: bench.inspect(sandbox.uid).sandboxes[0].state is SandboxState.NOT_READY, "the end of the pod"
    )


def test_a_keeper_of_a_later_protocol_is_shown_and_not_touched(bench):
    sandbox = bench.run_sandbox()
    with in_the_keepers_place(bench, sandbox, oldest=7, newest=9) as greet:
        pending = bench.begin(StopSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
        greet()
        with pytest.raises(CallFailedError, match="speaks protocol 7 to 9") as refused:
            bench.wait(pending)
        assert refused.value.kind is FailureKind.UNAVAILABLE
        assert bench.inspect(sandbox.uid).sandboxes[0].state is SandboxState.READY


def test_a_keeper_of_the_first_protocol_is_not_asked_to_open_a_log_anew(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    with in_the_keepers_place(bench, sandbox, oldest=1, newest=1) as greet:
        pending = bench.begin(ReopenContainerLog(uid=sandbox.uid, container_id=container.id))
        greet()
        with pytest.raises(CallFailedError, match="older agent") as refused:
            bench.wait(pending)
        assert refused.value.kind is FailureKind.REJECTED


def test_a_folder_of_somebody_else_is_refused_in_words(bench, tmp_path):
    bench.driver.runtime.close()
    (tmp_path / "elsewhere").mkdir()
    bench.driver.root.mkdir(exist_ok=True)
    for leftover in ("nursery.err", "sandboxes"):
        with contextlib.suppress(OSError):
            (bench.driver.root / "run" / leftover).rmdir()
    (bench.driver.root / "run").rename(tmp_path / "moved") if (bench.driver.root / "run").exists() else None
    (bench.driver.root / "run").symlink_to(tmp_path / "elsewhere")
    bench.driver.reopen()
    with pytest.raises(CallFailedError) as refused:
        bench.listing()
    assert refused.value.kind is FailureKind.DENIED
    info = bench.call(RuntimeStatus())
    assert info.ready is False
    assert str(bench.driver.root / "run") in info.detail
    bench.driver.runtime.close()
    (bench.driver.root / "run").unlink()
    bench.driver.reopen()


def test_keepers_load_the_standard_library_only():
    program = (
        f"import sys; sys.path.append({str(KEEPER_PACKAGE.parents[3])!r});"
        "import runtime.drivers.embedded.keeper.server;"
        "print(*sorted(name.partition('.')[0] for name in sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    strangers = {n for n in out.stdout.split() if n not in sys.stdlib_module_names} - {"runtime", "__main__"}
    assert strangers == set()
