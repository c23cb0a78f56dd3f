"""Events: a hint for each change, for the pod that changed."""

import pytest

from api.containers import StopSandbox
from tests.conformance.containers.driver import remove
from tests.conformance.containers.script import Run, SleepThenExit


@pytest.fixture
def hearing(bench):
    if not bench.driver.pushes_events:
        pytest.skip("this runtime pushes no events")
    bench.listen()
    return bench


def heard_after(bench, uid, change):
    """Return what `change` returns, after a hint for `uid` came."""
    bench.heard.clear()
    result = change()
    bench.until(lambda: uid in bench.heard, "a hint of the change")
    return result


def test_each_change_of_a_pod_brings_a_hint(hearing):
    uid = hearing.new_uid()
    sandbox = heard_after(hearing, uid, lambda: hearing.run_sandbox(uid))
    container = heard_after(hearing, uid, lambda: hearing.create(sandbox, Run()))
    heard_after(hearing, uid, lambda: hearing.start(sandbox, container))
    heard_after(hearing, uid, lambda: hearing.wait(hearing.stop(sandbox, container, 10)))
    heard_after(hearing, uid, lambda: hearing.call(remove(sandbox, container)))
    heard_after(hearing, uid, lambda: hearing.call(StopSandbox(uid=uid, sandbox_id=sandbox.id)))


def test_an_exit_by_itself_brings_a_hint_and_the_truth_is_there_by_then(hearing):
    sandbox = hearing.run_sandbox()
    container = hearing.run(sandbox, SleepThenExit(2.5, 8))
    hearing.until(lambda: sandbox.uid in hearing.heard, "the hints of the start")
    began = hearing.driver.now()
    hearing.until(lambda: hearing.driver.now() - began > 0.2, "the hints of the start to be through")
    hearing.heard.clear()
    hearing.until(lambda: sandbox.uid in hearing.heard, "the hint of the exit")
    assert hearing.exited(sandbox, container, within_s=1).exit_code == 8


def test_a_closed_stream_brings_nothing_more(hearing):
    hearing.run_sandbox()
    hearing.until(lambda: hearing.heard, "a hint")
    hearing.unlisten()
    hearing.unlisten()
    hearing.heard.clear()
    sandbox = hearing.run_sandbox()
    hearing.exited(sandbox, hearing.run(sandbox, SleepThenExit(0.2, 0)))
    assert hearing.heard == []
