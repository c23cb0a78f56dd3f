"""Containers: the state machine, exit codes, what is echoed, what is refused."""

import pytest

from api.errors import FailureKind
from api.ports.runtime import EnvironmentVariable, RuntimeContainerState, StartContainer
from tests.conformance.containers.driver import CallFailedError, one, remove
from tests.conformance.containers.script import (
    DieBySignal,
    ExitWith,
    Missing,
    Print,
    Run,
    SleepThenExit,
)


def test_a_created_container_echoes_what_it_was_made_from(bench):
    sandbox = bench.run_sandbox()
    spec = bench.container_spec(Run(), "web", attempt=2)
    pod = bench.call(bench.creation(sandbox, spec))
    (container,) = pod.containers
    assert container.id.startswith(bench.driver.scheme)
    assert (container.sandbox_id, container.name, container.attempt) == (sandbox.id, "web", 2)
    assert (container.image, container.state) == (spec.image, RuntimeContainerState.CREATED)
    assert dict(container.labels) == dict(spec.labels)
    assert dict(container.annotations) == dict(spec.annotations)
    assert container.log_path == f"{bench.sandbox_spec(sandbox.uid).log_directory}/web/2.log"
    assert (container.started_at, container.finished_at, container.exit_code) == (None, None, None)


def test_creating_the_identical_container_again_returns_the_same_one(bench):
    sandbox = bench.run_sandbox()
    first = bench.create(sandbox, Run())
    assert bench.create(sandbox, Run()) == first
    assert len(bench.inspect(sandbox.uid).containers) == 1


def test_creating_the_identical_container_of_a_running_one_changes_nothing(bench):
    sandbox = bench.run_sandbox()
    running = bench.run(sandbox, Run())
    assert bench.create(sandbox, Run()) == running


def test_another_container_under_the_same_attempt_is_refused(bench):
    sandbox = bench.run_sandbox()
    bench.create(sandbox, Run())
    with pytest.raises(CallFailedError) as refused:
        bench.create(sandbox, ExitWith(1))
    assert refused.value.kind is FailureKind.ALREADY_EXISTS
    assert len(bench.inspect(sandbox.uid).containers) == 1


def test_a_started_container_runs_and_says_since_when(bench):
    sandbox = bench.run_sandbox()
    created = bench.create(sandbox, Run())
    running = bench.start(sandbox, created)
    assert running.state is RuntimeContainerState.RUNNING
    assert running.id == created.id
    assert running.created_at == created.created_at
    assert created.created_at <= running.started_at <= bench.latest()
    assert (running.finished_at, running.exit_code, running.reason) == (None, None, "")


@pytest.mark.parametrize("code", [0, 1, 37, 255])
def test_an_exit_code_is_shown_as_it_was(bench, code):
    sandbox = bench.run_sandbox()
    ended = bench.exited(sandbox, bench.run(sandbox, ExitWith(code)))
    assert (ended.exit_code, ended.signal) == (code, 0)
    assert ended.reason == ("Error" if code else "Completed")
    assert ended.created_at <= ended.started_at <= ended.finished_at <= bench.latest()
    assert ended.pid == 0


def test_a_container_that_works_for_a_while_runs_first(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, SleepThenExit(0.3, 3))
    assert container.state is RuntimeContainerState.RUNNING
    assert bench.exited(sandbox, container).exit_code == 3


@pytest.mark.parametrize("signal", [9, 6])
def test_a_death_by_signal_is_128_and_the_signal(bench, signal):
    sandbox = bench.run_sandbox()
    ended = bench.exited(sandbox, bench.run(sandbox, DieBySignal(signal)))
    assert ended.exit_code == 128 + signal
    assert ended.reason == "Error"
    if bench.driver.shows_signals:
        assert ended.signal == signal


def test_a_program_that_does_not_exist_leaves_an_exited_container_that_says_why(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Missing())
    assert container.state is RuntimeContainerState.EXITED
    assert (container.exit_code, container.reason) == (128, "StartError")
    assert container.message
    assert container.finished_at >= container.created_at
    assert bench.look(sandbox, container) == container


