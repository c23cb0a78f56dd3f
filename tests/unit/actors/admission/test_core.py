"""Admission and the supervisor repair what got lost between them, and neither forgets when the other begins again."""

import itertools

import msgspec
import pytest

from actors.admission.core import REPEAT_S, decide
from actors.admission.state import AdmissionState
from actors.admission.verdict import AdmissionRecord, Verdict, encoded
from actors.rules.resources.request import Claim
from actors.supervisor.state import Asked, Decided
from api.ids import Uid
from api.kube.objects.container import Container, ResourceRequirements
from api.lifecycle import Start, Tell
from api.messages.admission import Allocated, PodsToAdmit, PodToAdmit
from api.messages.kernel import Alarm, Outcome
from api.messages.node import NodeChanged
from api.messages.pod import UpdatePod
from api.messages.supervisor import (
    PodAdmitted,
    PodLife,
    PodOp,
    PodsDecided,
    PodsJudged,
    PreemptPods,
    VerdictsRecalled,
)
from api.ports.call import Done
from api.ports.ledger import Recall, Recalled, Remember
from tests.unit.actors.pods import IMAGE, wanted
from tests.unit.actors.supervisor.house import NODE, House, kills, presence, refusals, told


def asking(uid, cpu="1", **spec):
    """Return a pod of the API that requests so much CPU."""
    container = Container(name="a", image=IMAGE, resources=ResourceRequirements(requests={"cpu": cpu}))
    return wanted(container, uid=uid, name=uid, source="", **spec)


def house_of(*pods, **more):
    house = House(expected=("api",), **more)
    house.listed()
    house.snapshot(*pods, source="api")
    return house


def add(house, *pods):
    return house.change(PodOp.ADD, *pods, source="api")


def admitted(cpu=0):
    return Verdict(name="default/x", claim=Claim(cpu_milli=cpu))


def said(house, kind):
    """Return how often supervisor and admission said this to each other."""
    return sum(isinstance(one, kind) for one in house.said)


# losses


@pytest.mark.parametrize("kind", [PodsToAdmit, PodsJudged, PodsDecided])
def test_what_is_lost_on_the_way_is_repaired_within_seconds(kind):
    house = house_of()
    house.lost = lambda message: isinstance(message, kind)
    add(house, asking("a"))
    house.lost = lambda message: False
    done = ()
    for _ in range(11):
        done += house.wait(1.0)
    assert kind is PodsJudged or refusals(done) == {"a": None}
    assert isinstance(house.state.entries["a"].admission, Decided)
    assert house.alive == {"a"}


def test_that_a_pod_has_ended_is_repaired_while_others_wait_for_its_room():
    house = house_of(asking("a", "3"))
    house.moved("a", PodLife.SYNCING)
    house.change(PodOp.REMOVE, asking("a", "3"), source="api")
    add(house, asking("b", "3"))
    house.lost = lambda message: isinstance(message, PodsToAdmit)
    house.moved("a", PodLife.TERMINATED)
    house.lost = lambda message: False
    assert house.alive == {"a"}
    house.wait(10.1)
    assert house.alive == {"a", "b"}


def test_a_lost_preemption_is_named_again():
    house = house_of(asking("low", "4"))
    house.moved("low", PodLife.SYNCING)
    house.lost = lambda message: isinstance(message, PreemptPods)
    assert kills(add(house, asking("top", "2", priority=2_000_000_000))) == []
    house.lost = lambda message: False
    assert [uid for uid, _ in kills(house.wait(REPEAT_S + 0.1))] == ["low"]
    before = said(house, PreemptPods)
    house.wait(REPEAT_S + 0.1)
    assert said(house, PreemptPods) == before, "the supervisor knows"


def test_everything_is_said_again_once_a_minute_and_more_often_only_while_something_is_unanswered():
    house = house_of(asking("a"))
    before = said(house, PodsToAdmit)
    for _ in range(130):
        house.wait(1.0)
    assert said(house, PodsToAdmit) - before == 2


