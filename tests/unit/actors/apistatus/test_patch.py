"""What is in the patch of a status, and what is not."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.apistatus.patch import WrittenStatus, status_patch, wanted_status
from api.kube.objects.podstatus import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    HostIP,
    PodCondition,
    PodIP,
    PodStatus,
)
from api.kube.objects.strmap import StrMap
from tests.unit.actors.apistatus.fakeapi import merge

T1, T2 = "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"
RUNNING = ContainerStatus(
    name="c", ready=True, state=ContainerState(running=ContainerStateRunning(started_at=T1))
)
ENDED = ContainerStatus(name="c", state=ContainerState(terminated=ContainerStateTerminated(exit_code=0)))


def condition(kind, status="True", **more):
    return PodCondition(type=kind, status=status, **more)


def patch(shown, wanted, written=None):
    body = status_patch("u1", shown, wanted, written)
    if body is None:
        return None
    decoded = json.loads(body)
    assert decoded["metadata"] == {"uid": "u1"}
    return decoded["status"]


PLAIN = PodStatus(phase="Running", pod_ip="10.0.0.1", pod_ips=(PodIP(ip="10.0.0.1"),), start_time=T1)

CASES = [
    # what the server has, what it should have, what is sent
    (PLAIN, PLAIN, None),
    (PodStatus(phase="Pending"), PodStatus(phase="Running"), {"phase": "Running"}),
    (PodStatus(reason="Evicted", message="m"), PodStatus(), {"reason": None, "message": None}),
    (
        PodStatus(),
        PLAIN,
        {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "startTime": T1},
    ),
    (
        PLAIN,
        replace(PLAIN, pod_ip="10.0.0.2", pod_ips=(PodIP(ip="10.0.0.2"), PodIP(ip="fd00::2"))),
        {
            "podIP": "10.0.0.2",
            "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}, {"$patch": "delete", "ip": "10.0.0.1"}],
            "$setElementOrder/podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}],
        },
    ),
    (
        PodStatus(host_ips=(HostIP(ip="a"), HostIP(ip="b"))),
        PodStatus(host_ips=(HostIP(ip="b"), HostIP(ip="a"))),
        {"$setElementOrder/hostIPs": [{"ip": "b"}, {"ip": "a"}]},
    ),
    (
        PodStatus(conditions=(condition("Ready", "False", reason="R", message="m"), condition("gate"))),
        PodStatus(conditions=(condition("Ready"),)),
        {"conditions": [{"type": "Ready", "status": "True", "reason": None, "message": None}]},
    ),
    (
        PodStatus(conditions=(condition("PodResizePending"), condition("gate"))),
        PodStatus(conditions=(condition("gate", "False"),)),
        {"conditions": [{"$patch": "delete", "type": "PodResizePending"}]},
    ),
    (PodStatus(container_statuses=(RUNNING,)), PodStatus(), {"containerStatuses": []}),
    (
        PodStatus(allocated_resources=StrMap({"cpu": "1", "memory": "1Gi"})),
        PodStatus(allocated_resources=StrMap({"cpu": "2"})),
        {"allocatedResources": {"memory": None, "cpu": "2"}},
    ),
    (PodStatus(nominated_node_name="n2"), PodStatus(), None),
]


@pytest.mark.parametrize(("shown", "wanted", "expected"), CASES)
def test_the_patch_has_what_the_server_lacks_of_the_agents_part(shown, wanted, expected):
    assert patch(shown, wanted) == expected


def test_lists_of_containers_are_sent_whole():
    other = replace(RUNNING, name="d")
    shown = PodStatus(container_statuses=(RUNNING, other))
    sent = patch(shown, replace(shown, container_statuses=(RUNNING, replace(other, restart_count=1))))
    assert [one["name"] for one in sent["containerStatuses"]] == ["c", "d"]


OURS = condition("DisruptionTarget", reason="TerminationByKubelet", message="m")


@pytest.mark.parametrize(
    ("before", "after", "ours", "is_sent"),
    [
        ("Running", "Failed", OURS, True),
        ("Running", "Running", OURS, False),
        ("Failed", "Failed", OURS, False),
        ("Running", "Failed", replace(OURS, reason="EvictionByEvictionAPI"), False),
    ],
)
def test_a_disruption_is_sent_with_the_terminal_phase_only_and_never_taken_back(before, after, ours, is_sent):
    foreign = condition("DisruptionTarget", reason="PreemptionByScheduler")
    shown = PodStatus(phase=before, conditions=(foreign,))
    sent = patch(shown, PodStatus(phase=after, conditions=(ours,))) or {}
    assert bool(sent.get("conditions")) is is_sent
    assert "conditions" not in (patch(shown, PodStatus(phase=after)) or {})


# ---------------------------------------------------------------- the status that the server should have


def wanted(shown, own, *, finished=False, mirror=False):
    return wanted_status(shown, own, finished=finished, mirror=mirror)


@pytest.mark.parametrize(
    ("shown", "own", "options", "phase"),
    [
        ("Running", "Succeeded", {}, "Succeeded"),
        ("Failed", "Running", {}, "Failed"),
        ("Failed", "Succeeded", {"finished": True}, "Failed"),
        ("Failed", "Running", {"mirror": True}, "Running"),
        ("Pending", "Running", {}, "Running"),
    ],
)
def test_a_terminal_phase_of_a_pod_is_final(shown, own, options, phase):
    assert wanted(PodStatus(phase=shown), PodStatus(phase=own), **options).phase == phase


@pytest.mark.parametrize(("finished", "phase"), [(False, "Running"), (True, "Failed")])
def test_a_terminal_phase_waits_until_nothing_runs(finished, phase):
    shown = PodStatus(phase="Running", reason="R", message="m")
    own = PodStatus(phase="Failed", reason="Evicted", message="n", container_statuses=(RUNNING,))
    after = wanted(shown, own, finished=finished)
    assert after.phase == phase
    assert (after.reason, after.message) == (("Evicted", "n") if finished else ("R", "m"))


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")])
def test_a_pod_that_has_ended_is_not_ready(phase, reason):
    own = PodStatus(
        phase=phase, conditions=(condition("Ready"), condition("ContainersReady"), condition("X"))
    )
    after = {one.type: one for one in wanted(PodStatus(phase="Running"), own).conditions}
    assert [(after[kind].status, after[kind].reason) for kind in ("Ready", "ContainersReady")] == [
        ("False", reason)
    ] * 2
    assert after["X"].status == "True"


def test_class_and_generation_never_go_back():
    shown = PodStatus(qos_class="Burstable", observed_generation=5)
    after = wanted(shown, PodStatus(qos_class="Guaranteed", observed_generation=4))
    assert (after.qos_class, after.observed_generation) == ("Burstable", 5)
    assert wanted(PodStatus(), PodStatus(qos_class="Guaranteed")).qos_class == "Guaranteed"


# ---------------------------------------------------------------- what a server drops


def test_what_a_server_drops_is_sent_once_and_again_when_either_side_changes():
    own = PodStatus(
        phase="Running",
        host_ips=(HostIP(ip="h"),),
        observed_generation=2,
        conditions=(condition("Ready", observed_generation=2),),
    )
    made = PodStatus(phase="Running", conditions=(condition("Ready"),))
    written = WrittenStatus(shown=PodStatus(), sent=own, made=made)
    assert set(patch(PodStatus(), own)) == {"phase", "hostIPs", "observedGeneration", "conditions"}
    assert patch(made, own, written) is None
    clobbered = replace(made, phase="Pending", conditions=(condition("Ready", "False"),))
    assert set(patch(clobbered, own, written)) == {"phase", "conditions"}
    newer = replace(own, observed_generation=3)
    assert patch(made, newer, written) == {"observedGeneration": 3}


def test_what_others_wrote_at_the_same_moment_is_no_answer_of_the_server():
    own = PodStatus(phase="Running")
    written = WrittenStatus(shown=PodStatus(), sent=own, made=replace(own, message="by somebody"))
    assert patch(written.made, own, written) == {"message": None}


TEXTS = st.sampled_from(["", "x", "y"])
CONDITIONS = st.lists(
    st.builds(
        PodCondition,
        type=st.sampled_from(
            ["Ready", "PodScheduled", "PodResizePending", "example.com/gate", "DisruptionTarget"]
        ),
        status=st.sampled_from(["True", "False"]),
        reason=TEXTS,
        message=TEXTS,
        observed_generation=st.integers(0, 2),
    ),
    unique_by=lambda one: one.type,
    max_size=4,
).map(tuple)
IPS = st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1"]), unique=True, max_size=2)
STATUSES = st.builds(
    PodStatus,
    phase=st.sampled_from(["Pending", "Running"]),
    reason=TEXTS,
    conditions=CONDITIONS,
    container_statuses=st.lists(st.sampled_from([RUNNING, ENDED]), max_size=2).map(tuple),
    pod_ips=IPS.map(lambda ips: tuple(PodIP(ip=ip) for ip in ips)),
    observed_generation=st.integers(0, 3),
    resource_claim_statuses=st.just(()),
)


@given(shown=STATUSES, own=STATUSES)
def test_a_merged_patch_gives_what_is_wanted_and_leaves_what_others_wrote(shown, own):
    """By the rules of the fake server: nothing is left to send, and foreign conditions are as they were."""
    target = wanted_status(shown, own, finished=False, mirror=False)
    sent = patch(shown, target)
    after = msgspec.convert(merge(msgspec.to_builtins(shown), sent or {}), PodStatus)
    assert status_patch("u1", after, target) is None
    of_others = [one for one in shown.conditions if one.type in ("example.com/gate", "DisruptionTarget")]
    assert [
        one for one in after.conditions if one.type in ("example.com/gate", "DisruptionTarget")
    ] == of_others
    assert after.pod_ips == own.pod_ips
