"""Stopping: grace, escalation, and what a second call or a cancelled one changes."""

import pytest

from api.errors import FailureKind
from api.ports.runtime import RuntimeContainerState, StopContainer
from tests.conformance.containers.driver import CallFailedError, one
from tests.conformance.containers.script import ExitWith, IgnoreTerm, Run, SlowTerm


def test_a_container_that_obeys_ends_at_once_by_sigterm(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    bench.listening(container)
    began = bench.driver.now()
    pod = bench.wait(bench.stop(sandbox, container, grace_s=30))
    assert bench.driver.now() - began < 5
    ended = one(pod, container.id)
    assert (ended.state, ended.exit_code, ended.reason) == (RuntimeContainerState.EXITED, 143, "Error")
    if bench.driver.shows_signals:
        assert ended.signal == 15


def test_a_stop_answers_after_the_exit_was_recorded(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, SlowTerm(0.3, 9))
    bench.printed(container, "ready")
    pod = bench.wait(bench.stop(sandbox, container, grace_s=30))
    assert one(pod, container.id).exit_code == 9
    assert one(pod, container.id).finished_at is not None
    assert bench.inspect(sandbox.uid) == pod


def test_a_container_that_ignores_sigterm_is_killed_when_its_grace_is_over(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, IgnoreTerm())
    bench.printed(container, "ready")
    began = bench.driver.now()
    pod = bench.wait(bench.stop(sandbox, container, grace_s=1))
    took = bench.driver.now() - began
    assert 1 - 0.05 <= took <= 1 + bench.driver.margin_s
    ended = one(pod, container.id)
    assert ended.exit_code == 137
    if bench.driver.shows_signals:
        assert ended.signal == 9


def test_no_grace_kills_at_once(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, SlowTerm(20, 0))
    bench.printed(container, "ready")
    began = bench.driver.now()
    pod = bench.wait(bench.stop(sandbox, container, grace_s=0))
    assert bench.driver.now() - began <= bench.driver.margin_s
    assert one(pod, container.id).exit_code == 137


def test_a_second_stop_with_a_shorter_grace_wins_for_both(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, IgnoreTerm())
    bench.printed(container, "ready")
    began = bench.driver.now()
    patient = bench.stop(sandbox, container, grace_s=60)
    hasty = bench.stop(sandbox, container, grace_s=1)
    assert one(bench.wait(hasty), container.id).exit_code == 137
    assert one(bench.wait(patient), container.id).exit_code == 137
    assert bench.driver.now() - began <= 1 + bench.driver.margin_s


def test_a_second_stop_without_grace_ends_a_patient_one(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, IgnoreTerm())
    bench.printed(container, "ready")
    patient = bench.stop(sandbox, container, grace_s=60)
    assert one(bench.wait(bench.stop(sandbox, container, grace_s=0)), container.id).exit_code == 137
    assert one(bench.wait(patient), container.id).exit_code == 137


def test_a_second_stop_with_a_longer_grace_extends_nothing(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, IgnoreTerm())
    bench.printed(container, "ready")
    began = bench.driver.now()
    first = bench.stop(sandbox, container, grace_s=1)
    second = bench.stop(sandbox, container, grace_s=60)
    assert one(bench.wait(first), container.id).exit_code == 137
    assert one(bench.wait(second), container.id).exit_code == 137
    assert bench.driver.now() - began <= 1 + bench.driver.margin_s


def test_cancelling_a_stop_does_not_take_back_the_signal(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, SlowTerm(0.5, 21))
    bench.printed(container, "ready")
    pending = bench.stop(sandbox, container, grace_s=60)
    began = bench.driver.now()
    # The signal is on its way once a little time passed; a cancelled call has still to answer.
    bench.until(lambda: bench.driver.now() - began > 0.1, "a tenth of a second")
    pending.cancel()
    with pytest.raises(CallFailedError) as cancelled:
        bench.wait(pending)
    assert cancelled.value.kind is FailureKind.CANCELLED
    assert bench.exited(sandbox, container).exit_code == 21
    assert len(pending.answers) == 1


def test_a_cancelled_stop_still_kills_when_its_grace_is_over_or_leaves_that_to_the_next_one(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, IgnoreTerm())
    bench.printed(container, "ready")
    pending = bench.stop(sandbox, container, grace_s=1)
    began = bench.driver.now()
    bench.until(lambda: bench.driver.now() - began > 0.1, "a tenth of a second")
    pending.cancel()
    assert bench.look(sandbox, container).state is RuntimeContainerState.RUNNING
    if not bench.driver.escalates_after_cancel:
        bench.until(lambda: bench.driver.now() - began > 1.3, "the grace and a moment")
        assert bench.look(sandbox, container).state is RuntimeContainerState.RUNNING
        bench.wait(bench.stop(sandbox, container, grace_s=0))
    assert bench.exited(sandbox, container).exit_code == 137


def test_a_stop_past_its_deadline_says_that_its_outcome_is_unknown(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, IgnoreTerm())
    bench.printed(container, "ready")
    call = StopContainer(uid=sandbox.uid, container_id=container.id, grace_s=60)
    with pytest.raises(CallFailedError) as late:
        bench.call(call, deadline_s=0.3)
    assert late.value.kind is FailureKind.TIMED_OUT
    assert bench.look(sandbox, container).state is RuntimeContainerState.RUNNING


def test_stopping_what_does_not_run_succeeds_and_changes_nothing(bench):
    sandbox = bench.run_sandbox()
    ended = bench.exited(sandbox, bench.run(sandbox, ExitWith(6)))
    pod = bench.wait(bench.stop(sandbox, ended, grace_s=10))
    assert one(pod, ended.id) == ended


def test_stopping_an_unknown_container_succeeds(bench):
    sandbox = bench.run_sandbox()
    call = StopContainer(uid=sandbox.uid, container_id=f"{bench.driver.scheme}0123456789ab", grace_s=10)
    assert bench.call(call) == bench.inspect(sandbox.uid)


def test_one_slow_stop_holds_up_nobody_else(bench):
    slow = bench.run_sandbox()
    stubborn = bench.run(slow, IgnoreTerm())
    bench.printed(stubborn, "ready")
    pending = bench.stop(slow, stubborn, grace_s=60)
    other = bench.run_sandbox()
    container = bench.run(other, Run())
    bench.listening(container)
    assert one(bench.wait(bench.stop(other, container, grace_s=30)), container.id).exit_code == 143
    assert not pending.ended
    bench.wait(bench.stop(slow, stubborn, grace_s=0))