def test_an_answer_that_comes_again_changes_nothing():
    house = house_of(asking("a"))
    [answer] = [one for one in house.said if isinstance(one, PodsDecided)]
    before = house.state.entries
    assert house.give(answer) == ()
    assert house.state.entries == before


def test_an_answer_about_a_pod_of_the_same_uid_that_was_there_before_says_nothing():
    house = house_of(asking("a", "9"))
    [answer] = [one for one in house.said if isinstance(one, PodsDecided)]
    house.moved("a", PodLife.FINISHED)
    house.change(PodOp.REMOVE, asking("a", "9"), source="api")
    house.gone("a")
    house.lost = lambda message: isinstance(message, PodsDecided | PodsJudged)
    add(house, asking("a", "1"))
    house.give(answer)
    assert isinstance(house.state.entries["a"].admission, Asked)


# one begins again


def test_admission_that_begins_again_reads_what_it_wrote_and_refuses_no_one_anew():
    house = house_of(asking("a", "3"), asking("b", "2"))
    for uid in ("a", "b"):
        house.moved(uid, PodLife.SYNCING if uid == "a" else PodLife.FINISHED)
    before = {uid: entry.desired.revision for uid, entry in house.state.entries.items()}
    done = house.renew_admission()
    assert told(done, UpdatePod) == []
    assert {uid: entry.desired.revision for uid, entry in house.state.entries.items()} == before
    assert refusals(add(house, asking("c", "2"))) == {"c": "OutOfcpu"}
    assert refusals(add(house, asking("d", "1"))) == {"d": None}


def test_a_verdict_that_was_being_written_as_admission_ended_is_decided_again():
    house = house_of(answers=False)
    while house.open:
        house.answer(house.open[0])
    add(house, asking("a"))
    [write] = house.open
    house.open.clear()
    house.renew_admission(in_flight=(write.op,))
    assert told(house.last, UpdatePod) == []
    house.open.append(write)
    done = ()
    while house.open:
        done += house.answer(house.open[-1])
    assert refusals(done) == {"a": None}


def test_a_supervisor_that_begins_again_is_given_the_same_verdicts():
    house = house_of(asking("a", "3"), asking("b", "2"))
    written = len(house.pages)
    house.renew_supervisor()
    house.number = 0
    house.alive.clear()
    house.listed(presence("a", "a"))
    assert refusals(house.snapshot(asking("b", "2"), asking("a", "3"), source="api")) == {
        "a": None,
        "b": "OutOfcpu",
    }
    kept = msgspec.msgpack.decode(house.page, type=AdmissionRecord).verdicts
    assert [(uid, verdict.refusal is None) for uid, verdict in kept] == [("a", True), ("b", False)]
    assert len(house.pages) <= written + 2


def test_what_was_decided_counts_while_the_supervisor_begins_again_though_no_one_owns_it():
    house = house_of(asking("a", "3"))
    house.renew_supervisor()
    house.number = 0
    house.alive.clear()
    house.listed()
    house.snapshot(asking("b", "2"), source="api", seen=())
    assert house.waits("b").endswith("default/a")


def test_verdicts_that_no_one_owns_are_named_and_what_they_tell_of_is_ended():
    house = House(expected=("api",), page=encoded({Uid("old"): admitted(1000)}))
    assert [one.pods for one in house.said if isinstance(one, VerdictsRecalled)] == [(("old", "default/x"),)]
    house.listed()
    assert [uid for uid, _ in kills(house.snapshot(source="api"))] == ["old"]
    house.gone("old")
    assert house.page is None
    house.wait(61), house.wait(61)
    assert house.state.entries == {}, "it is not found a second time"


# the core alone


