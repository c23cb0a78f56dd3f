"""Who owns which pod: gates, gaps, orphans, quarantine, adoption, what is left over."""

import pytest
from msgspec.structs import replace

from actors.admission.verdict import Verdict, encoded
from actors.rules.desiredsources import ASK_AGAIN_S
from actors.supervisor.kill import REPEAT_S
from actors.supervisor.podactor import QUARANTINE
from actors.supervisor.state import SpawnPod, StopPod
from api.errors import Failure, FailureKind
from api.ids import Path, Uid
from api.lifecycle import Start, Tell
from api.messages.admission import PodsToAdmit
from api.messages.events import LedgerDamaged
from api.messages.eviction import PodKilled
from api.messages.kernel import Outcome, Restarted
from api.messages.pod import KillCause, KillPod, UpdatePod
from api.messages.podconfig import SnapshotWanted
from api.messages.status import ForgetPodStatus
from api.messages.supervisor import PodLife, PodOp, PodsChanged
from api.paths import pod_path
from api.ports.ledger import RecallAll, RecalledAll
from api.ports.podfiles import ListPodFolders, PodFolders
from tests.unit.actors.pods import wanted
from tests.unit.actors.supervisor.house import House, kills, presence, spawned, told

ASKER = Path("/node/asker")


def test_each_desired_pod_gets_an_actor_and_is_told_what_it_is():
    house = House()
    house.snapshot(wanted(uid="u1"))
    assert spawned(house.last) == [], "a static pod waits for the first listing"
    house.listed()
    assert spawned(house.last) == ["u1"]
    assert [to for to, _ in told(house.last, UpdatePod)] == [pod_path(Uid("u1"))]
    house.listed()
    assert house.last == ()


def test_a_pod_is_told_again_what_it_is_once_a_minute():
    house = House()
    house.snapshot(wanted()), house.listed()
    assert told(house.wait(59), UpdatePod) == []
    assert len(told(house.wait(1.5), UpdatePod)) == 1


def test_a_pod_that_says_again_what_is_known_changes_nothing_not_even_the_next_look():
    house = House()
    house.snapshot(wanted(uid="u1"), wanted(uid="u2", name="other")), house.listed()
    house.moved("u1", PodLife.SYNCING, confined=1)
    before, wake_at = house.state, house.wake_at
    house.now += 1
    assert house.moved("u1", PodLife.SYNCING, confined=1) == ()
    assert house.state is before
    assert house.wake_at == wake_at
    assert len(told(house.wait(59.5), UpdatePod)) == 2, "both are told again when a minute is over"
    house.moved("u1", PodLife.SYNCING, confined=1, kept=True)
    assert house.state is not before
    assert house.state.entries[Uid("u1")].reported.kept


def test_a_newer_static_pod_of_one_name_waits_until_nothing_is_left_of_the_older():
    house = House()
    house.snapshot(wanted(uid="u1")), house.listed()
    house.change(PodOp.REMOVE, wanted(uid="u1")), house.change(PodOp.ADD, wanted(uid="u2"))
    house.change(PodOp.REMOVE, wanted(uid="u2")), house.change(PodOp.ADD, wanted(uid="u3"))
    assert house.alive == {"u1"}
    house.listed(presence("u1"), as_of=house.now)
    house.gone("u1")
    assert house.alive == {"u3"}, "the listing from before the end must not hold its name"


def test_static_pods_of_one_name_start_in_the_order_in_which_they_came():
    house = House()
    house.snapshot(wanted(uid="u1"), wanted(uid="u2"), wanted(uid="u3")), house.listed()
    for uid in ("u1", "u2", "u3"):
        assert house.alive == {uid}
        house.change(PodOp.REMOVE, wanted(uid=uid))
        house.gone(uid)
    assert house.alive == set()


def test_pods_of_the_api_are_not_held_up_by_their_name():
    house = House(expected=("api",))
    house.snapshot(wanted(uid="u1"), wanted(uid="u2"), source="api"), house.listed()
    assert house.alive == {"u1", "u2"}


