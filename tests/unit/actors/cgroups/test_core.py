"""CgroupManager: asks what the node is, keeps its cgroups, gathers what pods ask for, and says once what cannot be had."""

import itertools

import msgspec

from actors.cgroups.core import decide
from actors.cgroups.state import CgroupsState
from api.errors import Failure, FailureKind
from api.lifecycle import Start
from api.messages.cgroups import PodCpuAsked
from api.messages.kernel import Alarm, Outcome
from api.ports.cgroups import EnsureNodeCgroups, NodeCgroupsMade
from api.ports.node import DescribeNode, NodeDescribed, NodeFacts, Reserved

FACTS = NodeFacts(pod_cgroups=True, cpu_milli=2000, memory_bytes=1 << 30, max_pids=1000)
WALL = 1_700_000_000 * 10**9


class Hand:
    """Plays the ports to the core."""

    def __init__(self, facts=FACTS):
        self.state = CgroupsState(node_name="n1")
        self.now, self.ops, self.facts = 0.0, itertools.count(1), facts
        self.made = NodeCgroupsMade()
        self.started, self.open, self.wake_at = [], None, None
        self.give(None)

    def give(self, message):
        decision = decide(self.state, message, self.now, WALL + int(self.now * 1e9), lambda: next(self.ops))
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            assert isinstance(action, Start)
            assert self.open is None, "one call at a time"
            self.open = action
            self.started.append(action.call)

    def end(self, failure=None):
        start, self.open = self.open, None
        describing = isinstance(start.call, DescribeNode)
        result = NodeDescribed(facts=self.facts) if describing else self.made
        failed = Failure(kind=failure, message="broken") if failure else None
        outcome = Outcome(
            op=start.op,
            call=type(start.call).__name__,
            result=None if failure else result,
            failure=failed,
            started_at=self.now,
            ended_at=self.now,
        )
        self.give(outcome)

    def ring(self):
        self.now = max(self.now, self.wake_at)
        self.give(Alarm(at=self.now))

    def ask(self, uid, milli):
        self.give(PodCpuAsked(uid=uid, milli=milli))

    def burstable(self):
        return self.started[-1].groups[1].limits.cpu_shares

    def told(self):
        return [(row.type, row.reason, row.message, row.count) for row in self.state.happenings]


def at_work(**made):
    hand = Hand()
    hand.made = NodeCgroupsMade(**made)
    hand.end(), hand.end()
    return hand


def test_it_asks_what_the_node_is_then_makes_its_cgroups_and_looks_again_each_minute():
    hand = at_work()
    assert [type(call) for call in hand.started] == [DescribeNode, EnsureNodeCgroups]
    assert hand.wake_at == 60.0
    hand.ring(), hand.end()
    assert hand.started[1] == hand.started[2]
    assert hand.told() == [
        ("Normal", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods", 1)
    ]


def test_what_pods_ask_for_is_gathered_for_a_moment_and_given_to_their_class():
    hand = at_work()
    for number in range(5):
        hand.ask(f"u{number}", 100)
        hand.now += 0.05
    assert hand.open is None
    assert hand.wake_at == 0.5
    hand.ring()
    assert hand.burstable() == 512
    # What comes while a call is under way is not lost.
    hand.ask("u9", 500), hand.end(), hand.ring()
    assert hand.burstable() == 1024
    hand.end(), hand.ask("u9", 0), hand.ring()
    assert hand.burstable() == 512


def test_what_is_not_said_again_counts_no_more():
    hand = at_work()
    hand.ask("u1", 1000), hand.ring(), hand.end()
    for _ in range(2):
        hand.ring(), hand.end()
        assert hand.burstable() == 1024
    hand.ask("u2", 500)
    hand.now += 100
    hand.ring(), hand.end()
    assert hand.burstable() == 512


def test_it_tries_again_and_ever_more_slowly_when_it_cannot_be_told_what_the_node_is():
    hand = Hand()
    waits = []
    for _ in range(8):
        hand.end(FailureKind.UNAVAILABLE)
        waits.append(hand.wake_at - hand.now)
        hand.ring()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    hand.end(), hand.end(FailureKind.UNAVAILABLE)
    assert hand.wake_at - hand.now == 1


def test_where_cgroups_may_not_be_written_that_is_said_once():
    hand = at_work(refused=("cgroup /kubepods cannot be made: Read-only file system", "and more"))
    for _ in range(3):
        hand.ring(), hand.end()
    text = "pods run without limits of their own as a whole: cgroup /kubepods cannot be made: Read-only file system"
    assert hand.told() == [("Warning", "CgroupsNotEnforced", text, 1)]
    assert hand.state.notice == text
    hand.made = NodeCgroupsMade()
    hand.ring(), hand.end()
    assert hand.state.notice == ""


def test_controllers_that_are_missing_are_named_in_one_notice():
    hand = at_work(missing=("memory", "pids"))
    assert hand.state.notice == (
        "pods run without limits of their own as a whole by memory and pids: no mounted hierarchy has that controller"
    )


def test_a_limit_below_what_is_used_is_tried_again_each_minute_and_counted():
    hand = at_work(unapplied=(("/kubepods", "/c/kubepods/memory.limit_in_bytes: Device or resource busy"),))
    hand.ring(), hand.end()
    text = 'Failed to update Node Allocatable Limits ["kubepods"]: /c/kubepods/memory.limit_in_bytes: Device or resource busy'
    assert hand.told() == [("Warning", "FailedNodeAllocatableEnforcement", text, 2)]
    hand.made = NodeCgroupsMade()
    hand.ring(), hand.end()
    assert hand.told()[-1][1] == "NodeAllocatableEnforced"


def test_reservations_are_told_as_a_kubelet_does():
    enforced = ("pods", "system-reserved", "kube-reserved-compressible")
    reserved = Reserved(enforced=enforced, system_cgroup="/system", kube_cgroup="/kube")
    hand = Hand(msgspec.structs.replace(FACTS, reserved=reserved))
    hand.made = NodeCgroupsMade(unapplied=(("/system", "/c/system does not exist; make it first"),))
    hand.end(), hand.end()
    failed = 'Failed to enforce System Reserved Cgroup Limits on "/system": /c/system does not exist; make it first'
    assert set(hand.told()) == {
        ("Normal", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods", 1),
        ("Warning", "FailedNodeAllocatableEnforcement", failed, 1),
        ("Normal", "NodeAllocatableEnforced", "Updated limits on kube reserved cgroup /kube", 1),
    }


def test_where_pods_have_no_cgroups_nothing_is_asked_for():
    hand = Hand(NodeFacts())
    hand.end()
    assert hand.open is None
    assert hand.wake_at is None
