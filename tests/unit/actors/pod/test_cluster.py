"""Pods of the API server: what it shows of them counts, and what it shows as ended or deleted is never started."""

import msgspec
import pytest
from msgspec.structs import replace

from actors.pod.state import MEMO_SECTION, Finished, Terminating
from api.errors import FailureKind
from api.kube.objects.podstatus import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    PodCondition,
    PodIP,
    PodStatus,
)
from api.messages.kernel import Alarm
from api.messages.pod import KillCause
from api.messages.status import PodStatusComposed
from api.ports.kube import ClusterService, ReadRuntimeClass, ReadServices
from api.ports.runtime import CreateContainer, RunSandbox, StopContainer
from tests.unit.actors.pods import box, instance, shown, wanted
from tests.unit.actors.tiny import FACTS, STARTING, Hand, TinyWorld

AT = "2023-01-02T03:04:05Z"


def of_api(*containers, status=None, deleted=None, **spec):
    """Return a pod of the API server; `deleted`: the grace of its deletion."""
    pod = wanted(*containers, source="api", **spec)
    if deleted is not None:
        times = {"deletion_timestamp": AT, "deletion_grace_period_seconds": deleted}
        pod = replace(pod, metadata=replace(pod.metadata, **times))
    return replace(pod, status=status or PodStatus(phase="Pending"))


def ended(code, *, phase):
    """Return the status of a pod that has ended."""
    end = ContainerStateTerminated(exit_code=code, reason="Error", container_id="x://old", finished_at=AT)
    return PodStatus(
        phase=phase,
        reason="Evicted",
        message="low on memory",
        start_time=AT,
        container_statuses=(
            ContainerStatus(
                name="a", container_id="x://old", restart_count=3, state=ContainerState(terminated=end)
            ),
        ),
    )


def starts(hand):
    return [call for call in hand.started if isinstance(call, STARTING)]


def is_finished(hand):
    """Return whether the pod's last status was sent as final."""
    return hand.messages(PodStatusComposed)[-1].finished and isinstance(hand.state.life, Finished)


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_a_pod_whose_phase_is_terminal_on_the_server_is_never_started(policy, code, phase):
    hand = Hand()
    hand.update(of_api("a", policy=policy, status=ended(code, phase=phase)))
    hand.settle()
    assert starts(hand) == []
    assert is_finished(hand)
    last = hand.status
    assert (last.phase, last.reason, last.message, last.start_time) == (
        phase,
        "Evicted",
        "low on memory",
        AT,
    )
    [row] = last.container_statuses
    assert (row.restart_count, row.state.terminated.exit_code) == (3, code)


def test_a_deleted_pod_is_not_started_though_no_kill_has_come_yet():
    hand = Hand()
    hand.settle()
    hand.update(of_api("a", deleted=7))
    hand.settle()
    assert starts(hand) == []
    assert is_finished(hand)
    assert hand.status.phase == "Failed"
    assert hand.state.killed.cause is KillCause.DELETED


def test_a_deleted_pod_that_ended_here_stays_ended_while_a_finalizer_keeps_it():
    world = TinyWorld()
    hand = Hand(world)
    hand.update(of_api("a")), hand.settle()
    hand.update(of_api("a", deleted=30), generation=2)
    assert isinstance(hand.state.life, Terminating)
    hand.kill(grace=30, cause=KillCause.DELETED, deleted=False), hand.settle()
    assert is_finished(hand)
    again = Hand(world)
    for generation in (1, 2):
        again.update(of_api("a", deleted=30), generation=generation), again.settle()
    assert starts(again) == []
    assert is_finished(again)
    assert MEMO_SECTION in world.pages, "its tombstone"
    # The node's disk was lost, and the server still shows the pod.
    world.pages.clear()
    wiped = Hand(TinyWorld())
    wiped.update(of_api("a", deleted=30, status=hand.status)), wiped.settle()
    assert starts(wiped) == []
    assert is_finished(wiped)


@pytest.mark.parametrize(("given", "grace"), [(5, 5), (0, 1), (100, 100)])
def test_a_pod_that_is_deleted_later_is_stopped_by_what_the_server_shows(given, grace):
    hand = Hand()
    hand.update(of_api("a")), hand.settle()
    hand.update(of_api("a", deleted=given), generation=2)
    assert hand.state.killed.grace_s == grace
    hand.settle_until(StopContainer)


