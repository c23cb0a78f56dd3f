"""Commands in running containers."""

import pytest

from api.errors import FailureKind
from api.ports.runtime import ExecInContainer, RuntimeContainerState
from tests.conformance.containers.driver import CallFailedError
from tests.conformance.containers.script import ExitWith, Print, Run, SleepThenExit


def test_a_command_gives_its_exit_code(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    assert bench.exec(sandbox, container, ExitWith(0)).exit_code == 0
    assert bench.exec(sandbox, container, ExitWith(17)).exit_code == 17


def test_a_command_gives_what_it_printed(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    result = bench.exec(sandbox, container, Print((("stdout", "out"), ("stderr", "err"))))
    assert (result.exit_code, result.stdout, result.stderr, result.truncated) == (
        0,
        b"out\n",
        b"err\n",
        False,
    )


def test_output_over_the_limit_is_cut_and_said_to_be(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    result = bench.exec(sandbox, container, Print((("stdout", "0123456789"),)), limit_bytes=4)
    assert (result.stdout, result.truncated, result.exit_code) == (b"0123", True, 0)


def test_a_command_that_takes_too_long_times_out_and_the_container_runs_on(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    with pytest.raises(CallFailedError) as late:
        bench.exec(sandbox, container, SleepThenExit(30), timeout_s=1.0)
    assert late.value.kind is FailureKind.TIMED_OUT
    assert bench.look(sandbox, container).state is RuntimeContainerState.RUNNING


def test_a_command_in_an_unknown_container_fails_with_not_found(bench):
    sandbox = bench.run_sandbox()
    command, args = bench.driver.command_for(ExitWith(0))
    call = ExecInContainer(
        uid=sandbox.uid,
        container_id=f"{bench.driver.scheme}0123456789ab",
        command=(*command, *args),
        timeout_s=5.0,
    )
    with pytest.raises(CallFailedError) as refused:
        bench.call(call)
    assert refused.value.kind is FailureKind.NOT_FOUND


def test_a_command_in_a_container_that_does_not_run_is_refused(bench):
    sandbox = bench.run_sandbox()
    ended = bench.exited(sandbox, bench.run(sandbox, ExitWith(0)))
    with pytest.raises(CallFailedError) as refused:
        bench.exec(sandbox, ended, ExitWith(0))
    assert refused.value.kind is FailureKind.CONFLICT


def test_a_cancelled_command_answers_once(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    command, args = bench.driver.command_for(SleepThenExit(30))
    pending = bench.begin(
        ExecInContainer(uid=sandbox.uid, container_id=container.id, command=(*command, *args), timeout_s=60.0)
    )
    pending.cancel()
    pending.cancel()
    with pytest.raises(CallFailedError) as cancelled:
        bench.wait(pending)
    assert cancelled.value.kind is FailureKind.CANCELLED
    assert len(pending.answers) == 1