def test_a_quarantined_holder_keeps_its_name():
    house = House()
    house.snapshot(wanted(uid="u1"), wanted(uid="u2")), house.listed()
    house.died("u1", "boom")
    assert house.alive == set()
    house.wait(QUARANTINE.base_s + 1)
    assert house.alive == {"u1"}


def test_nothing_is_cleaned_up_before_every_source_was_seen():
    house = House(expected=("file", "http"))
    house.snapshot(seen=("file",)), house.listed(presence("o1", "old"))
    assert (house.alive, house.state.garbage.calls) == (set(), ())
    house.change(PodOp.ADD, source="http")
    assert kills(house.last) == [("o1", KillCause.ORPHAN)]
    assert [type(a.call) for a in house.last if isinstance(a, Start)] == [
        RecallAll,
        RecallAll,
        ListPodFolders,
    ]


def test_what_a_source_no_longer_wants_ends_while_another_source_is_silent():
    house = House(expected=("file", "api"))
    house.snapshot(wanted(), wanted(uid="u2", name="other"), seen=("file",)), house.listed()
    assert kills(house.change(PodOp.REMOVE, wanted())) == [("u1", KillCause.REMOVED)]
    assert house.alive == {"u1", "u2"}


def test_an_orphan_ends_when_the_source_that_it_came_from_has_answered():
    house = House(expected=("file", "api"))
    house.snapshot(seen=("file",))
    house.listed(
        presence("o1", "of-a-file", source="file"),
        presence("o2", "of-the-api", source="api"),
        presence("o3", "of-a-url", source="http"),
        presence("o4", "unknown"),
    )
    assert kills(house.last) == [("o1", KillCause.ORPHAN)]
    house.change(PodOp.ADD, source="api")
    assert [uid for uid, _ in kills(house.last)] == ["o2", "o3", "o4"]


def test_a_pod_of_another_agent_is_shown_and_not_touched():
    house = House()
    house.snapshot(), house.listed(presence("f1", "theirs", ours=False))
    assert house.alive == set()
    assert [p.uid for p in house.state.runtime.foreign] == ["f1"]


def test_what_is_left_of_a_pod_of_which_nothing_runs_is_collected_once_all_sources_were_seen():
    house = House(expected=("file", "http"))
    house.snapshot(seen=("file",)), house.listed(presence("dead", alive=False))
    assert house.alive == set()
    house.change(PodOp.ADD, source="http")
    assert kills(house.last) == [("dead", KillCause.ORPHAN)]
    house.gone("dead")
    house.listed()
    assert (house.alive, dict(house.state.entries)) == (set(), {})


def test_dead_remains_of_another_agent_are_shown_and_not_collected():
    house = House()
    house.snapshot(), house.listed(presence("f1", "theirs", ours=False, alive=False))
    house.wait(1000)
    assert (house.alive, [p.uid for p in house.state.runtime.foreign]) == (set(), ["f1"])
    house.listed()
    assert house.state.runtime.foreign == ()


def test_a_pod_of_another_agent_that_began_between_the_two_listings_is_not_touched():
    house = House()
    house.snapshot(), house.listed(presence("f1", "theirs", loose=True))
    house.listed(presence("f1", "theirs", loose=True), as_of=house.now)  # the same one, told twice
    house.wait(5)
    house.listed(presence("f1", "theirs", ours=False))
    house.wait(100)
    assert (house.alive, [p.uid for p in house.state.runtime.foreign]) == (set(), ["f1"])


def test_containers_without_a_sandbox_are_collected_when_two_listings_show_them():
    house = House()
    house.snapshot(), house.listed(presence("left", loose=True))
    assert house.alive == set()
    house.wait(5)
    house.listed(presence("left", loose=True))
    assert kills(house.last) == [("left", KillCause.ORPHAN)]


def test_taking_over_makes_it_ours():
    house = House(take_over=True)
    house.snapshot(), house.listed(presence("f1", "theirs", ours=False))
    assert kills(house.last) == [("f1", KillCause.ORPHAN)]
    assert house.state.runtime.foreign == ()