class Desk:
    """An admission core without a supervisor."""

    def __init__(self):
        self.state, self.ops, self.now = AdmissionState(), itertools.count(1), 100.0
        self.calls = []
        self.give(None)

    def give(self, message):
        decision = decide(self.state, message, self.now, lambda: next(self.ops))
        self.state = decision.state
        self.calls += [one for one in decision.actions if isinstance(one, Start)]
        return [one.message for one in decision.actions if isinstance(one, Tell)]

    def answer(self):
        """Let the ledger answer the call that is open, and return what is said then."""
        call = self.calls.pop(0)
        result = Recalled() if isinstance(call.call, Recall) else Done()
        return self.give(Outcome(op=call.op, call="x", result=result, started_at=self.now, ended_at=self.now))

    def rows(self, *rows, **more):
        return self.give(PodsToAdmit(epoch=0, pods=rows, **more))


def row(cpu, **more):
    return PodToAdmit(
        uid=Uid("a"), number=1, name="default/a", order=1, pod=asking("a", cpu), open=True, **more
    )


def answers(messages):
    return [one for message in messages if isinstance(message, PodsDecided) for one in message.decisions]


def asks(cpu):
    return (Allocated(container="a", requests=(("cpu", cpu),)),)


def test_changes_say_nothing_before_all_pods_were_heard_of():
    desk = Desk()
    desk.give(NodeChanged(facts=NODE)), desk.answer()
    desk.rows(row("1"))
    assert (desk.state.pods, desk.calls) == ({}, [])
    [judged] = desk.rows(row("1"), whole=True)[:1]
    assert judged == PodsJudged(pods=(("a", 1),))
    assert isinstance(desk.calls[0].call, Remember)


def test_a_verdict_is_said_when_the_ledger_has_it_and_again_to_who_did_not_receive_it():
    desk = Desk()
    desk.give(NodeChanged(facts=NODE)), desk.answer()
    assert answers(desk.rows(row("1"), whole=True)) == []
    [first] = answers(desk.answer())
    assert (first.allocated, first.fresh) == (asks("1"), True)
    received = row("1", received=first.generation)
    assert answers(desk.rows(received, whole=True)) == []
    assert answers(desk.rows(row("1"), whole=True)) == [first]


def test_a_pod_that_no_longer_asks_for_what_it_does_not_get_is_told_so():
    desk = Desk()
    desk.give(NodeChanged(facts=NODE)), desk.answer()
    desk.rows(row("1"), whole=True), desk.answer()
    [never] = answers(desk.rows(row("9")))
    assert (never.allocated, never.asked, never.resize.reason) == (asks("1"), asks("9"), "Infeasible")
    [still] = answers(desk.rows(row("8", received=never.generation)))
    assert (still.asked, still.resize.reason) == (asks("8"), "Infeasible")
    [back] = answers(desk.rows(row("1", received=still.generation)))
    assert (back.allocated, back.asked, back.resize) == (asks("1"), asks("1"), None)


def test_what_a_pod_gives_back_is_held_until_that_very_answer_confines_it():
    desk = Desk()
    desk.give(NodeChanged(facts=NODE)), desk.answer()
    desk.rows(row("3"), whole=True)
    [first] = answers(desk.answer())
    assert not first.holds
    desk.rows(row("1", received=first.generation))
    [less] = answers(desk.answer())
    assert isinstance(less, PodAdmitted)
    assert less.holds
    desk.rows(row("1", received=less.generation, confined=first.generation))
    assert desk.state.pods["a"].held.cpu_milli == 3000
    desk.rows(row("1", received=less.generation, confined=less.generation))
    assert desk.state.pods["a"].held is None


def test_a_call_to_look_again_changes_nothing_that_is_settled():
    desk = Desk()
    desk.give(NodeChanged(facts=NODE)), desk.answer()
    desk.rows(row("1"), whole=True), desk.answer()
    desk.now += 1
    assert desk.give(Alarm(at=desk.now)) == []
    assert desk.calls == []
