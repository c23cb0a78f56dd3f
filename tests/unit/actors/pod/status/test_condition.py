"""Conditions from phase and container statuses, row by row of reference 10.4."""

import msgspec
import pytest
from msgspec.structs import replace

from actors.pod.status.condition import conditions
from api.kube.objects.pod import ContainerState as State
from api.kube.objects.pod import (
    ContainerStateRunning,
    ContainerStateWaiting,
    PodCondition,
    PodReadinessGate,
    PodStatus,
)
from api.wallclock import rfc3339
from tests.unit.actors.pod.status.statuses import ended, started, status
from tests.unit.actors.pods import NS, WALL, wanted

RUNS = State(running=ContainerStateRunning())
WAITS = State(waiting=ContainerStateWaiting(reason="ContainerCreating"))


PLAIN, BESIDE = (
    wanted("i").spec.containers[0],
    replace(wanted("s").spec.containers[0], restart_policy="Always"),
)


def named(found):
    return {c.type: c for c in found}


def judge(phase, *statuses, base=(), wall=WALL, sandbox=True, pod=None, inits=()):
    found = conditions(
        pod or wanted("a", "b"), phase, statuses, base, wall, sandbox_ready=sandbox, inits=inits
    )
    return named(found)


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
    unknown = judge("Pending", status("a", WAITS), pod=pod)
    assert unknown["Initialized"].message == "containers with unknown status: [i]"
    fresh = judge("Pending", status("a", WAITS), pod=pod, inits=(status("i", WAITS),))
    assert (fresh["Initialized"].status, fresh["Initialized"].message) == (
        "False",
        "containers with incomplete status: [i]",
    )
    begun = judge("Running", status("a", RUNS), pod=pod)
    again = judge("Pending", status("a", WAITS), pod=pod, base=tuple(begun.values()))
    assert again["Initialized"].status == "True"


def with_conditions(pod, *given):
    return msgspec.structs.replace(pod, status=PodStatus(conditions=given))


def test_conditions_of_others_are_kept_before_ours_as_their_source_shows_them():
    other = PodCondition(type="example.com/checked", status="True")
    forged = PodCondition(type="Ready", status="True", reason="Forged")
    stale = PodCondition(type="example.com/withdrawn", status="True")
    pod = with_conditions(wanted("a"), other, forged)
    found = conditions(pod, "Running", (status("a", RUNS),), (stale,), WALL, sandbox_ready=False)
    assert found[0] == other
    assert [c.type for c in found].count("Ready") == 1
    assert not {"example.com/withdrawn"} & set(named(found))
    assert named(found)["PodReadyToStartContainers"].status == "False"


@pytest.mark.parametrize(
    ("given", "ready", "message"),
    [
        ((), "False", 'corresponding condition of pod readiness gate "x.io/on" does not exist.'),
        (
            ("x.io/on", "False"),
            "False",
            'the status of pod readiness gate "x.io/on" is not "True", but False',
        ),
        (("x.io/on", "True"), "True", ""),
    ],
)
def test_a_gate_that_others_keep_holds_ready_but_not_containers_ready(given, ready, message):
    gate = (PodReadinessGate(condition_type="x.io/on"),)
    pod = wanted("a", readiness_gates=gate)
    if given:
        pod = with_conditions(pod, PodCondition(type=given[0], status=given[1]))
    found = judge("Running", status("a", RUNS), pod=pod)
    assert found["ContainersReady"].status == "True"
    assert (found["Ready"].status, found["Ready"].message) == (ready, message)
    assert found["Ready"].reason == ("" if ready == "True" else "ReadinessGatesNotReady")


def test_unknown_containers_are_named_before_unready_ones_and_all_in_spec_order():
    found = judge("Pending", status("c", WAITS), status("b", WAITS), pod=wanted("c", "a", "b"))
    assert found["ContainersReady"].message == (
        "containers with unknown status: [a], containers with unready status: [c b]"
    )
    assert judge("Pending")["ContainersReady"].reason == "UnknownContainerStatuses"


def test_a_sidecar_counts_for_readiness_and_another_init_container_does_not():
    sidecar = replace(wanted("s").spec.containers[0], restart_policy="Always")
    inits = (sidecar, wanted("i").spec.containers[0])
    pod = wanted("a", init_containers=inits)
    found = judge("Running", status("a", RUNS), status("i", ended(0)), status("s", WAITS), pod=pod)
    assert found["ContainersReady"].message == "containers with unready status: [s]"


def test_a_transition_is_never_before_the_last_one_though_the_clock_was_set_back():
    before = judge("Running", status("a", RUNS), status("b", RUNS))
    later = judge(
        "Running", status("a", RUNS), status("b", WAITS), base=tuple(before.values()), wall=WALL - 50 * NS
    )
    assert later["Ready"].status == "False"
    assert later["Ready"].last_transition_time == rfc3339(WALL)


def test_a_disruption_is_told_once_and_kept_over_what_the_source_shows():
    preempted = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    pod = with_conditions(wanted("a"), preempted)
    assert judge("Running", status("a", RUNS), pod=pod)["DisruptionTarget"] == preempted
    found = conditions(
        pod, "Failed", (status("a", ended(0)),), (), WALL, sandbox_ready=False, disruption="no memory"
    )
    ours = named(found)["DisruptionTarget"]
    assert (ours.status, ours.reason, ours.message) == ("True", "TerminationByKubelet", "no memory")
    again = conditions(
        pod, "Failed", (status("a", ended(0)),), found, WALL + NS, sandbox_ready=False, disruption=None
    )
    assert named(again)["DisruptionTarget"] == ours
    assert [c.type for c in again].count("DisruptionTarget") == 1


def test_initialized_waits_for_plain_init_containers_to_end_and_sidecars_to_start():
    pod = wanted("a", init_containers=(PLAIN, BESIDE))

    def judged(*inits):
        found = judge("Pending", status("a", WAITS), pod=pod, inits=inits)["Initialized"]
        return found.status, found.message

    done, up = status("i", ended(0)), started(status("s", RUNS))
    assert judged(status("i", RUNS), status("s", WAITS)) == (
        "False",
        "containers with incomplete status: [i s]",
    )
    assert judged(done, status("s", RUNS)) == ("False", "containers with incomplete status: [s]")
    assert judged(done) == ("False", "containers with unknown status: [s]")
    assert judged(done, up) == ("True", "")


def test_a_sidecar_that_is_not_ready_keeps_its_pod_unready():
    pod = wanted("a", init_containers=(PLAIN, BESIDE))
    inits = (status("i", ended(0)), status("s", WAITS))
    found = judge("Running", status("a", RUNS), pod=pod, inits=inits)
    assert found["ContainersReady"].message == "containers with unready status: [s]"
