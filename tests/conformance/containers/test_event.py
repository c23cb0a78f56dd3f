"""Events: a hint for whatever changes by itself, for the pod that changed.

What a call changed its caller is told by the call's result; whether there is a hint of that as well is up to the runtime.
"""

import pytest

from tests.conformance.containers.script import SleepThenExit

STARTED_S = 1.5
"""After so long the last hint of a start is through, where a runtime gives any."""


@pytest.fixture
def hearing(bench):
    if not bench.driver.pushes_events:
        pytest.skip("this runtime pushes no events")
    bench.listen()
    return bench


def test_an_exit_by_itself_brings_a_hint_and_the_truth_is_there_by_then(hearing):
    sandbox = hearing.run_sandbox()
    container = hearing.run(sandbox, SleepThenExit(2.5, 8))
    began = hearing.driver.now()
    hearing.until(lambda: hearing.driver.now() - began > STARTED_S, "the hints of the start to be through")
    hearing.heard.clear()
    hearing.until(lambda: sandbox.uid in hearing.heard, "the hint of the exit")
    assert hearing.exited(sandbox, container, within_s=1).exit_code == 8


def test_a_closed_stream_brings_nothing_more(hearing):
    sandbox = hearing.run_sandbox()
    hearing.run(sandbox, SleepThenExit(0.2, 0))
    hearing.until(lambda: hearing.heard, "a hint")
    hearing.unlisten()
    hearing.unlisten()
    hearing.heard.clear()
    sandbox = hearing.run_sandbox()
    hearing.exited(sandbox, hearing.run(sandbox, SleepThenExit(0.2, 0)))
    assert hearing.heard == []
