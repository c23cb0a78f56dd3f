"""Admission by the supervisor: decided once, remembered before it is told, counted truly, and room made for critical pods."""

import msgspec
import pytest

from actors.admission.verdict import AdmissionRecord, Verdict, encoded
from actors.rules.resources.request import Claim
from api.ids import Uid
from api.kube.objects.container import Container, ResourceRequirements
from api.lifecycle import Start
from api.messages.kernel import Restarted
from api.messages.pod import KillCause, KillPod, Refusal, UpdatePod
from api.messages.supervisor import PodLife, PodOp
from api.paths import pod_path
from api.ports.ledger import Remember
from tests.unit.actors.pods import IMAGE, wanted
from tests.unit.actors.supervisor.house import House, kills, presence, refusals, spawned, told


def asking(uid, cpu="1", *, source="api", name="", **spec):
    """Return a pod that requests so much CPU."""
    container = Container(name="a", image=IMAGE, resources=ResourceRequirements(requests={"cpu": cpu}))
    return wanted(container, uid=uid, name=name or uid, source="" if source == "api" else source, **spec)


def house_of(*pods, source="api", **more):
    """Return a house whose sources have spoken and whose runtime is empty."""
    house = House(expected=(source,), **more)
    house.listed()
    house.snapshot(*pods, source=source)
    return house


def remembered(house):
    """Return what the page says, by UID."""
    return {
        uid: verdict.refusal.reason if verdict.refusal else "admitted"
        for uid, verdict in msgspec.msgpack.decode(house.page, type=AdmissionRecord).verdicts
    }


def page(**verdicts):
    """Return a page on which an earlier life decided so."""
    return encoded({Uid(uid): verdict for uid, verdict in verdicts.items()})


def refused(reason="OutOfcpu"):
    return Verdict(name="default/x", refusal=Refusal(reason=reason, message="no"))


def admitted(cpu=0):
    return Verdict(name="default/x", claim=Claim(cpu_milli=cpu))


def test_what_does_not_fit_is_told_why_and_is_charged_nothing():
    house = house_of(asking("a", "3"), asking("b", "2"), asking("c", "1"))
    assert refusals(house.last) == {"a": None, "b": "OutOfcpu", "c": None}
    assert remembered(house) == {"a": "admitted", "b": "OutOfcpu", "c": "admitted"}
    assert house.alive == {"a", "b", "c"}, "a refused pod has an actor that says so"


def test_a_verdict_is_on_disk_before_it_is_told_and_the_actor_looks_around_meanwhile():
    house = house_of(answers=False)
    for start in tuple(house.open):
        house.answer(start)
    house.change(PodOp.ADD, asking("a"), asking("b", "9"), source="api")
    assert [type(a) for a in house.open] == [Start]
    assert isinstance(house.open[0].call, Remember)
    assert spawned(house.last) == ["a", "b"]
    assert told(house.last, UpdatePod) == []
    assert refusals(house.answer(house.open[0])) == {"a": None, "b": "OutOfcpu"}


def test_pods_that_come_together_cost_one_write():
    house = house_of(*(asking(f"u{n}", "0") for n in range(10)))
    assert len(house.pages) == 1
    assert len(refusals(house.last)) == 10


def test_what_comes_during_a_write_is_written_right_after():
    house = house_of(answers=False)
    for start in tuple(house.open):
        house.answer(start)
    house.change(PodOp.ADD, asking("a"), source="api")
    house.change(PodOp.ADD, asking("b"), source="api")
    assert len(house.open) == 1, "one write at a time"
    done = house.answer(house.open[0])
    assert refusals(done) == {"a": None}
    assert refusals(house.answer(house.open[0])) == {"b": None}
    assert remembered(house) == {"a": "admitted", "b": "admitted"}


def test_a_ledger_that_takes_nothing_keeps_nobody_from_starting():
    house = House(expected=("api",))
    house.full = True
    house.listed()
    assert refusals(house.snapshot(asking("a"), source="api")) == {"a": None}
    assert refusals(house.change(PodOp.ADD, asking("b"), source="api")) == {"b": None}
    house.full = False
    house.wait(11)
    assert remembered(house) == {"a": "admitted", "b": "admitted"}


def test_a_refusal_stands_after_a_restart_though_there_is_room_now():
    house = House(expected=("api",), page=page(b=refused()))
    house.listed()
    assert refusals(house.snapshot(asking("b"), source="api")) == {"b": "OutOfcpu"}


def test_an_admitted_pod_stays_so_after_a_restart_on_a_smaller_node():
    house = House(expected=("api",), page=page(a=admitted(9000)))
    house.listed()
    house.snapshot(asking("a", "9"), asking("b"), source="api")
    assert refusals(house.last) == {"a": None}
    assert house.wait(1) == (), "b waits for a, which may turn out to have ended"
    assert refusals(house.moved("a", PodLife.SYNCING)) == {"b": "OutOfcpu"}


def test_what_runs_is_never_refused_though_nobody_remembers_it():
    house = House(expected=("api",))
    house.listed(presence("a", "a"))
    house.snapshot(asking("a", "9"), source="api")
    assert refusals(house.last) == {"a": None}
    assert remembered(house) == {"a": "admitted"}