def test_an_older_pod_of_the_name_in_the_runtime_is_stopped_first_with_its_own_grace():
    house = House(expected=("file", "api"))
    house.snapshot(wanted(uid="new")), house.listed(presence("old"))
    ((_, kill),) = told(house.last, KillPod)
    assert (kill.uid, kill.cause, kill.grace_s) == ("old", KillCause.REPLACED, None)
    assert house.alive == {"old"}
    house.gone("old")
    assert house.alive == {"new"}


def test_what_no_source_wants_gets_its_own_grace():
    house = House(page=encoded({Uid("decided"): Verdict(name="default/b")}))
    house.snapshot(), house.listed(presence("shown", "a"))
    found = told(house.last, KillPod)
    swept(house, (RecalledAll(entries=(("left", b""),)), RecalledAll(), PodFolders()))
    found += told(house.last, KillPod) + told(house.moved("kept", PodLife.SYNCING), KillPod)
    graces = {message.uid: message.grace_s for _, message in found}
    assert graces == dict.fromkeys(("decided", "shown", "left", "kept"))


def test_a_missing_number_asks_for_a_snapshot_until_it_comes():
    house = House()
    house.snapshot(wanted())
    house.change(PodOp.REMOVE, skip=1)
    assert len(told(house.last, SnapshotWanted)) == 1
    assert house.state.entries["u1"].desired.pod is not None
    assert told(house.wait(1), SnapshotWanted) == []
    assert len(told(house.wait(ASK_AGAIN_S), SnapshotWanted)) == 1
    house.snapshot()
    assert told(house.wait(ASK_AGAIN_S), SnapshotWanted) == []


def test_an_old_number_changes_nothing():
    house = House()
    house.snapshot(wanted())
    house.give(PodsChanged(number=1, source="file", op=PodOp.REMOVE, pods=(wanted(),)))
    assert house.state.entries["u1"].desired.pod is not None


def test_a_pod_that_is_removed_is_killed_again_and_again_until_nothing_is_left():
    house = House()
    house.snapshot(wanted()), house.listed()
    house.change(PodOp.REMOVE, wanted())
    assert kills(house.last) == [("u1", KillCause.REMOVED)]
    assert kills(house.wait(REPEAT_S + 1)) == [("u1", KillCause.REMOVED)]
    house.moved("u1", PodLife.TERMINATING)
    actions = house.moved("u1", PodLife.GONE)
    assert [m.uid for _, m in told(actions, ForgetPodStatus)] == ["u1"]
    assert StopPod(uid="u1") in actions
    house.died("u1")
    assert house.state.entries == {}


def test_a_uid_that_comes_back_while_it_is_stopped_runs_again_after_its_end():
    house = House()
    house.snapshot(wanted()), house.listed()
    house.change(PodOp.REMOVE, wanted()), house.moved("u1", PodLife.TERMINATING)
    house.change(PodOp.ADD, wanted())
    assert told(house.last, UpdatePod) == []
    house.gone("u1")
    assert (spawned(house.last), len(told(house.last, UpdatePod))) == (["u1"], 1)
    assert kills(house.wait(60)) == []


def test_a_dead_actor_is_quarantined_and_tried_again_more_and_more_slowly():
    house = House()
    house.snapshot(wanted()), house.listed()
    waits = []
    for _ in range(7):
        house.died("u1", "boom")
        assert house.state.entries["u1"].actor.cause == "boom"
        waits.append(house.due_in("u1"))
        house.wait(waits[-1])
        assert house.alive == {"u1"}
        assert told(house.last, UpdatePod)
    assert waits == pytest.approx([10, 20, 40, 80, 160, 300, 300])


