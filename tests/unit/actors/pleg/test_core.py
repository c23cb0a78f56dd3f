"""The observer of the runtime: events are hints, listings are truth."""

import itertools

import pytest
from msgspec.structs import replace

from actors.pleg.core import SILENT_S, UNHEALTHY_AFTER_S, decide, health
from actors.pleg.state import PlegState
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Uid
from api.lifecycle import Listen, Start, Tell
from api.messages.kernel import Alarm, Heard, Outcome, StreamEnded
from api.messages.nodestatus import PlegHealthSeen
from api.messages.pleg import UnwatchPod, WatchPlegHealth, WatchPod
from api.messages.pod import PodObserved
from api.messages.supervisor import RuntimeListed
from api.paths import pod_path
from api.ports.runtime import InspectPod, ListPods, PodListing, RuntimeChanged
from tests.unit.actors.pods import box, instance, shown

BROKEN = Failure(kind=FailureKind.UNAVAILABLE, message="no runtime at unix:///x")


class Eye:
    """A Pleg core and what it did."""

    def __init__(self, *watched):
        self.now = 0.0
        self.ops = itertools.count(1)
        self.open = {}
        self.state = PlegState(watched=frozenset(watched or ("u1",)))
        self.give(None)

    def give(self, message):
        decision = decide(self.state, message, self.now, lambda: next(self.ops))
        self.state, self.wake_at, self.last = decision.state, decision.wake_at, decision.actions
        for action in decision.actions:
            if isinstance(action, Start):
                self.open[action.op] = (action.call, self.now)
        return decision.actions

    def answer(self, kind, result=None, failure=None):
        op = next(op for op, (call, _) in self.open.items() if isinstance(call, kind))
        call, since = self.open.pop(op)
        self.now += 0.01
        return self.give(
            Outcome(
                op=op,
                call=type(call).__name__,
                result=result,
                failure=failure,
                started_at=since,
                ended_at=self.now,
            )
        )

    def list(self, *pods, complete=True):
        return self.answer(ListPods, PodListing(pods=pods, complete=complete))

    def ring(self):
        self.now = self.wake_at
        return self.give(Alarm(at=self.now))

    def hint(self, uid="u1"):
        return self.give(Heard(stream="runtime.events", item=RuntimeChanged(uid=Uid(uid))))


def observed(actions):
    return [a.message for a in actions if isinstance(a, Tell) and isinstance(a.message, PodObserved)]


def calls(actions):
    return [type(a.call) for a in actions if isinstance(a, Start)]


POD = shown(box(), instance())


def test_it_begins_by_listening_and_listing():
    eye = Eye()
    assert [type(a) for a in eye.last] == [Listen, Start]
    eye.list(POD)
    assert [m.pod for m in observed(eye.last)] == [POD]
    (listed,) = (a.message for a in eye.last if isinstance(a, Tell) and isinstance(a.message, RuntimeListed))
    assert (listed.as_of, [(p.uid, p.alive) for p in listed.pods]) == (0.0, [("u1", True)])


def test_it_says_of_whom_only_containers_were_listed():
    eye = Eye()
    eye.list(POD, shown(instance(), uid=Uid("u2")), shown(box(), uid=Uid("u3")))
    (listed,) = (a.message for a in eye.last if isinstance(a, Tell) and isinstance(a.message, RuntimeListed))
    assert [p.uid for p in listed.pods if p.loose] == ["u2"]


def test_a_fact_carries_when_its_look_began():
    eye = Eye()
    eye.list()
    eye.now = 3.0
    eye.hint(), eye.answer(InspectPod, POD)
    assert observed(eye.last)[0].as_of == 3.0


def test_a_hint_makes_it_inspect_that_pod_at_once():
    eye = Eye()
    eye.list(POD)
    assert eye.hint() == (eye.last[0],)
    assert eye.last[0].call == InspectPod(uid=Uid("u1"))
    eye.answer(InspectPod, shown(box(), instance(state="exited", code=1)))
    assert observed(eye.last)[0].pod.containers[0].exit_code == 1
    assert eye.last[0].to == pod_path(Uid("u1"))


def test_what_changes_during_a_look_is_looked_at_once_more():
    eye = Eye()
    eye.list(POD)
    eye.hint()
    assert calls(eye.hint()) == calls(eye.hint()) == []
    assert calls(eye.answer(InspectPod, POD)) == [InspectPod]
    assert calls(eye.answer(InspectPod, POD)) == []


def test_it_lists_every_five_seconds_while_it_hears_and_every_second_while_it_is_deaf():
    eye = Eye()
    eye.list(POD)
    assert eye.wake_at - eye.now == 5
    eye.give(StreamEnded(stream="runtime.events", failure=BROKEN))
    assert eye.wake_at - eye.now == 1
    actions = eye.ring()
    assert [type(a) for a in actions] == [Listen, Start], (
        "first hear, then list, so that nothing falls between"
    )
    eye.give(StreamEnded(stream="runtime.events", failure=BROKEN))
    eye.list(POD)
    assert eye.wake_at - eye.now <= 1


@pytest.mark.parametrize(("pods", "period_s"), [(1, 5), (50, 5), (110, 11), (250, 12)])
def test_the_more_pods_there_are_the_rarer_they_are_listed_while_events_flow(pods, period_s):
    eye = Eye()
    eye.list(*(replace(POD, uid=Uid(f"u{number}")) for number in range(pods)))
    assert eye.wake_at - eye.now == period_s
    eye.give(StreamEnded(stream="runtime.events", failure=BROKEN))
    assert eye.wake_at - eye.now == 1


