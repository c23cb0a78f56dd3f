"""Phase and conditions from container statuses, row by row of reference 10.2 and 10.4."""

import msgspec
import pytest

from actors.pod.phase import conditions, phase_of
from api.objects.pod import ContainerState as State
from api.objects.pod import (
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodCondition,
)
from api.wallclock import rfc3339
from tests.unit.actors.pods import NS, WALL, wanted

RUNS = State(running=ContainerStateRunning())
WAITS = State(waiting=ContainerStateWaiting(reason="ContainerCreating"))


def ended(code):
    return State(terminated=ContainerStateTerminated(exit_code=code))


def status(name, state, last=None):
    return ContainerStatus(
        name=name, state=state, last_state=last or State(), ready=state.running is not None
    )


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


def named(found):
    return {c.type: c for c in found}


def judge(phase, *statuses, base=(), wall=WALL, sandbox=True, pod=None):
    return named(conditions(pod or wanted("a", "b"), phase, statuses, base, wall, sandbox_ready=sandbox))


def test_a_pod_is_ready_when_every_container_is():
    found = judge("Running", status("a", RUNS), status("b", RUNS))
    assert {c.status for c in found.values()} == {"True"}


def test_what_is_not_ready_is_named():
    found = judge("Running", status("a", RUNS), status("b", WAITS))
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "ContainersNotReady")
    assert found["ContainersReady"].message == "containers with unready status: [b]"


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")])
def test_a_pod_at_its_end_is_never_ready(phase, reason):
    found = judge(phase, status("a", RUNS), status("b", RUNS))
    assert {(found[t].status, found[t].reason) for t in ("Ready", "ContainersReady")} == {("False", reason)}


def test_a_condition_remembers_since_when_it_is_so():
    before = judge("Running", status("a", RUNS), status("b", WAITS))
    later = judge(
        "Running", status("a", RUNS), status("b", RUNS), base=tuple(before.values()), wall=WALL + 9 * NS
    )
    assert later["PodScheduled"].last_transition_time == rfc3339(WALL)
    assert later["Ready"].last_transition_time == rfc3339(WALL + 9 * NS)


def test_initialized_stays_true_once_it_was():
    pod = msgspec.structs.replace(
        wanted("a"),
        spec=msgspec.structs.replace(wanted("a").spec, init_containers=wanted("i").spec.containers),
    )
    fresh = judge("Pending", status("a", WAITS), pod=pod)
    assert (fresh["Initialized"].status, fresh["Initialized"].message) == (
        "False",
        "containers with incomplete status: [i]",
    )
    begun = judge("Running", status("a", RUNS), pod=pod)
    again = judge("Pending", status("a", WAITS), pod=pod, base=tuple(begun.values()))
    assert again["Initialized"].status == "True"


def test_conditions_of_others_are_kept_before_ours():
    other = PodCondition(type="example.com/checked", status="True")
    found = conditions(wanted("a"), "Running", (status("a", RUNS),), (other,), WALL, sandbox_ready=False)
    assert found[0] == other
    assert named(found)["PodReadyToStartContainers"].status == "False"