def test_nothing_is_decided_before_ledger_node_and_runtime_have_answered():
    house = House(expected=("api",), answers=False)
    house.snapshot(asking("a"), source="api")
    assert "first listing" in house.waits("a")
    house.listed()
    ledger, node, own_node = house.open
    assert "the ledger" in house.waits("a")
    house.answer(own_node), house.answer(ledger)
    assert "the container runtime" in house.waits("a")
    assert spawned(house.answer(node)) == ["a"]


def test_finished_pods_take_nothing():
    house = House(expected=("api",), page=page(done=admitted(4000)))
    house.listed()
    house.snapshot(asking("done", "4"), source="api")
    house.change(PodOp.ADD, asking("b", "4"), source="api")
    assert refusals(house.last) == {}, "it may have ended, and is about to say so"
    assert refusals(house.moved("done", PodLife.FINISHED)) == {"b": None}


def test_who_is_being_stopped_counts_until_nothing_of_it_runs():
    house = house_of(asking("a", "3"))
    house.moved("a", PodLife.SYNCING)
    house.change(PodOp.REMOVE, asking("a", "3"), source="api")
    house.change(PodOp.ADD, asking("b", "3"), source="api")
    house.moved("a", PodLife.TERMINATING)
    assert house.waits("b").endswith("default/a")
    assert refusals(house.moved("a", PodLife.TERMINATED)) == {"b": None}


def test_an_orphan_of_an_earlier_life_counts_with_what_is_remembered_of_it():
    house = House(expected=("api",), page=page(old=admitted(3000)))
    house.listed(presence("old", "old"))
    house.snapshot(asking("b", "2"), source="api")
    assert house.alive == {"old"}
    assert refusals(house.moved("old", PodLife.TERMINATED)) == {"b": None}


def test_what_a_silent_source_may_still_want_keeps_its_room():
    house = House(expected=("file", "api"), page=page(theirs=admitted(3000)))
    house.listed()
    house.snapshot(asking("mine", "2", source="file"), source="file")
    assert house.alive == set()
    house.number += 1
    house.snapshot(asking("mine", "2", source="file"), source="file", seen=("api", "file"))
    assert house.alive == {"theirs"}, "no source wants it: what it left is removed first"
    assert kills(house.last) == [("theirs", KillCause.ORPHAN)]
    house.moved("theirs", PodLife.TERMINATED)
    assert house.alive == {"mine", "theirs"}
    house.gone("theirs")
    assert "theirs" not in remembered(house)


@pytest.mark.parametrize("wanted_still", [True, False])
def test_what_a_pod_takes_counts_while_its_source_is_silent(wanted_still):
    house = House(expected=("file", "api"), page=page(theirs=admitted(3000)))
    # Its actor lived on while the supervisor began anew, and says so before anybody else says anything.
    house.alive = {"theirs"}
    house.moved("theirs", PodLife.SYNCING)
    house.listed(presence("theirs", "theirs"))
    house.snapshot(asking("mine", "2"), source="api")
    assert house.alive == {"theirs"}
    assert house.waits("mine").endswith("default/x")
    theirs = (asking("theirs", "3", source="file"),) if wanted_still else ()
    done = house.change(PodOp.ADD, *theirs, source="file")
    if wanted_still:
        assert refusals(done) == {"mine": "OutOfcpu", "theirs": None}
        return
    assert kills(done) == [("theirs", KillCause.ORPHAN)]
    assert house.alive == {"theirs"}, "its room is free when it has ended"
    house.moved("theirs", PodLife.TERMINATED)
    assert house.alive == {"theirs", "mine"}
    house.gone("theirs")
    assert remembered(house) == {"mine": "admitted"}


def test_what_is_being_brought_up_was_admitted_though_its_verdict_was_never_written():
    house = House(expected=("api",))
    house.alive = {"old"}
    house.moved("old", PodLife.SYNCING)
    house.listed()
    house.snapshot(asking("new", "3"), asking("old", "3"), source="api")
    assert refusals(house.last) == {"new": "OutOfcpu", "old": None}


def test_the_same_uid_is_judged_anew_once_nothing_was_left_of_it():
    house = house_of(asking("a", "4"), asking("b", "2"))
    assert refusals(house.last)["b"] == "OutOfcpu"
    house.moved("b", PodLife.FINISHED)
    house.change(PodOp.REMOVE, asking("b", "2"), source="api")
    house.gone("b")
    assert remembered(house) == {"a": "admitted"}
    house.change(PodOp.REMOVE, asking("a", "4"), source="api")
    house.gone("a")
    assert house.page is None, "nothing is left of a page that says nothing"
    assert refusals(house.change(PodOp.ADD, asking("b", "2"), source="api")) == {"b": None}


def test_a_new_version_of_a_static_pod_is_judged_when_the_old_one_is_gone():
    old, new = asking("old", "3", source="file", name="web"), asking("new", "3", source="file", name="web")
    house = house_of(old, source="file")
    house.moved("old", PodLife.SYNCING)
    house.change(PodOp.REMOVE, old)
    house.change(PodOp.ADD, new)
    assert "older pod of the same name" in house.waits("new")
    house.gone("old")
    assert refusals(house.last) == {"new": None}


