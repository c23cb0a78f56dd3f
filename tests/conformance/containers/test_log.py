"""A container's log file is opened anew after a rotation: nothing is lost, nothing stands twice."""

import pytest

from api.errors import FailureKind
from api.ports.runtime import ReopenContainerLog
from tests.conformance.containers.driver import CallFailedError
from tests.conformance.containers.script import ExitWith, Print

TICKS = 40


def ticks(count):
    return Print(tuple(("stdout", f"tick {n}") for n in range(count)))


@pytest.fixture(autouse=True)
def _reopens_logs(bench):
    if not bench.driver.reopens_logs:
        pytest.skip("this runtime cannot open a log anew")


def reopen(bench, sandbox, container):
    return bench.call(ReopenContainerLog(uid=sandbox.uid, container_id=container.id))


def test_after_a_rename_and_a_reopen_new_lines_go_to_the_new_file_and_none_is_lost(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, ticks(TICKS))
    path = container.log_path
    bench.printed(container, "tick 2")
    bench.driver.rename_log(path, "0.log.20240102-030405")
    shown = reopen(bench, sandbox, container)
    assert container.id in [c.id for c in shown.containers]
    bench.printed(container, f"tick {TICKS - 1}")
    old = bench.driver.lines_of(f"{path}.20240102-030405")
    new = bench.driver.lines_of(path)
    assert old[:3] == [("stdout", f"tick {n}") for n in range(3)]
    assert new, "new lines are in the new file"
    assert old + new == [("stdout", f"tick {n}") for n in range(TICKS)]


def test_a_log_that_was_not_renamed_goes_on_in_its_file(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, ticks(20))
    bench.printed(container, "tick 1")
    reopen(bench, sandbox, container)
    bench.printed(container, "tick 19")
    assert bench.driver.log_lines(container) == [("stdout", f"tick {n}") for n in range(20)]


def test_the_log_of_a_container_that_ended_is_not_opened(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, ExitWith(0))
    bench.exited(sandbox, container)
    with pytest.raises(CallFailedError):
        reopen(bench, sandbox, container)


def test_the_log_of_an_unknown_container_is_not_found(bench):
    sandbox = bench.run_sandbox()
    unknown = ReopenContainerLog(uid=sandbox.uid, container_id=f"{bench.driver.scheme}0123456789ab")
    with pytest.raises(CallFailedError) as caught:
        bench.call(unknown)
    assert caught.value.kind is FailureKind.NOT_FOUND
