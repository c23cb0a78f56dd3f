"""What the supervisor does for eviction: says which pods are active when that changes, keeps newcomers out under pressure."""

from api.eviction import Pressure
from api.ids import Path
from api.lifecycle import Tell
from api.messages.admission import NodePressure
from api.messages.eviction import ActivePods, FinishedCleared, PodKilled
from api.messages.kernel import Restarted
from api.messages.pod import ClearPod, KillCause, KillPod
from api.messages.supervisor import ClearFinished, PodLife, PodOp, PodsDecided, WatchPods
from api.paths import pod_path
from tests.unit.actors.pods import wanted
from tests.unit.actors.supervisor.house import House, presence, refusals, told

WATCHER = Path("/node/eviction")


def house_of(*uids):
    house = House(expected=("file",))
    house.listed()
    house.snapshot(*(wanted(uid=uid, name=uid) for uid in uids))
    return house


def active(actions):
    """Return what the watcher is told: UID, and whether the pod is ending; None for nothing."""
    found = [
        one.message
        for one in actions
        if isinstance(one, Tell) and one.to == WATCHER and isinstance(one.message, ActivePods)
    ]
    return {one.uid: one.ending for one in found[-1].pods} if found else None


def leaving(actions):
    """Return the UIDs of those who are leaving as the watcher is told; None for nothing."""
    found = [one.message for one in actions if isinstance(one, Tell) and one.to == WATCHER]
    return found[-1].leaving if found else None


def test_nobody_is_told_who_did_not_ask():
    house = house_of("a")
    assert active(house.moved("a", PodLife.SYNCING)) is None


def test_a_watcher_is_told_at_once_and_whenever_it_changes():
    house = house_of("a", "b")
    assert active(house.give(WatchPods(asked_by=WATCHER))) == {"a": False, "b": False}
    assert active(house.moved("a", PodLife.SYNCING)) is None, "that changes nothing"
    assert active(house.moved("a", PodLife.TERMINATING)) == {"a": True, "b": False}
    assert active(house.moved("a", PodLife.TERMINATED)) is None, "its volumes are there still"
    assert active(house.moved("a", PodLife.FINISHED)) == {"b": False}
    assert active(house.give(WatchPods(asked_by=WATCHER))) == {"b": False}, "who asks again is told again"


def test_an_evicted_pod_is_active_until_what_its_containers_wrote_is_gone():
    house = house_of("a", "b")
    house.give(WatchPods(asked_by=WATCHER))
    house.moved("a", PodLife.TERMINATED)
    assert active(house.moved("a", PodLife.FINISHED, kept=True, leaving=True)) is None
    assert active(house.give(WatchPods(asked_by=WATCHER))) == {"a": True, "b": False}
    assert active(house.moved("a", PodLife.FINISHED, kept=True)) == {"b": False}


def asked_to_clear(actions):
    return [message.uid for _, message in told(actions, ClearPod)]


def test_pods_that_have_ended_are_asked_once_to_let_go_and_whoever_asked_is_told_when_all_have():
    house = house_of("a", "b", "c")
    house.moved("a", PodLife.SYNCING)
    for uid in ("b", "c"):
        house.moved(uid, PodLife.FINISHED, kept=True)
    ask = ClearFinished(run="r1", asked_by=WATCHER)
    assert asked_to_clear(house.give(ask)) == ["b", "c"]
    assert told(house.moved("b", PodLife.FINISHED), FinishedCleared) == []
    assert asked_to_clear(house.last) == []
    assert asked_to_clear(house.give(Restarted(path=pod_path("c"), incarnation=2, cause="boom"))) == ["c"], (
        "it lost what it was told"
    )
    done = house.moved("c", PodLife.FINISHED)
    assert told(done, FinishedCleared) == [(WATCHER, FinishedCleared(run="r1", pods=2))]
    house.moved("a", PodLife.FINISHED, kept=True)
    assert asked_to_clear(house.last) == [], "nobody asks any more"


def test_where_no_pod_has_ended_that_is_said_at_once():
    house = house_of("a")
    house.moved("a", PodLife.SYNCING)
    answer = house.give(ClearFinished(run="r1", asked_by=WATCHER))
    assert told(answer, FinishedCleared) == [(WATCHER, FinishedCleared(run="r1", pods=0))]


def test_newcomers_are_kept_out_under_pressure_and_whoever_is_here_stays():
    house = house_of("a")
    house.ask_admission(NodePressure(conditions=(Pressure.DISK,)))
    assert refusals(house.change(PodOp.ADD, wanted(uid="b", name="b"))) == {"b": "Evicted"}
    vital = wanted(uid="c", name="c", priority_class_name="system-node-critical")
    assert refusals(house.change(PodOp.ADD, vital)) == {"c": None}
    house.ask_admission(NodePressure())
    assert refusals(house.change(PodOp.ADD, wanted(uid="d", name="d"))) == {"d": None}


def test_pods_of_files_are_let_in_where_they_are_spared():
    house = house_of("a")
    house.ask_admission(NodePressure(conditions=(Pressure.DISK,), spares_static=True))
    assert refusals(house.change(PodOp.ADD, wanted(uid="b", name="b"))) == {"b": None}


def test_a_pod_that_no_source_wants_any_more_is_leaving_until_nothing_is_left_of_it():
    house = house_of("a", "b")
    house.give(WatchPods(asked_by=WATCHER))
    house.moved("a", PodLife.SYNCING)
    actions = house.change(PodOp.REMOVE, wanted(uid="a", name="a"))
    assert (active(actions), leaving(actions)) == ({"b": False}, ("a",))
    assert leaving(house.moved("a", PodLife.TERMINATING)) is None, "that changes nothing"
    assert leaving(house.moved("a", PodLife.TERMINATED)) is None, "its volumes are there still"
    assert leaving(house.moved("a", PodLife.GONE)) == ()


def test_nobody_is_told_less_than_the_truth_before_all_of_it_is_known():
    house = House(expected=("file",), answers=False)
    actions = house.give(WatchPods(asked_by=WATCHER))
    actions += house.moved("b", PodLife.SYNCING)
    actions += house.snapshot(wanted(uid="a", name="a"))
    actions += house.listed()
    assert active(actions) is None, "what was decided on them is not recalled yet"
    while house.open:
        actions += house.answer(house.open[0])
    assert (active(actions), leaving(actions)) == ({"a": False}, ("b",))


def test_a_kill_goes_to_the_actor_of_an_earlier_incarnations_time():
    kill = KillPod(uid="a", cause=KillCause.EVICTED, evict=True, asked_by=WATCHER)
    house = House(expected=("file",))
    assert [(one.to, one.message) for one in house.give(kill)] == [(pod_path("a"), kill)]
    house.snapshot()
    assert [(one.to, one.message) for one in house.give(kill)] == [(WATCHER, PodKilled(uid="a"))]


def test_no_pod_is_left_out_while_admission_has_still_to_say_again_what_it_decided():
    house = house_of("a")
    house.moved("a", PodLife.SYNCING)
    house.renew_supervisor()
    house.number = 0
    house.lost = lambda message: isinstance(message, PodsDecided)
    actions = house.give(WatchPods(asked_by=WATCHER))
    actions += house.moved("a", PodLife.SYNCING)
    actions += house.snapshot(wanted(uid="a", name="a"))
    actions += house.listed(presence("a", "a"))
    assert active(actions) is None
    house.lost = lambda message: False
    for _ in range(6):
        actions += house.wait(1.0)
    assert active(actions) == {"a": False}