def test_an_image_that_the_runtime_does_not_have_is_refused_by_name(bench):
    sandbox = bench.run_sandbox()
    with pytest.raises(CallFailedError) as refused:
        bench.create(sandbox, Run(), image=bench.driver.unknown_image)
    assert refused.value.kind is FailureKind.REJECTED
    assert bench.driver.unknown_image in refused.value.failure.message
    assert refused.value.failure.reason
    assert bench.inspect(sandbox.uid).containers == ()


def test_a_refused_container_leaves_its_name_free(bench):
    sandbox = bench.run_sandbox()
    with pytest.raises(CallFailedError):
        bench.create(sandbox, Run(), image=bench.driver.unknown_image)
    assert bench.run(sandbox, Run()).state is RuntimeContainerState.RUNNING


def test_starting_an_unknown_container_fails_with_not_found(bench):
    sandbox = bench.run_sandbox()
    call = StartContainer(uid=sandbox.uid, container_id=f"{bench.driver.scheme}0123456789ab")
    with pytest.raises(CallFailedError) as refused:
        bench.call(call)
    assert refused.value.kind is FailureKind.NOT_FOUND


def test_a_running_container_is_not_started_again(bench):
    sandbox = bench.run_sandbox()
    running = bench.run(sandbox, Run())
    with pytest.raises(CallFailedError) as refused:
        bench.start(sandbox, running)
    assert refused.value.kind is FailureKind.CONFLICT
    assert bench.look(sandbox, running) == running


def test_an_exited_container_is_not_started_again(bench):
    sandbox = bench.run_sandbox()
    ended = bench.exited(sandbox, bench.run(sandbox, ExitWith(1)))
    with pytest.raises(CallFailedError) as refused:
        bench.start(sandbox, ended)
    assert refused.value.kind is FailureKind.CONFLICT
    assert bench.look(sandbox, ended) == ended


def test_the_next_attempt_stands_before_the_old_one_with_a_later_creation(bench):
    sandbox = bench.run_sandbox()
    made = [bench.create(sandbox, ExitWith(0), "main", attempt) for attempt in range(5)]
    made += [bench.create(sandbox, ExitWith(0), f"side-{n}") for n in range(5)]
    created = [c.created_at for c in made]
    assert created == sorted(set(created))
    assert created[0] > sandbox.created_at
    assert [c.id for c in bench.inspect(sandbox.uid).containers] == [c.id for c in reversed(made)]


def test_removing_a_container_removes_its_record_and_nothing_else(bench):
    sandbox = bench.run_sandbox()
    gone = bench.exited(sandbox, bench.run(sandbox, ExitWith(1), "gone"))
    stays = bench.run(sandbox, Run(), "stays")
    pod = bench.call(remove(sandbox, gone))
    assert [c.id for c in pod.containers] == [stays.id]
    assert one(pod, stays.id).state is RuntimeContainerState.RUNNING
    assert bench.call(remove(sandbox, gone)) == pod


def test_a_created_container_can_be_removed(bench):
    sandbox = bench.run_sandbox()
    assert bench.call(remove(sandbox, bench.create(sandbox, Run()))).containers == ()


def test_a_removed_container_leaves_its_name_free(bench):
    sandbox = bench.run_sandbox()
    first = bench.exited(sandbox, bench.run(sandbox, ExitWith(1)))
    bench.call(remove(sandbox, first))
    second = bench.create(sandbox, ExitWith(2))
    assert second.id != first.id
    assert second.created_at > first.created_at


def test_lines_are_logged_in_order_with_their_stream(bench):
    sandbox = bench.run_sandbox()
    lines = (("stdout", "one"), ("stderr", "two words"), ("stdout", "three"))
    ended = bench.exited(sandbox, bench.run(sandbox, Print(lines)))
    bench.until(lambda: len(bench.driver.log_lines(ended)) == len(lines), "all lines in the log")
    assert tuple(bench.driver.log_lines(ended)) == lines


def test_a_log_stays_after_its_container_is_removed(bench):
    sandbox = bench.run_sandbox()
    ended = bench.exited(sandbox, bench.run(sandbox, Print((("stdout", "remember me"),))))
    bench.printed(ended, "remember me")
    bench.call(remove(sandbox, ended))
    bench.printed(ended, "remember me")


def test_an_environment_value_is_shown_nowhere(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run(), env=(EnvironmentVariable("PASSWORD", "swordfish-77"),))
    assert "swordfish-77" not in repr(bench.inspect(sandbox.uid))
    assert "swordfish-77" not in repr(container)
