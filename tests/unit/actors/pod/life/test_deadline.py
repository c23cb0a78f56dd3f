"""``activeDeadlineSeconds``."""

import msgspec
import pytest

from actors.pod.explain import explain
from actors.pod.life.deadline import RECHECK_S
from actors.pod.state import STATUS_SECTION, Finished, Syncing
from api import paths
from api.messages.pod import KillCause
from api.ports.runtime import CreateContainer, RunSandbox, StopContainer
from tests.unit.actors.pods import NS, wanted
from tests.unit.actors.tiny import Hand, running_pod


def timed(seconds, *names, **more):
    return wanted(*names, active_deadline_seconds=seconds, **more)


def ring_until(hand, seconds):
    until = hand.now + seconds
    while hand.wake_at is not None and hand.wake_at <= until:
        hand.ring()
    hand.wait(until - hand.now)


@pytest.mark.parametrize("source", ["file", "api"])
def test_a_pod_that_was_active_for_too_long_fails(source):
    hand = running_pod(timed(60, source=source))
    ring_until(hand, 58)
    assert isinstance(hand.state.life, Syncing)
    ring_until(hand, 4), hand.settle()
    assert isinstance(hand.state.life, Finished)
    assert hand.state.killed.cause is KillCause.DEADLINE
    assert (hand.status.phase, hand.status.reason) == ("Failed", "DeadlineExceeded")
    assert hand.status.message == "Pod was active on the node longer than the specified deadline"
    (event,) = (e for e in hand.state.events if e.reason == "DeadlineExceeded")
    assert event.type == "Normal"
    told = explain(hand.state, hand.now, hand.wall).kill
    assert told.startswith("active deadline exceeded")


def test_the_deadline_gives_the_pods_own_grace():
    hand = running_pod(timed(60, grace=7))
    ring_until(hand, 59), hand.ring(), hand.settle_until(StopContainer)
    (call,) = (c for c in hand.started if isinstance(c, StopContainer))
    assert call.grace_s == 7


def test_the_deadline_counts_while_a_call_hangs():
    hand = Hand()
    hand.update(timed(30)), hand.settle_until(RunSandbox)
    ring_until(hand, 31)
    assert hand.state.killed.cause is KillCause.DEADLINE
    hand.settle()
    assert not any(isinstance(c, CreateContainer) for c in hand.started)


def test_the_deadline_counts_from_the_start_time_over_a_restart_of_the_agent():
    first = running_pod(timed(60))
    first.world.pages[STATUS_SECTION] = msgspec.msgpack.encode(first.status)
    again = Hand(first.world, now=first.now + 50)
    again.update(timed(60)), again.settle()
    assert isinstance(again.state.life, Syncing)
    assert again.status.start_time == first.status.start_time
    ring_until(again, 12)
    assert again.state.killed.cause is KillCause.DEADLINE
    assert paths.STATUS in {to for to, _ in again.told}


def test_a_shorter_deadline_counts_at_once():
    hand = running_pod(timed(600))
    hand.wait(20)
    hand.update(timed(10), generation=2)
    assert hand.state.killed.cause is KillCause.DEADLINE


def test_a_clock_that_is_set_forward_is_noticed_soon_and_one_set_back_is_no_time():
    hand = running_pod(timed(600))
    hand.wall -= 3600 * NS
    ring_until(hand, 30)
    assert isinstance(hand.state.life, Syncing)
    hand.wall += 2 * 3600 * NS
    ring_until(hand, RECHECK_S + 1)
    assert hand.state.killed.cause is KillCause.DEADLINE


def test_a_pod_that_ended_before_has_no_deadline():
    hand = running_pod(timed(60, policy="Never"))
    hand.wait(5), hand.world.exit("a", 0, hand.wall), hand.wait(0.1), hand.observe(), hand.settle()
    hand.wait(100), hand.observe()
    assert hand.state.killed.cause is KillCause.COMPLETED
    assert hand.wake_at is None