def test_a_kill_ends_the_quarantine_and_reaches_the_actor():
    house = House()
    house.snapshot(wanted()), house.listed()
    house.died("u1", "boom")
    kill = KillPod(uid=Uid("u1"), cause=KillCause.EVICTED, asked_by=ASKER)
    actions = house.give(kill)
    assert spawned(actions) == ["u1"]
    assert told(actions, KillPod) == [(pod_path(Uid("u1")), kill)]
    assert told(actions, PodKilled) == []
    assert actions.index(SpawnPod(uid="u1")) < actions.index(Tell(to=pod_path(Uid("u1")), message=kill))


def test_a_kill_of_a_pod_that_nobody_owns_is_answered_at_once():
    house = House()
    house.snapshot()
    actions = house.give(KillPod(uid=Uid("x"), cause=KillCause.EVICTED, asked_by=ASKER))
    assert told(actions, PodKilled) == [(ASKER, PodKilled(uid=Uid("x")))]


def test_a_kill_of_a_running_pod_is_passed_on():
    house = House()
    house.snapshot(wanted()), house.listed()
    kill = KillPod(uid=Uid("u1"), cause=KillCause.EVICTED, asked_by=ASKER)
    assert told(house.give(kill), KillPod) == [(pod_path(Uid("u1")), kill)]


def test_a_new_incarnation_takes_charge_of_the_actors_that_lived_on():
    house = House()
    house.moved("u1", PodLife.SYNCING)
    house.moved("u2", PodLife.TERMINATING)
    house.alive = {"u1", "u2"}
    done = house.snapshot(wanted(uid="u1"))
    assert "u2" in {uid for uid, _ in kills(done)}
    done = house.listed(presence("u1"))
    assert house.alive == {"u1", "u2"}, "nothing is spawned twice"
    assert [m.pod.metadata.uid for _, m in told(done, UpdatePod)] == ["u1"]


def test_an_actor_that_lived_on_is_ended_and_not_forgotten_when_its_pod_leaves_while_a_source_is_silent():
    house = House(expected=("file", "http"))
    house.snapshot(wanted())
    house.moved("u1", PodLife.FINISHED, kept=True)
    assert kills(house.change(PodOp.REMOVE, wanted())) == [("u1", KillCause.REMOVED)]
    assert house.state.entries["u1"].has_actor
    assert not any(m.left for m in house.said if isinstance(m, PodsToAdmit)), "it keeps its verdict"


def test_an_adopted_actor_of_an_older_pod_is_replaced_before_every_source_was_seen():
    house = House(expected=("file", "api"))
    house.alive = {"old"}
    house.moved("old", PodLife.SYNCING)
    house.snapshot(wanted(uid="new"))
    assert kills(house.last) == [("old", KillCause.REPLACED)]
    house.listed(presence("old"))
    house.gone("old")
    assert house.alive == {"new"}


def test_a_restarted_actor_is_told_everything_again():
    house = House()
    house.snapshot(wanted()), house.listed()
    assert (
        len(told(house.give(Restarted(path=pod_path(Uid("u1")), incarnation=1, cause="x")), UpdatePod)) == 1
    )
    house.change(PodOp.REMOVE, wanted())
    assert len(kills(house.give(Restarted(path=pod_path(Uid("u1")), incarnation=2, cause="x")))) == 1


def test_what_earlier_lives_left_on_disk_is_swept():
    house = House()
    begun = [a.op for a in house.snapshot(wanted(uid="u1")) if isinstance(a, Start)]
    house.listed()
    results = [
        RecalledAll(entries=(("u1", b""), ("old1", b""))),
        RecalledAll(entries=(("old2", b""),)),
        # The log root may be another agent's too: a log folder alone is nothing of ours.
        PodFolders(uids=(Uid("old3"),), log_directories=((Uid("theirs"), "/logs/d_w_theirs"),)),
    ]
    for op, result in zip(begun, results, strict=True):
        house.give(Outcome(op=op, call="RecallAll", result=result, started_at=100.0, ended_at=100.0))
    assert house.alive == {"u1", "old1", "old2", "old3"}
    assert {uid for uid, _ in kills(house.last)} == {"old1", "old2", "old3"}