@pytest.mark.parametrize(
    ("cause", "given", "grace"),
    [(KillCause.DELETED, 100, 100), (KillCause.DELETED, 1, 1), (KillCause.REMOVED, 100, 30)],
)
def test_only_a_deletion_through_the_api_may_give_a_pod_more_time(cause, given, grace):
    hand = Hand()
    hand.update(of_api("a", grace=30)), hand.settle()
    hand.kill(grace=given, cause=cause, deleted=False)
    assert hand.state.killed.grace_s == grace


def test_more_time_that_is_given_before_the_pod_is_known_stays():
    hand = Hand()
    hand.kill(grace=100, cause=KillCause.DELETED, deleted=False)
    hand.update(of_api("a", grace=30)), hand.settle()
    assert hand.state.killed.grace_s == 100


def test_a_pod_goes_on_from_the_status_that_the_server_shows():
    running = ContainerStatus(
        name="a",
        container_id="x://lost",
        restart_count=3,
        ready=True,
        state=ContainerState(running=ContainerStateRunning(started_at=AT)),
    )
    status = PodStatus(
        phase="Running",
        start_time=AT,
        pod_ips=(PodIP(ip="10.0.0.9"),),
        container_statuses=(running,),
        conditions=(
            PodCondition(type="PodScheduled", status="True", last_transition_time=AT),
            PodCondition(type="Ready", status="True", last_transition_time=AT),
            PodCondition(type="example.com/gate", status="True", last_transition_time=AT),
        ),
    )
    hand = Hand()
    hand.update(of_api("a", status=status)), hand.settle()
    found = hand.status
    assert found.start_time == AT
    assert [one.restart_count for one in found.container_statuses] == [4]
    times = {one.type: one.last_transition_time for one in found.conditions}
    assert (times["PodScheduled"], times["example.com/gate"]) == (AT, AT)
    assert found.container_statuses[0].last_state.terminated.exit_code == 137


def test_what_the_ledger_holds_is_newer_than_what_the_server_shows():
    world = TinyWorld()
    hand = Hand(world)
    hand.update(of_api("a")), hand.settle()
    start_time = hand.status.start_time
    world.pages["status"] = msgspec.msgpack.encode(hand.status)
    again = Hand(world)
    again.update(of_api("a", status=PodStatus(phase="Running", start_time=AT))), again.settle()
    assert again.status.start_time == start_time


def test_a_manifest_has_no_status_that_counts():
    pod = replace(wanted("a", source="file"), status=replace(ended(0, phase="Pending"), start_time=""))
    hand = Hand()
    hand.update(pod), hand.settle()
    assert [one.restart_count for one in hand.status.container_statuses] == [0]


@pytest.mark.parametrize("deleted", [None, 30])
def test_a_status_that_did_not_change_over_a_restart_is_sent_however_late_the_pod_comes(deleted):
    world = TinyWorld()
    hand = Hand(world)
    hand.update(of_api("a")), hand.settle()
    if deleted:
        hand.update(of_api("a", deleted=deleted), generation=2), hand.settle()
    world.pages["status"] = msgspec.msgpack.encode(hand.status)
    again = Hand(world, now=hand.now)
    again.settle()
    assert again.messages(PodStatusComposed) == []
    again.update(of_api("a", deleted=deleted)), again.settle()
    sent = again.messages(PodStatusComposed)[-1]
    assert (sent.status, sent.finished) == (hand.status, bool(deleted))


def test_an_exit_code_that_the_server_shows_is_not_replaced_by_a_guess():
    guess = instance("a", "exited", attempt=3, reason="Unknown", code=255)
    status = ended(7, phase="Running")
    [row] = status.container_statuses
    end = replace(row.state.terminated, container_id=guess.id)
    row = replace(row, container_id=guess.id, state=ContainerState(terminated=end))
    hand = Hand(TinyWorld(shown(box(), guess)))
    hand.update(of_api("a", policy="Never", status=replace(status, container_statuses=(row,)))), hand.settle()
    [row] = hand.status.container_statuses
    assert row.state.terminated.exit_code == 7


def test_the_status_of_a_pod_whose_memo_was_lost_counts_in_the_next_life_too():
    world = TinyWorld()
    hand = Hand(world)
    hand.update(of_api("a")), hand.settle()
    status = hand.status
    world.pages = {"status": msgspec.msgpack.encode(status)}
    for generation in (1, 2):
        again = Hand(world, now=hand.now + 100 * generation)
        again.update(of_api("a", status=status)), again.settle()
        assert again.status.start_time == status.start_time
        assert again.state.memo.outdated == ""
        world.pages["status"] = msgspec.msgpack.encode(again.status)


