"""A pod that is not admitted goes straight to its end and says why; one that makes room for another says that too."""

import pytest

from actors.pod.explain import explain, pod_row
from actors.pod.state import Finished, Gone, Terminated
from api.messages.pod import KillCause, Refusal, UpdatePod
from api.messages.status import PodStatusComposed
from api.messages.supervisor import PodMoved
from api.ports.podfiles import MakePodFolders
from tests.unit.actors.pods import wanted
from tests.unit.actors.tiny import STARTING, Hand, running_pod

TEXT = "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 4000"
NO_CPU = Refusal(reason="OutOfcpu", message=TEXT, advice=("requests 9 CPUs; 4 of 4 are free",))


def refuse(hand, pod=None, refusal=NO_CPU, generation=1, source="file"):
    update = UpdatePod(
        pod=pod or wanted(source=source),
        source=source,
        generation=generation,
        node=hand.state.node,
        refusal=refusal,
    )
    return hand.give(update)


def refused_pod(**settings):
    hand = Hand(**settings)
    refuse(hand)
    return hand.settle()


@pytest.mark.parametrize("late", [False, True])
def test_nothing_is_ever_made_for_a_pod_that_is_not_admitted(late):
    hand = Hand()
    if late:
        hand.settle()
    refuse(hand)
    hand.settle()
    assert isinstance(hand.state.life, Finished)
    assert not [call for call in hand.started if isinstance(call, (*STARTING, MakePodFolders))]


def test_its_status_is_failed_with_reason_and_message_and_nothing_else():
    status = refused_pod(node_ip="192.0.2.1").messages(PodStatusComposed)[-1].status
    assert (status.phase, status.reason, status.message) == (
        "Failed",
        "OutOfcpu",
        f"Pod was rejected: {TEXT}",
    )
    assert (status.conditions, status.container_statuses, status.qos_class) == ((), (), "BestEffort")
    assert status.start_time


def test_its_phase_is_not_shown_before_its_end_is_remembered_and_proven():
    hand = Hand()
    refuse(hand)
    while hand.open:
        failed = "Failed" in {m.status.phase for m in hand.messages(PodStatusComposed)}
        assert failed == isinstance(hand.state.life, Terminated | Finished)
        hand.end(min(hand.open))
    assert isinstance(hand.state.life, Finished)
    assert (hand.state.remembered.kill.cause, hand.state.remembered.terminated) == (KillCause.REJECTED, True)


def test_it_is_told_as_one_event_without_the_prefix_also_over_a_restart():
    hand = refused_pod()
    refuse(hand, generation=2)
    [event] = hand.state.events
    assert (event.type, event.reason, event.message) == ("Warning", "OutOfcpu", TEXT)
    again = Hand(hand.world)
    refuse(again)
    again.settle()
    assert again.state.events == ()
    assert (again.status.phase, again.status.reason) == ("Failed", "OutOfcpu")


def test_an_end_is_published_also_where_the_word_on_the_pod_is_an_older_refusal():
    """The ledger could not be written since: it says of the pod what was true of an earlier one of its UID."""
    ran = running_pod(wanted(source="file", policy="Never"))
    ran.world.exit("a", 3, ran.wall)
    ran.world.pages.clear()
    hand = Hand(ran.world)
    refuse(hand, pod=wanted(source="file", policy="Never"))
    status = hand.settle().status
    assert (status.phase, status.reason) == ("Failed", "OutOfcpu")
    assert [one.state.terminated.exit_code for one in status.container_statuses] == [3]


def test_explain_says_what_is_short_and_how_to_mend_it():
    hand = refused_pod()
    told = explain(hand.state, hand.now, hand.wall)
    assert "a changed manifest" in told.waits_for
    assert told.problems == (f"Pod was rejected: {TEXT}", NO_CPU.advice[0])
    assert told.kill.startswith("not admitted to this node, ")
    row = pod_row(hand.state, hand.now, hand.wall)
    assert (row.status, row.ready) == ("OutOfcpu", "0/1")


def test_it_stays_until_it_is_removed_from_its_source():
    hand = refused_pod()
    hand.wait(1000)
    assert refuse(hand, generation=2) == []
    hand.kill(), hand.settle()
    assert isinstance(hand.state.life, Gone)


def test_an_update_that_admits_it_after_all_starts_nothing():
    hand = refused_pod()
    assert refuse(hand, refusal=None, generation=2) == []
    assert hand.status.phase == "Failed"


def test_a_pod_that_ended_well_stays_so_whatever_admission_says_later():
    hand = running_pod(wanted(policy="Never", source="api"))
    hand.wait(1)
    hand.world.exit("a", 0, hand.wall)
    hand.observe(), hand.settle()
    assert hand.status.phase == "Succeeded"
    again = Hand(hand.world)
    refuse(again, pod=wanted(policy="Never", source="api"), source="api")
    again.settle()
    assert (again.status.phase, again.status.reason) == ("Succeeded", "")


def test_a_pod_that_makes_room_fails_with_the_words_for_it():
    hand = running_pod(wanted())
    text = "Preempted in order to admit critical pod"
    hand.kill(cause=KillCause.PREEMPTED, deleted=False, evict=True, reason="Preempting", message=text)
    assert ("Warning", "Preempting", text) in {(e.type, e.reason, e.message) for e in hand.state.events}
    hand.settle()
    assert (hand.status.phase, hand.status.reason, hand.status.message) == ("Failed", "Preempting", text)
    [condition] = [c for c in hand.status.conditions if c.type == "DisruptionTarget"]
    assert (condition.status, condition.reason) == ("True", "TerminationByKubelet")
    assert condition.message == "Pod was preempted by Kubelet to accommodate a critical pod."


def test_how_far_a_pod_is_is_told_again_with_each_update():
    hand = running_pod(wanted())
    before = len(hand.messages(PodMoved))
    hand.update(wanted(), generation=2)
    assert len(hand.messages(PodMoved)) == before + 1, "a lost one must not keep room for ever"