def test_pages_that_are_damaged_are_left_to_the_actors_of_their_pods():
    house = House()
    begun = [a for a in house.snapshot(wanted(uid="u1")) if isinstance(a, Start)]
    assert [a.call.only_look for a in begun if isinstance(a.call, RecallAll)] == [True, True]
    house.listed()
    swept(house, (RecalledAll(damaged=(("old1", "it is damaged"),)), RecalledAll(), PodFolders()))
    assert house.alive == {"u1", "old1"}
    assert {uid for uid, _ in kills(house.last)} == {"old1"}
    assert house.state.garbage.remains == {"old1"}


def test_a_page_of_verdicts_that_cannot_be_read_is_told_as_an_event_of_the_node():
    for page, why in ((b"nonsense", "admission/verdicts holds what no agent"), (None, "")):
        house = House(page=page)
        sent = told(house.last, LedgerDamaged)
        assert [(to, m.section) for to, m in sent] == ([("/node/events", "admission")] if why else [])
        assert all(why in m.whys[0] for _, m in sent)
        house.snapshot(wanted(uid="u1")), house.listed()
        assert told(house.last, LedgerDamaged) == []
        assert house.alive == {"u1"}


NOTHING = (RecalledAll(), RecalledAll(), PodFolders())
BROKEN = Failure(kind=FailureKind.UNAVAILABLE, message="it broke")


def swept(house, found=NOTHING):
    """Answer the look for what is left in ledger and folders."""
    for op, result in zip(house.state.garbage.calls, found, strict=True):
        broke = isinstance(result, Failure)
        answer = {"failure": result} if broke else {"result": result}
        house.give(Outcome(op=op, call="RecallAll", started_at=100.0, ended_at=100.0, **answer))


def blanks(house, *pods):
    """Return since when nothing is known of each pod that comes now and has an actor."""
    house.change(PodOp.ADD, *pods)
    return {a.uid: a.blank_as_of for a in house.last if isinstance(a, SpawnPod)}


def test_of_a_pod_of_which_nothing_was_found_anywhere_its_actor_is_told_so():
    house = House()
    house.snapshot(), house.listed()
    listed_at = house.now
    swept(house)
    house.now += 5
    assert blanks(house, wanted(uid="u1"), wanted(uid="u2", name="other")) == {
        "u1": listed_at,
        "u2": listed_at,
    }


@pytest.mark.parametrize(
    "found",
    [
        (),
        (RecalledAll(entries=(("u1", b""),)), RecalledAll(), PodFolders()),
        (RecalledAll(), RecalledAll(entries=(("u1", b""),)), PodFolders()),
        (RecalledAll(), RecalledAll(), PodFolders(uids=(Uid("u1"),))),
        (RecalledAll(damaged=(("u1", "the page of u1 is damaged"),)), RecalledAll(), PodFolders()),
        (RecalledAll(damaged=(("", "the section cannot be read"),)), RecalledAll(), PodFolders()),
        (RecalledAll(), RecalledAll(), BROKEN),
        (BROKEN, RecalledAll(), PodFolders()),
    ],
)
def test_an_actor_asks_for_itself_where_something_was_found_or_not_all_was_looked_at(found):
    house = House()
    house.snapshot(), house.listed()
    if found:
        swept(house, found)
    house.change(PodOp.ADD, wanted(uid="u1"))
    assert [a.blank_as_of for a in house.last if isinstance(a, SpawnPod)] in ([None], [])
    assert "u1" in house.alive


@pytest.mark.parametrize("ours", [True, False])
def test_an_actor_asks_for_itself_where_the_runtime_showed_something(ours):
    house = House()
    house.snapshot(), house.listed(presence("u1", ours=ours))
    swept(house)
    house.change(PodOp.ADD, wanted(uid="u1"))
    assert house.state.entries[Uid("u1")].has_actor
    assert [a.blank_as_of for a in house.last if isinstance(a, SpawnPod)] in ([None], [])