def critical(uid, cpu):
    return asking(uid, cpu, priority=2_000_000_000)


def test_a_critical_pod_has_others_stopped_and_starts_when_they_have():
    house = house_of(asking("low", "3"), asking("keep", "1"))
    house.moved("low", PodLife.SYNCING), house.moved("keep", PodLife.SYNCING)
    done = house.change(PodOp.ADD, critical("top", "2"), source="api")
    [(to, kill)] = told(done, KillPod)
    assert (to, kill.cause, kill.evict, kill.grace_s) == (
        pod_path(Uid("low")),
        KillCause.PREEMPTED,
        True,
        None,
    )
    assert (kill.reason, kill.message) == ("Preempting", "Preempted in order to admit critical pod")
    assert spawned(done) == []
    assert house.moved("low", PodLife.TERMINATING) == ()
    assert "top" in spawned(house.moved("low", PodLife.TERMINATED))


def test_a_lost_preemption_is_told_again_until_it_is_answered():
    house = house_of(asking("low", "4"))
    house.moved("low", PodLife.SYNCING)
    house.change(PodOp.ADD, critical("top", "2"), source="api")
    assert kills(house.wait(4)) == []
    assert kills(house.wait(1.1)) == [("low", KillCause.PREEMPTED)]
    again = house.give(Restarted(path=pod_path(Uid("low")), incarnation=1, cause="x"))
    assert [type(m) for _, m in told(again, UpdatePod | KillPod)] == [UpdatePod, KillPod]
    house.moved("low", PodLife.TERMINATING)
    assert kills(house.wait(20)) == []


def test_room_that_was_made_is_not_taken_by_those_who_come_later():
    house = house_of(asking("low", "4"))
    house.moved("low", PodLife.SYNCING)
    house.change(PodOp.ADD, critical("top", "4"), source="api")
    house.moved("low", PodLife.TERMINATING)
    house.change(PodOp.ADD, asking("late", "1"), source="api")
    assert refusals(house.last) == {"late": "OutOfcpu"}
    house.moved("low", PodLife.TERMINATED)
    assert house.alive == {"low", "late", "top"}


def test_a_pre_empted_pod_that_is_removed_later_goes_for_good():
    low = asking("low", "4")
    house = house_of(low)
    house.moved("low", PodLife.SYNCING)
    house.change(PodOp.ADD, critical("top", "4"), source="api")
    house.moved("low", PodLife.FINISHED)
    done = house.change(PodOp.REMOVE, low, source="api")
    [(_, kill)] = told(done, KillPod)
    assert (kill.cause, kill.deleted) == (KillCause.REMOVED, True)


def test_the_critical_one_of_those_that_come_together_is_judged_first():
    house = house_of(asking("a", "3"), critical("top", "3"))
    assert refusals(house.last) == {"a": "OutOfcpu", "top": None}


def test_a_new_incarnation_waits_for_what_the_last_one_was_writing():
    house = house_of(answers=False)
    for one in tuple(house.open):
        house.answer(one)
    house.change(PodOp.ADD, asking("a"), source="api")
    [write] = house.open
    assert isinstance(write.call, Remember)
    house.open.clear()
    house.renew_admission(in_flight=(write.op,))
    assert [one.message.brief() for one in house.open] == ["WatchNode /node/admission"]
    house.open.append(write)
    house.answer(write)
    assert [one.call.brief() for one in house.open[1:]] == ["Recall admission/verdicts"]


def test_a_static_pod_is_refused_for_want_of_room_only_when_that_lasts():
    old, new = asking("old", "3", source="file"), asking("new", "3", source="file")
    house = house_of(old, source="file")
    house.moved("old", PodLife.SYNCING)
    house.change(PodOp.ADD, new)
    assert "or else it is refused" in house.waits("new")
    house.now += 0.5
    house.change(PodOp.REMOVE, old)
    house.wait(5)
    assert "pods that are ending" in house.waits("new")
    assert refusals(house.moved("old", PodLife.TERMINATED)) == {"new": None}
    house.change(PodOp.ADD, asking("late", "3", source="file"))
    assert house.wake_at <= house.now + 1.0
    assert refusals(house.wait(1.0)) == {"late": "OutOfcpu"}


def test_a_static_pod_on_the_wrong_node_is_refused_at_once():
    house = house_of(source="file")
    house.change(PodOp.ADD, asking("a", source="file", node_name="n2"))
    assert refusals(house.last) == {"a": "NodeName"}


def test_a_pod_that_asks_for_more_under_its_uid_is_not_judged_anew_and_counted_truly():
    house = house_of(asking("a", "1"))
    house.moved("a", PodLife.SYNCING)
    assert refusals(house.change(PodOp.UPDATE, asking("a", "3"), source="api")) == {"a": None}
    assert refusals(house.change(PodOp.ADD, asking("b", "2"), source="api")) == {"b": "OutOfcpu"}
    again = House(expected=("api",), page=house.page)
    assert again.admission.record.recalled["a"].claim.cpu_milli == 3000
