"""A new driver object over the same world finds everything as it was, and hears of what comes."""

import pytest

from api.ports.runtime import RunSandbox, RuntimeContainerState, StartContainer
from tests.conformance.containers.driver import one
from tests.conformance.containers.script import ExitWith, IgnoreTerm, Run, SleepThenExit

ADOPTED_S = 2.6
"""After so long a runtime without events of its own watches what ran already."""


def test_a_new_driver_shows_the_same_pods_and_starts_nothing(bench):
    sandbox = bench.run_sandbox()
    bench.run(sandbox, Run(), "runs")
    bench.exited(sandbox, bench.run(sandbox, ExitWith(12), "ended"))
    bench.create(sandbox, Run(), "created")
    before = bench.inspect(sandbox.uid)
    bench.reopen()
    assert bench.inspect(sandbox.uid) == before
    assert [p.uid for p in bench.listing().pods] == [sandbox.uid]


def test_what_each_call_of_a_start_shows_is_what_a_new_driver_sees(bench):
    uid = bench.new_uid()
    shown = bench.call(RunSandbox(spec=bench.sandbox_spec(uid)))
    bench.reopen()
    assert bench.inspect(uid) == shown
    (sandbox,) = shown.sandboxes
    for name in ("first", "second"):
        shown = bench.call(bench.creation(sandbox, bench.container_spec(Run(), name)))
        bench.reopen()
        assert bench.inspect(uid) == shown
        (made,) = (one for one in shown.containers if one.name == name)
        shown = bench.call(StartContainer(uid=uid, container_id=made.id))
        bench.reopen()
        assert bench.inspect(uid) == shown


def test_an_adopted_container_can_be_stopped(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, Run())
    bench.reopen()
    assert one(bench.wait(bench.stop(sandbox, container, 10)), container.id).exit_code == 143


def test_an_exit_while_nobody_looked_keeps_its_code(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, SleepThenExit(0.3, 44))
    bench.reopen()
    ended = bench.exited(sandbox, container)
    assert (ended.exit_code, ended.state) == (44, RuntimeContainerState.EXITED)


@pytest.mark.slow
def test_an_exit_after_the_restart_brings_a_hint(bench):
    if not bench.driver.pushes_events:
        pytest.skip("this runtime pushes no events")
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, SleepThenExit(4.5, 45))
    bench.reopen()
    bench.listen()
    began = bench.driver.now()
    bench.until(lambda: bench.driver.now() - began > ADOPTED_S, "the hints of the adoption to be through")
    bench.heard.clear()
    bench.until(lambda: sandbox.uid in bench.heard, "a hint of the exit")
    assert bench.exited(sandbox, container, within_s=1).exit_code == 45


def test_identical_requests_are_still_recognised(bench):
    uid = bench.new_uid()
    sandbox = bench.run_sandbox(uid)
    container = bench.run(sandbox, Run())
    bench.reopen()
    assert bench.run_sandbox(uid) == sandbox
    assert bench.create(sandbox, Run()) == container


def test_creation_times_go_on_increasing(bench):
    sandbox = bench.run_sandbox()
    first = bench.create(sandbox, Run(), "a")
    bench.reopen()
    assert bench.create(sandbox, Run(), "b").created_at > first.created_at


@pytest.mark.slow
def test_a_kill_in_progress_goes_on_without_its_driver(bench):
    sandbox = bench.run_sandbox()
    container = bench.run(sandbox, IgnoreTerm())
    bench.printed(container, "ready")
    bench.stop(sandbox, container, grace_s=60)
    began = bench.driver.now()
    bench.until(lambda: bench.driver.now() - began > 0.1, "a tenth of a second")
    bench.reopen()
    assert bench.look(sandbox, container).state is RuntimeContainerState.RUNNING
    assert one(bench.wait(bench.stop(sandbox, container, grace_s=1)), container.id).exit_code == 137


def test_a_container_is_made_and_run_in_a_sandbox_of_another_agent(bench):
    sandbox = bench.run_foreign_sandbox()
    assert bench.inspect(sandbox.uid).ours is False
    first = bench.exited(sandbox, bench.run(sandbox, ExitWith(3)))
    bench.reopen()
    second = bench.run(sandbox, Run(), attempt=1)
    assert (first.sandbox_id, first.exit_code) == (sandbox.id, 3)
    assert (second.sandbox_id, second.state) == (sandbox.id, RuntimeContainerState.RUNNING)
    assert [s.id for s in bench.inspect(sandbox.uid).sandboxes] == [sandbox.id]
    assert second.log_path == first.log_path.replace("0.log", "1.log")
