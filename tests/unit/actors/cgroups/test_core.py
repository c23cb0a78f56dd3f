"""CgroupManager: follows what the node is, keeps its cgroups, gathers what pods ask for, and says once what cannot be had."""

import itertools

import msgspec

from actors.cgroups.core import decide
from actors.cgroups.state import CgroupsState
from api import paths
from api.errors import Failure, FailureKind
from api.lifecycle import Start, Tell
from api.messages.cgroups import PodCpuAsked
from api.messages.kernel import Alarm, Outcome, Restarted
from api.messages.node import NodeChanged, WatchNode
from api.ports.cgroups import EnsureNodeCgroups, NodeCgroupsMade
from api.ports.node import CgroupDriver, NodeFacts, Reserved

FACTS = NodeFacts(pod_cgroups=True, cpu_milli=2000, memory_bytes=1 << 30, max_pids=1000)
WALL = 1_700_000_000 * 10**9


class Hand:
    """Plays the ports to the core."""

    def __init__(self, facts=FACTS):
        self.state = CgroupsState(node_name="n1")
        self.now, self.ops, self.facts = 0.0, itertools.count(1), facts
        self.made = NodeCgroupsMade()
        self.started, self.open, self.wake_at, self.follows = [], None, None, []
        self.give(None)

    def give(self, message):
        decision = decide(self.state, message, self.now, WALL + int(self.now * 1e9), lambda: next(self.ops))
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            if isinstance(action, Tell):
                assert (action.to, action.message) == (paths.NODE, WatchNode(asked_by=paths.CGROUPS))
                self.follows.append(self.now)
                continue
            assert isinstance(action, Start)
            assert self.open is None, "one call at a time"
            self.open = action
            self.started.append(action.call)

    def end(self, failure=None):
        start, self.open = self.open, None
        failed = Failure(kind=failure, message="broken") if failure else None
        outcome = Outcome(
            op=start.op,
            call=type(start.call).__name__,
            result=None if failure else self.made,
            failure=failed,
            started_at=self.now,
            ended_at=self.now,
        )
        self.give(outcome)

    def know(self, facts=None):
        """Be told what the node is."""
        self.give(NodeChanged(facts=facts or self.facts))

    def due_in(self):
        """Return in how many seconds the next call is due; the core is awake by then."""
        assert self.wake_at <= self.state.next_at
        return self.state.next_at - self.now

    def ring(self):
        """Let time go by until the next call is due."""
        self.now = max(self.now, self.state.next_at)
        self.give(Alarm(at=self.now))

    def ask(self, uid, milli):
        self.give(PodCpuAsked(uid=uid, milli=milli))

    def burstable(self):
        return self.started[-1].groups[1].limits.cpu_shares

    def told(self):
        return [(row.type, row.reason, row.message, row.count) for row in self.state.node_events]


def at_work(**made):
    hand = Hand()
    hand.made = NodeCgroupsMade(**made)
    hand.know(), hand.end()
    return hand


def test_it_asks_what_the_node_is_then_makes_its_cgroups_and_looks_again_each_minute():
    hand = at_work()
    assert hand.follows == [0.0]
    assert [type(call) for call in hand.started] == [EnsureNodeCgroups]
    assert hand.due_in() == 60.0
    hand.ring(), hand.end()
    assert hand.started[0] == hand.started[1]
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


def test_it_tries_again_and_ever_more_slowly_when_the_cgroups_cannot_be_made():
    hand = Hand()
    hand.know()
    waits = []
    for _ in range(8):
        hand.end(FailureKind.UNAVAILABLE)
        waits.append(hand.due_in())
        hand.ring()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    hand.end(), hand.ring(), hand.end(FailureKind.UNAVAILABLE)
    assert hand.due_in() == 1


def test_nothing_is_made_before_the_node_is_known_and_that_is_asked_again():
    hand = Hand()
    for _ in range(3):
        hand.now = hand.wake_at
        hand.give(Alarm(at=hand.now))
    assert (hand.follows, hand.started) == ([0.0, 5.0, 10.0, 15.0], [])
    hand.know()
    assert [type(call) for call in hand.started] == [EnsureNodeCgroups]
    hand.give(Restarted(path=paths.NODE, incarnation=1, cause="x"))
    assert hand.follows[4:] == [15.0], "a new incarnation of its owner knows nobody"
    hand.give(Restarted(path=paths.PODS, incarnation=1, cause="x"))
    assert len(hand.follows) == 5


def test_a_node_that_changes_has_its_cgroups_made_anew_and_equal_facts_nothing():
    hand = at_work()
    hand.know(msgspec.structs.replace(FACTS))
    assert hand.open is None
    hand.know(msgspec.structs.replace(FACTS, memory_bytes=1 << 29, cgroup_driver=CgroupDriver.SYSTEMD))
    [_, again] = hand.started
    assert again.driver == "systemd"
    assert again.groups[0].limits.memory_bytes == 1 << 29


def test_where_cgroups_may_not_be_written_that_is_said_once():
    hand = at_work(refused=("cgroup /kubepods cannot be made: Read-only file system", "and more"))
    for _ in range(3):
        hand.ring(), hand.end()
    text = "pods are not limited as a whole: cgroup /kubepods cannot be made: Read-only file system"
    assert hand.told() == [("Warning", "CgroupsNotEnforced", text, 1)]
    assert hand.state.notice == text
    hand.made = NodeCgroupsMade()
    hand.ring(), hand.end()
    assert hand.state.notice == ""


def test_controllers_that_are_missing_are_named_in_one_notice():
    hand = at_work(missing=("memory", "pids"))
    assert hand.state.notice == (
        "pods are not limited as a whole by memory and pids: no mounted hierarchy has that controller"
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
    hand.know(), hand.end()
    failed = 'Failed to enforce System Reserved Cgroup Limits on "/system": /c/system does not exist; make it first'
    assert set(hand.told()) == {
        ("Normal", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods", 1),
        ("Warning", "FailedNodeAllocatableEnforcement", failed, 1),
        ("Normal", "NodeAllocatableEnforced", "Updated limits on kube reserved cgroup /kube", 1),
    }


def test_where_pods_have_no_cgroups_nothing_is_asked_for():
    hand = Hand(NodeFacts())
    hand.know()
    assert hand.started == []
    assert hand.wake_at == 60.0, "then it asks what the node is again"
