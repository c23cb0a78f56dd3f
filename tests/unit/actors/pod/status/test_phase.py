"""The phase from container statuses, row by row of reference 10.2."""

import msgspec
import pytest

from actors.pod.status.phase import phase_of
from api.kube.objects.pod import ContainerState as State
from api.kube.objects.pod import (
    ContainerStateRunning,
    ContainerStateWaiting,
)
from tests.unit.actors.pod.status.statuses import ended, started, status
from tests.unit.actors.pods import wanted

RUNS = State(running=ContainerStateRunning())
WAITS = State(waiting=ContainerStateWaiting(reason="ContainerCreating"))


@pytest.mark.parametrize(
    ("policy", "first", "second", "terminal", "static", "phase"),
    [
        ("Always", (WAITS,), (RUNS,), False, False, "Pending"),
        ("Always", (State(),), (RUNS,), False, False, "Pending"),
        ("Always", (RUNS,), (RUNS,), False, False, "Running"),
        ("Never", (RUNS,), (ended(1),), False, False, "Running"),
        ("Always", (RUNS,), (WAITS, ended(1)), False, False, "Running"),
        ("Always", (RUNS,), None, False, False, "Pending"),
        ("Always", (ended(0),), (ended(0),), True, False, "Succeeded"),
        ("Always", (ended(0),), (ended(1),), True, False, "Failed"),
        ("Always", (ended(0),), (ended(0),), False, False, "Running"),
        ("Always", (ended(0),), (ended(0),), True, True, "Running"),
        ("OnFailure", (ended(0),), (ended(1),), False, False, "Running"),
        ("OnFailure", (ended(0),), (WAITS, ended(1)), False, False, "Running"),
        ("OnFailure", (ended(0),), (ended(0),), False, False, "Succeeded"),
        ("Never", (ended(0),), (ended(0),), False, True, "Succeeded"),
        ("Never", (ended(0),), (ended(1),), False, False, "Failed"),
        ("Never", (ended(0),), (WAITS,), False, False, "Pending"),
        ("Never", None, None, False, False, "Pending"),
    ],
)
def test_the_phase_follows_from_the_containers(policy, first, second, terminal, static, phase):
    given = [("a", first), ("b", second)]
    statuses = tuple(status(name, *states) for name, states in given if states is not None)
    assert phase_of(wanted("a", "b", policy=policy).spec, statuses, terminal=terminal, static=static) == phase


PLAIN, BESIDE = (
    wanted("i").spec.containers[0],
    msgspec.structs.replace(wanted("s").spec.containers[0], restart_policy="Always"),
)
UP = (RUNS,)


@pytest.mark.parametrize(
    ("policy", "init", "sidecar", "main", "initialised", "phase"),
    [
        # Init container, sidecar, main: state, and last state where there is one; None where there is no status.
        ("Never", (ended(1),), UP, (WAITS,), False, "Failed"),
        ("Never", (WAITS, ended(1)), UP, (WAITS,), False, "Failed"),
        ("Always", (ended(1),), UP, (WAITS,), False, "Pending"),
        ("Always", (WAITS, ended(1)), UP, (RUNS,), True, "Running"),
        ("Always", None, UP, (RUNS,), True, "Pending"),
        ("Always", (RUNS,), UP, (RUNS,), True, "Pending"),
        ("Always", (WAITS,), UP, (RUNS,), True, "Pending"),
        ("Always", (ended(0),), UP, (WAITS,), False, "Pending"),
        ("Always", (ended(0),), UP, (RUNS,), True, "Running"),
        ("Always", (ended(0),), (WAITS,), (RUNS,), True, "Pending"),
        ("Always", (ended(0),), (WAITS,), (ended(0),), False, "Pending"),
        ("Always", (ended(0),), (WAITS, ended(1)), (RUNS,), True, "Running"),
        ("Always", (ended(0),), None, (RUNS,), True, "Pending"),
        ("Never", (ended(0),), UP, (ended(0),), True, "Running"),
        ("Never", (ended(0),), (ended(9),), (ended(0),), True, "Succeeded"),
        ("Never", (ended(0),), (ended(0),), (ended(9),), True, "Failed"),
    ],
)
def test_the_phase_follows_from_init_containers_first(policy, init, sidecar, main, initialised, phase):
    pod = wanted("a", policy=policy, init_containers=(PLAIN, BESIDE))
    given = [("i", init), ("s", sidecar)]
    inits = tuple(started(status(name, *states)) for name, states in given if states is not None)
    found = phase_of(
        pod.spec,
        (status("a", *main),),
        terminal=False,
        static=False,
        inits=inits,
        initialised=initialised,
    )
    assert found == phase


def test_a_sidecar_that_is_not_started_keeps_a_pod_pending_until_it_is_initialised():
    pod = wanted("a", init_containers=(BESIDE,))

    def found(*, initialised):
        inits, mains = (status("s", RUNS),), (status("a", RUNS),)
        return phase_of(pod.spec, mains, terminal=False, static=False, inits=inits, initialised=initialised)

    assert (found(initialised=False), found(initialised=True)) == ("Pending", "Running")