def test_an_unchanged_pod_is_told_again_once_a_minute():
    eye = Eye()
    eye.list(POD)
    told = []
    for _ in range(26):
        eye.ring(), eye.list(POD)
        told += [eye.now] * len(observed(eye.last))
    assert len(told) == 2
    assert 60 <= told[0] < 66


def test_a_pod_of_which_nothing_is_left_is_told_so_once():
    eye = Eye()
    eye.list(POD), eye.ring(), eye.list()
    assert [m.pod for m in observed(eye.last)] == [shown()]
    eye.ring(), eye.list()
    assert observed(eye.last) == []


def test_a_failing_listing_is_tried_again_more_slowly():
    eye = Eye()
    waits = []
    for _ in range(6):
        eye.answer(ListPods, failure=BROKEN)
        waits.append(round(eye.wake_at - eye.now, 3))
        eye.ring()
    assert waits == [1, 2, 4, 8, 10, 10]
    eye.list()
    assert (eye.state.failures, eye.wake_at - eye.now) == (0, 5)


def test_a_failing_look_is_made_up_for_by_a_listing():
    eye = Eye()
    eye.list(POD), eye.hint()
    eye.answer(InspectPod, failure=BROKEN)
    assert eye.wake_at - eye.now == 1


def test_it_lists_each_period_but_never_twice_at_a_time():
    eye = Eye()
    eye.now += 1000
    assert calls(eye.give(Alarm(at=eye.now))) == []
    eye.list()
    assert calls(eye.ring()) == [ListPods]


def test_an_incomplete_listing_tells_nothing_it_does_not_show():
    eye = Eye()
    bare = replace(POD, containers=(replace(POD.containers[0], annotations=(), state="exited"),))
    eye.list(bare, complete=False)
    assert (observed(eye.last), calls(eye.last)) == ([], [InspectPod])
    dead = shown(box(), instance(state="exited", code=3))
    assert observed(eye.answer(InspectPod, dead))[0].pod == dead
    (
        eye.ring(),
        eye.list(replace(dead, containers=(replace(dead.containers[0], exit_code=None),)), complete=False),
    )
    assert (observed(eye.last), calls(eye.last)) == ([], []), "nothing changed that it shows"
    eye.ring(), eye.list(complete=False)
    assert [m.pod for m in observed(eye.last)] == [shown()]


def test_a_pod_that_nobody_watches_is_listed_and_told_to_nobody():
    eye = Eye("other")
    eye.list(POD)
    assert observed(eye.last) == []
    assert [type(a.message) for a in eye.last if isinstance(a, Tell)] == [RuntimeListed]
    eye.ring(), eye.list(POD, complete=False)
    assert calls(eye.last) == []


def test_who_begins_to_watch_is_told_what_was_seen_before():
    eye = Eye("other")
    eye.list(POD)
    eye.give(WatchPod(uid=Uid("u1")))
    eye.ring(), eye.list(POD)
    assert [m.pod for m in observed(eye.last)] == [POD]
    eye.give(UnwatchPod(uid=Uid("u1")))
    eye.ring(), eye.list()
    assert observed(eye.last) == []


def test_health_names_the_call_that_does_not_answer():
    eye = Eye()
    assert health(eye.state, 10) == (True, "")
    fine, said = health(eye.state, 179)
    assert fine
    assert "ListPods has not answered for 179 s" in said
    fine, said = health(eye.state, 200)
    assert not fine
    assert "ListPods has not answered for 200 s" in said
    eye.answer(ListPods, failure=BROKEN)
    assert "no runtime at unix:///x" in health(eye.state, 200)[1]


def test_a_listing_that_is_not_answered_is_told_long_before_it_is_given_up():
    eye = Eye()
    assert eye.wake_at == SILENT_S
    eye.ring()
    assert eye.state.failure == "ListPods has not answered for 30 s"
    assert eye.wake_at is None
    assert calls(eye.last) == [], "it is still waited for"
    eye.list(POD)
    assert eye.state.failure == ""


def healths(eye):
    return [
        (a.to, a.message) for a in eye.last if isinstance(a, Tell) and isinstance(a.message, PlegHealthSeen)
    ]


def test_who_asks_for_health_gets_it_at_once_and_when_it_changes():
    eye, status = Eye(), paths.NODESTATUS
    eye.give(WatchPlegHealth(asked_by=status))
    assert healths(eye) == [(status, PlegHealthSeen(is_healthy=False))], (
        "as in a kubelet before the first listing"
    )
    eye.list(POD)
    assert healths(eye) == [(status, PlegHealthSeen(is_healthy=True, listed_at=0.0))]
    eye.give(WatchPlegHealth(asked_by=status))
    assert healths(eye) == [(status, PlegHealthSeen(is_healthy=True, listed_at=0.0))]
    while eye.now < UNHEALTHY_AFTER_S:
        eye.ring()
        assert bool(healths(eye)) == (eye.now >= UNHEALTHY_AFTER_S)
    assert eye.now == UNHEALTHY_AFTER_S
    assert healths(eye) == [(status, PlegHealthSeen(is_healthy=False, listed_at=0.0))]
    eye.list(POD)
    assert [message.is_healthy for _, message in healths(eye)] == [True]
