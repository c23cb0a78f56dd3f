"""Hints of the kernel: they have usage read at once, seldom enough, and decide nothing."""

import itertools

import pytest

from actors.eviction.core import begin, decide
from actors.eviction.explain import explain
from actors.eviction.hint import ANSWER_S, ASK_AGAIN_S
from actors.eviction.report import report
from actors.eviction.state import CROSSINGS, EvictionState, KernelHints
from api import paths
from api.errors import Failure, FailureKind
from api.eviction import EvictionPolicy, MemoryCrossed, Quantity, Signal, Threshold
from api.lifecycle import Listen, Tell
from api.messages.eviction import ActivePods
from api.messages.kernel import Alarm, Heard, StreamEnded
from api.messages.usage import ReadUsageNow, UsageRead
from api.usage import MemoryUsage, NodeUsage, Usage

GI = 1 << 30
WALL = 1_700_000_000_000_000_000
HARD = Threshold(signal=Signal.MEMORY, value=Quantity(amount=GI))
SOFT = Threshold(signal=Signal.MEMORY, value=Quantity(amount=2 * GI), grace_s=60.0)
ASK = Tell(to=paths.USAGE, message=ReadUsageNow(asked_by=paths.EVICTION, everything=False))


class Hand:
    """Drives the core; the clock is its own."""

    def __init__(self, hears=True):
        self.now = 1000.0
        self.rounds = itertools.count(1)
        policy = EvictionPolicy(thresholds=(HARD, SOFT))
        self.take(
            begin(EvictionState(policy=policy, kernel=KernelHints() if hears else None), self.now, WALL)
        )
        self.first = self.actions
        self.tell(ActivePods(pods=()))

    def take(self, decision):
        self.state, self.actions, self.wake_at = decision.state, decision.actions, decision.wake_at

    def tell(self, message, after_s=0.0):
        self.now += after_s
        self.take(decide(self.state, message, self.now, WALL))
        return ASK in self.actions

    def hint(self, *thresholds, after_s=0.0):
        crossed = MemoryCrossed(thresholds=thresholds or (HARD,))
        return self.tell(Heard(stream=CROSSINGS, item=crossed), after_s)

    def usage(self, free=8 * GI, as_of=None):
        memory = MemoryUsage(at=1, usage_bytes=1, working_set_bytes=16 * GI - free, available_bytes=free)
        as_of = self.now if as_of is None else as_of
        node = NodeUsage(as_of=as_of, capacity_bytes=16 * GI, memory=memory)
        return self.tell(UsageRead(usage=Usage(at=WALL, as_of=as_of, round=next(self.rounds), node=node)))

    def alarm(self):
        assert self.wake_at is not None
        return self.tell(Alarm(at=self.wake_at), self.wake_at - self.now)


def test_the_kernel_is_listened_to_where_there_is_something_to_hear():
    assert Listen(stream=CROSSINGS) in Hand().first
    assert Listen(stream=CROSSINGS) not in Hand(hears=False).first


def test_a_hint_has_usage_read_at_once_and_decides_nothing():
    hand = Hand()
    hand.usage()
    assert hand.hint(after_s=3.0)
    assert hand.state.pressure.met == ()
    assert hand.state.pressure.conditions == ()
    hand.usage(free=GI // 2)
    assert {one.threshold for one in hand.state.pressure.met} == {HARD, SOFT}


def test_a_storm_asks_once_a_second():
    hand = Hand()
    hand.usage()
    asked = sum(hand.hint(after_s=0.01) for _ in range(500))
    assert asked == 5
    assert hand.state.kernel.count == 500


def test_a_reading_begun_before_the_hint_does_not_answer_it():
    hand = Hand()
    hand.usage()
    assert hand.hint(after_s=3.0)
    hand.usage(as_of=hand.now - 0.1)
    assert hand.state.kernel.hinted_at is not None
    assert hand.wake_at == hand.now + ASK_AGAIN_S
    assert hand.alarm()
    hand.usage()
    assert hand.state.kernel.hinted_at is None
    assert not hand.tell(Alarm(at=0.0), 5.0)


def test_a_hint_that_nobody_answers_is_given_up():
    hand = Hand()
    hand.usage()
    began = hand.now
    assert hand.hint()
    asked = 0
    while hand.state.kernel.hinted_at is not None:
        asked += hand.alarm()
    assert hand.now == began + ANSWER_S
    assert asked == ANSWER_S / ASK_AGAIN_S - 1


def test_what_is_known_already_is_no_news():
    hand = Hand()
    hand.usage(free=3 * GI // 2)
    assert [one.threshold for one in hand.state.pressure.met] == [SOFT]
    assert not hand.hint(SOFT, after_s=5.0)
    assert hand.state.kernel.count == 0
    assert hand.hint(HARD, SOFT, after_s=5.0)


def test_a_stream_that_ends_is_told_once_and_listened_to_again():
    hand = Hand()
    hand.usage()
    before = hand.state
    why = "the kernel does not tell of the machine's memory (x): Permission denied"
    failure = Failure(kind=FailureKind.DENIED, message=why)
    hand.tell(StreamEnded(stream=CROSSINGS, failure=failure))
    [line] = report(before, hand.state)
    assert (line.text, line.facts, line.warning) == (
        "no memory notifications from the kernel",
        {"why": why},
        True,
    )
    assert explain(hand.state, hand.now).kernel == f"no notifications, memory is read every 10 s only: {why}"
    for _ in range(4):
        before = hand.state
        while Listen(stream=CROSSINGS) not in hand.actions:
            hand.alarm()
        assert report(before, hand.state) == ()
        hand.tell(StreamEnded(stream=CROSSINGS, failure=failure))
        assert report(before, hand.state) == ()


@pytest.mark.parametrize(("hears", "said"), [(True, "notifies when"), (False, "no notifications")])
def test_who_asks_is_told_whether_the_kernel_is_heard(hears, said):
    hand = Hand(hears)
    assert explain(hand.state, hand.now).kernel.startswith(said)
    if hears:
        hand.hint()
        assert explain(hand.state, hand.now).kernel.endswith("(1 so far)")
