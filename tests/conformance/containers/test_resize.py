"""What confines a container can be changed while it runs."""

import pytest

from api.errors import FailureKind
from api.ports.confinement import Resources
from api.ports.runtime import RuntimeContainerState, UpdateContainer
from tests.conformance.containers.driver import CallFailedError, one
from tests.conformance.containers.script import ExitWith, Run

MI = 1 << 20
GIVEN = Resources(cpu_period_us=100_000, cpu_quota_us=50_000, cpu_shares=256, memory_limit_bytes=64 * MI)


def update(sandbox, container, **fields):
    return UpdateContainer(uid=sandbox.uid, container_id=container.id, resources=Resources(**fields))


@pytest.fixture
def confining(bench):
    """Return the suite's hands on a runtime that confines containers."""
    if not bench.driver.confines:
        pytest.skip("this runtime confines no container by itself")
    return bench


def test_a_running_container_gets_other_amounts_and_runs_on(confining):
    sandbox = confining.run_sandbox()
    container = confining.run(sandbox, Run(), resources=GIVEN)
    asked = update(
        sandbox,
        container,
        cpu_period_us=100_000,
        cpu_quota_us=80_000,
        cpu_shares=512,
        memory_limit_bytes=96 * MI,
    )
    after = one(confining.call(asked), container.id)
    assert (after.state, after.pid) == (RuntimeContainerState.RUNNING, container.pid)
    assert confining.amounts(after) == (80_000, 512, 96 * MI)


def test_what_is_not_given_stays_as_it_is(confining):
    sandbox = confining.run_sandbox()
    container = confining.run(sandbox, Run(), resources=GIVEN)
    after = one(confining.call(update(sandbox, container, memory_limit_bytes=80 * MI)), container.id)
    assert confining.amounts(after) == (50_000, 256, 80 * MI)
    after = one(confining.call(update(sandbox, container, cpu_shares=300)), container.id)
    assert confining.amounts(after) == (50_000, 300, 80 * MI)


def test_the_same_amounts_twice_change_nothing(confining):
    sandbox = confining.run_sandbox()
    container = confining.run(sandbox, Run(), resources=GIVEN)
    first = confining.call(update(sandbox, container, cpu_shares=300))
    assert confining.call(update(sandbox, container, cpu_shares=300)) == first


def test_one_that_has_ended_cannot_be_changed(confining):
    sandbox = confining.run_sandbox()
    ended = confining.exited(sandbox, confining.run(sandbox, ExitWith(0), resources=GIVEN))
    with pytest.raises(CallFailedError) as refused:
        confining.call(update(sandbox, ended, cpu_shares=300))
    assert refused.value.kind is FailureKind.CONFLICT


def test_one_that_is_not_there_cannot_be_changed(confining):
    sandbox = confining.run_sandbox()
    call = UpdateContainer(
        uid=sandbox.uid, container_id=f"{confining.driver.scheme}0123456789ab", resources=GIVEN
    )
    with pytest.raises(CallFailedError) as refused:
        confining.call(call)
    assert refused.value.kind is FailureKind.NOT_FOUND


@pytest.mark.parametrize("bench", ["embedded"], indirect=True)
def test_a_runtime_that_confines_nothing_says_so(bench):
    assert not bench.driver.confines
    sandbox = bench.run_sandbox()
    with pytest.raises(CallFailedError) as refused:
        bench.call(update(sandbox, bench.run(sandbox, Run()), cpu_shares=300))
    assert refused.value.kind is FailureKind.REJECTED