IN_CLUSTER = replace(FACTS, standalone=False)


def environments(hand):
    """Return the environment of each container that was created."""
    made = (call for call in hand.started if isinstance(call, CreateContainer))
    return [{one.name: one.value for one in call.spec.env} for call in made]


def test_services_are_read_before_each_container_is_created_and_are_in_its_environment():
    hand = Hand()
    hand.world.services = (ClusterService(namespace="default", name="one", cluster_ip="10.0.0.1"),)
    hand.update(of_api("a", "b", policy="Always"), node=IN_CLUSTER)
    hand.settle_until(CreateContainer)
    hand.world.services = (ClusterService(namespace="default", name="two", cluster_ip="10.0.0.2"),)
    hand.settle()
    assert environments(hand) == [{"ONE_SERVICE_HOST": "10.0.0.1"}, {"TWO_SERVICE_HOST": "10.0.0.2"}]
    assert [call.at_once for call in hand.started if isinstance(call, ReadServices)] == [False, False]


def test_a_container_waits_until_services_are_listed_and_says_so():
    hand = Hand()
    hand.update(of_api("a"), node=IN_CLUSTER)
    hand.settle_until(ReadServices)
    hand.fail(ReadServices)
    hand.settle(but=ReadServices)
    [row] = hand.status.container_statuses
    assert (row.state.waiting.reason, row.state.waiting.message) == ("CreateContainerConfigError", "it broke")
    assert not environments(hand)
    hand.wait(600.0)
    hand.give(Alarm(at=hand.now))
    hand.settle()
    assert len(environments(hand)) == 1


def test_a_static_pod_does_not_wait_for_services_and_an_agent_on_its_own_reads_none():
    hand = Hand()
    hand.update(wanted("a"), node=IN_CLUSTER)
    hand.settle()
    assert [call.at_once for call in hand.started if isinstance(call, ReadServices)] == [True]
    alone = Hand()
    alone.update(wanted("a"), node=FACTS)
    alone.settle()
    assert not [call for call in alone.started if isinstance(call, ReadServices)]


def test_the_handler_of_a_runtime_class_is_looked_up_before_the_sandbox_and_again_for_the_next_one():
    hand = Hand()
    hand.world.handlers = {"kata": "kata-fc"}
    hand.update(of_api("a", runtime_class_name="kata"), node=IN_CLUSTER)
    hand.settle()
    assert [call.spec.runtime_handler for call in hand.started if isinstance(call, RunSandbox)] == ["kata-fc"]
    assert len([call for call in hand.started if isinstance(call, ReadRuntimeClass)]) == 1


def test_a_runtime_class_that_is_not_there_is_an_event_and_is_looked_up_again():
    hand = Hand()
    hand.world.handlers = {"kata": "kata-fc"}
    hand.update(of_api("a", runtime_class_name="kata"), node=IN_CLUSTER)
    hand.settle_until(ReadRuntimeClass)
    hand.fail(ReadRuntimeClass, FailureKind.NOT_FOUND)
    hand.settle(but=ReadRuntimeClass)
    assert not [call for call in hand.started if isinstance(call, RunSandbox)]
    [event] = [one for one in hand.state.events if one.reason == "FailedCreatePodSandBox"]
    assert event.message == "Failed to create pod sandbox: failed to get RuntimeClass: it broke"
    hand.wait(600.0)
    hand.give(Alarm(at=hand.now))
    hand.settle()
    assert [call.spec.runtime_handler for call in hand.started if isinstance(call, RunSandbox)] == ["kata-fc"]


def test_a_container_that_ran_before_is_started_again_though_the_api_server_cannot_be_reached():
    hand = Hand()
    hand.update(of_api("a", policy="Always"), node=IN_CLUSTER)
    hand.settle()
    hand.world.exit("a", 1, hand.wall)
    hand.observe()
    hand.settle()
    hand.wait(30.0)
    hand.give(Alarm(at=hand.now))
    hand.settle()
    reads = [call.in_outage for call in hand.started if isinstance(call, ReadServices)]
    assert reads[0] is False
    assert reads[1:]
    assert all(reads[1:])