def test_an_actor_that_died_and_one_whose_pod_has_just_ended_ask_for_themselves():
    house = House()
    house.snapshot(), house.listed()
    swept(house)
    assert blanks(house, wanted(uid="u1")) == {"u1": 100.0}
    house.died("u1", "boom")
    again = house.wait(QUARANTINE.base_s + 1)
    assert [a.blank_as_of for a in again if isinstance(a, SpawnPod)] == [None]
    house.change(PodOp.REMOVE, wanted(uid="u1"))
    house.gone("u1")
    assert blanks(house, wanted(uid="u1")) == {"u1": None}, "no listing is as new as its end"


def deleted(grace_s=30, uid="u1"):
    """Return a pod whose object is being deleted."""
    pod = wanted(uid=uid, source="")
    metadata = replace(
        pod.metadata,
        deletion_timestamp="2026-01-01T00:00:30Z",
        deletion_grace_period_seconds=grace_s,
    )
    return replace(pod, metadata=metadata)


def graces(actions):
    """Return cause and grace of each kill that was sent, and whether nothing is to stay."""
    return [(m.cause, m.grace_s, m.deleted) for _, m in told(actions, KillPod)]


def running_api_pod():
    house = House(expected=("api",))
    house.listed(), house.snapshot(wanted(uid="u1", source=""), source="api")
    house.moved("u1", PodLife.SYNCING)
    return house


def test_a_pod_whose_object_is_being_deleted_is_stopped_with_the_grace_of_the_deletion():
    house = running_api_pod()
    done = house.change(PodOp.DELETE, deleted(), source="api")
    sent = [type(m) for to, m in told(done, UpdatePod | KillPod) if to == pod_path(Uid("u1"))]
    assert sent == [UpdatePod, KillPod], "it is known to be deleted before it is stopped"
    assert graces(done) == [(KillCause.DELETED, 30, False)]
    assert graces(house.wait(REPEAT_S + 1)) == [(KillCause.DELETED, 30, False)], "until it is answered"
    house.moved("u1", PodLife.TERMINATING)
    assert graces(house.wait(20)) == []


def test_each_shorter_grace_of_a_deletion_reaches_the_pod_and_no_longer_one():
    house = running_api_pod()
    house.change(PodOp.DELETE, deleted(30), source="api")
    house.moved("u1", PodLife.TERMINATING)
    assert graces(house.change(PodOp.DELETE, deleted(60), source="api")) == []
    assert graces(house.change(PodOp.DELETE, deleted(5), source="api")) == [(KillCause.DELETED, 5, False)]
    assert graces(house.change(PodOp.DELETE, deleted(0), source="api")) == [(KillCause.DELETED, 1, False)]
    again = house.give(Restarted(path=pod_path(Uid("u1")), incarnation=1, cause="x"))
    assert graces(again) == [(KillCause.DELETED, 1, False)], "a new life of the actor is told at once"


def test_what_is_left_of_a_deleted_pod_stays_until_its_source_lets_go_of_it():
    house = running_api_pod()
    house.change(PodOp.DELETE, deleted(), source="api")
    house.moved("u1", PodLife.FINISHED)
    assert graces(house.wait(61)) == []
    assert house.alive == {"u1"}
    done = house.change(PodOp.REMOVE, deleted(), source="api")
    assert graces(done) == [(KillCause.REMOVED, None, True)]
    house.gone("u1")
    assert house.state.entries == {}


def test_a_pod_that_is_deleted_before_it_was_ever_seen_is_brought_to_its_end_and_never_refused():
    house = House(expected=("api",))
    house.listed(), house.snapshot(deleted(7), source="api")
    assert house.alive == {"u1"}
    assert [update.refusal for _, update in told(house.last, UpdatePod)] == [None]
    assert graces(house.last) == [(KillCause.DELETED, 7, False)]


def test_a_dead_actor_of_a_deleted_pod_is_told_again_when_it_is_back():
    house = running_api_pod()
    house.change(PodOp.DELETE, deleted(), source="api")
    house.died("u1", "boom")
    assert graces(house.wait(QUARANTINE.base_s + 1)) == [(KillCause.DELETED, 30, False)]
