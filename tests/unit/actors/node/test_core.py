"""The node's facts are asked for again and again, and only a change of them is told."""

import pytest
from msgspec.structs import replace

from actors.node.core import NOT_READY_S, PERIOD_S, RETRY
from actors.node.state import NodeState
from api import paths
from api.ids import Path
from api.messages.kernel import Restarted
from api.messages.node import WatchNodeHealth
from api.messages.nodestatus import NodeObjectSeen
from api.ports.call import Done
from api.ports.node import NodeTaint
from tests.unit.actors.node.hand import DOWN, INFO, MACHINE, PODS, USAGE, Hand, following

STATUS, NEVER = paths.NODESTATUS, float("-inf")
TAINT = NodeTaint(key="k", effect="NoSchedule")


def test_machine_and_runtime_are_asked_at_once_and_then_together_every_ten_seconds():
    hand = Hand()
    assert set(hand.open) == {"DescribeNode", "RuntimeStatus"}
    for _ in range(3):
        hand.machine(), hand.runtime()
        assert hand.open == {}
        assert hand.wake() == PERIOD_S
        assert set(hand.open) == {"DescribeNode", "RuntimeStatus"}


def test_a_runtime_that_does_not_answer_is_asked_again_with_back_off():
    hand = Hand()
    hand.machine(), hand.watch()
    waits = []
    for _ in range(5):
        hand.end("RuntimeStatus", failure=DOWN)
        waits.append(hand.state.asking.due_at - hand.now)
        assert hand.wake_at <= hand.state.asking.due_at
        while "RuntimeStatus" not in hand.open:
            hand.wake()
            if "DescribeNode" in hand.open:
                hand.machine()
    assert waits == pytest.approx([1, 2, 4, RETRY.limit_s, RETRY.limit_s])
    assert hand.news() == [], "half of the facts are none"
    hand.runtime()
    assert [to for to, _ in hand.news()] == [PODS]


def test_the_facts_are_those_of_the_machine_with_the_word_of_the_runtime():
    hand = following()
    facts = hand.state.facts
    assert (facts.name, facts.cpu_milli, facts.memory_bytes) == ("n1", 2000, 4 << 30)
    assert (facts.cgroup_driver, facts.strict_groups, facts.stop_signals) == ("systemd", True, True)
    assert facts.handler("").user_namespaces
    assert facts.handler("kata") is None


def test_a_runtime_that_does_not_say_who_makes_cgroups_leaves_that_to_the_settings():
    hand = Hand(replace(MACHINE, cgroup_driver="systemd"))
    hand.runtime(replace(INFO, cgroup_driver=""))
    assert hand.state.facts.cgroup_driver == "systemd"


def test_what_was_known_at_the_start_counts_before_the_machine_has_answered():
    hand = Hand()
    hand.watch(), hand.runtime()
    assert [facts.memory_bytes for _, facts in hand.news()] == [4 << 30]
    hand.machine()
    assert hand.news() == []


def test_a_change_is_one_message_to_each_subscriber_and_equal_answers_are_none():
    hand = following()
    hand.watch(USAGE)
    assert [to for to, _ in hand.news()] == [USAGE], "who asks is told, and nobody else"
    for _ in range(3):
        hand.wake(), hand.machine(), hand.runtime()
    assert hand.news() == []
    hand.wake(), hand.runtime()
    hand.machine(replace(MACHINE, memory_bytes=8 << 30))
    assert [(to, facts.memory_bytes) for to, facts in hand.news()] == [(PODS, 8 << 30), (USAGE, 8 << 30)]
    hand.wake(), hand.machine(replace(MACHINE, memory_bytes=8 << 30))
    hand.runtime(replace(INFO, handlers=()))
    assert [(to, facts.handlers) for to, facts in hand.news()] == [(PODS, ()), (USAGE, ())]


def test_a_subscriber_that_asks_again_is_told_again_and_not_twice_of_the_next_change():
    hand = following()
    known = hand.state.facts
    hand.watch()
    [(to, facts)] = hand.news()
    assert to == PODS
    assert facts is known, "everybody has the one object"
    hand.wake(), hand.machine(replace(MACHINE, cpu_milli=1000))
    assert [to for to, _ in hand.news()] == [PODS]


def test_a_subscriber_that_asked_too_early_is_told_when_the_facts_are_there():
    hand = Hand()
    hand.watch()
    assert hand.news() == []
    hand.machine(), hand.runtime()
    assert [to for to, _ in hand.news()] == [PODS]


def test_a_new_incarnation_knows_nobody_until_they_ask_again():
    before = following()
    again = Hand(before.state.machine)
    again.machine(), again.runtime()
    assert again.news() == []
    again.watch()
    assert [to for to, _ in again.news()] == [PODS]
    assert again.state.facts == before.state.facts


def test_a_silent_runtime_keeps_its_last_status():
    hand = following()
    hand.wake(), hand.machine(), hand.end("RuntimeStatus", failure=DOWN)
    assert (hand.state.runtime, hand.state.asking.failure) == (INFO, DOWN)
    assert hand.state.facts is not None
    assert hand.news() == []
    assert hand.wake() == 1.0
    hand.runtime()
    assert (hand.state.asking.failure, hand.state.asking.failures) == (None, 0)
    assert hand.news() == []


def test_a_call_that_hangs_is_not_asked_beside_itself():
    hand = Hand()
    hand.machine()
    for _ in range(4):
        hand.wake(), hand.machine()
    assert set(hand.open) == {"RuntimeStatus"}


def test_what_concerns_nobody_here_changes_nothing():
    hand = following()
    before = hand.state
    hand.give(Restarted(path=Path("/node/pleg"), incarnation=1, cause="x"))
    assert hand.state == before
    assert isinstance(before, NodeState)


# health, for the node's status


def health_of(hand):
    """Return the health that was sent since the last time."""
    sent, hand.health = hand.health, []
    return sent


def test_who_asks_for_health_gets_it_also_while_the_runtime_has_never_answered():
    hand = Hand()
    hand.machine()
    hand.give(WatchNodeHealth(asked_by=STATUS))
    (first,) = health_of(hand)
    assert (first.machine.name, first.runtime, first.is_answering, first.ready_until) == (
        "n1",
        None,
        False,
        NEVER,
    )
    hand.runtime()
    (second,) = health_of(hand)
    assert (second.runtime, second.is_answering, second.ready_until) == (INFO, True, None)
    assert second.machine.cgroup_driver == "systemd"
    for _ in range(3):
        hand.wake()
        hand.machine(), hand.runtime()
    assert health_of(hand) == [], "nothing has changed"


def test_health_says_until_when_the_runtime_was_ready():
    hand = following()
    hand.give(WatchNodeHealth(asked_by=STATUS))
    health_of(hand)
    ready_at = hand.now
    hand.wake()
    hand.end("RuntimeStatus", failure=DOWN)
    (lost,) = health_of(hand)
    assert (lost.runtime, lost.is_answering, lost.ready_until) == (INFO, False, ready_at)
    while "RuntimeStatus" not in hand.open:
        hand.machine() if "DescribeNode" in hand.open else hand.wake()
    hand.runtime(replace(INFO, ready=False))
    (back,) = health_of(hand)
    assert (back.is_answering, back.runtime.ready, back.ready_until) == (True, False, ready_at)


@pytest.mark.parametrize("change", [{"ready": False}, {"network_ready": False}])
def test_a_runtime_that_is_not_ready_is_asked_again_after_a_second(change):
    hand = Hand()
    hand.machine(), hand.runtime(replace(INFO, **change))
    assert hand.wake() == NOT_READY_S


# the API server's Node


def test_labels_and_taints_are_those_of_the_node_that_the_api_server_has():
    hand = Hand(replace(MACHINE, labels=(("own", "x"),)), in_cluster=True)
    hand.machine(replace(MACHINE, labels=(("own", "x"),))), hand.runtime(), hand.watch()
    hand.news()
    hand.give(NodeObjectSeen(uid="u", labels=(("a", "b"),), taints=(TAINT,)))
    ((_, facts),) = hand.news()
    assert (facts.labels, facts.taints) == ((("a", "b"),), (TAINT,))
    hand.give(NodeObjectSeen(uid=""))
    assert hand.news() == [], "a Node that is gone says nothing"
    hand.give(WatchNodeHealth(asked_by=STATUS))
    assert hand.health[-1].machine.labels == (("own", "x"),), "a Node is made with the operator's"


def test_the_node_is_asked_for_until_it_is_known_and_at_once_after_a_restart():
    hand = Hand(in_cluster=True)
    assert hand.questions == 0, "who would answer begins later"
    hand.give(WatchNodeHealth(asked_by=paths.NODESTATUS))
    assert hand.questions == 1
    while hand.now < 110.0:
        hand.wake()
        for call in list(hand.open):
            hand.machine() if call == "DescribeNode" else hand.runtime()
    assert hand.questions == 3
    hand.give(NodeObjectSeen(uid="u"))
    hand.give(Restarted(path=paths.NODESTATUS, incarnation=1, cause="bug"))
    assert hand.questions == 4


def test_a_node_that_is_on_its_own_asks_nobody_and_believes_nobody():
    hand = following()
    hand.give(NodeObjectSeen(uid="u", taints=(TAINT,)))
    assert hand.news() == []
    assert hand.questions == 0


def test_the_range_of_pod_addresses_goes_to_the_runtime_whenever_it_changes():
    hand = following(in_cluster=True)
    assert "SetPodCidr" not in hand.open
    seen = NodeObjectSeen(uid="u", pod_cidrs=("10.244.3.0/24", "fd00:3::/64"))
    hand.give(seen)
    assert hand.asked("SetPodCidr").pod_cidr == "10.244.3.0/24,fd00:3::/64"
    hand.end("SetPodCidr", Done())
    hand.give(replace(seen, labels=(("a", "b"),)))
    hand.give(NodeObjectSeen(uid=""))
    assert "SetPodCidr" not in hand.open
    hand.give(replace(seen, pod_cidrs=("10.244.4.0/24",)))
    assert hand.asked("SetPodCidr").pod_cidr == "10.244.4.0/24"
    assert hand.lines.count("runtime knows the range of pod addresses") == 1


def test_a_runtime_that_does_not_take_the_range_is_asked_again_and_that_is_said_once():
    hand = following(in_cluster=True)
    hand.give(NodeObjectSeen(uid="u", pod_cidrs=("10.244.3.0/24",)))
    for wait_s in (1.0, 2.0):
        hand.end("SetPodCidr", failure=DOWN)
        assert "SetPodCidr" not in hand.open
        assert hand.state.pod_range.retry.at - hand.now == pytest.approx(wait_s)
        while "SetPodCidr" not in hand.open:
            hand.wake()
            if "RuntimeStatus" in hand.open:
                hand.machine(), hand.runtime()
    hand.end("SetPodCidr", Done())
    assert hand.lines[-2:] == [
        "runtime does not take the range of pod addresses",
        "runtime knows the range of pod addresses",
    ]


def test_an_agent_on_its_own_hands_over_the_range_of_its_configuration_when_the_runtime_answers():
    hand = Hand(pod_cidr="10.88.0.0/16")
    assert "SetPodCidr" not in hand.open
    hand.runtime()
    assert hand.asked("SetPodCidr").pod_cidr == "10.88.0.0/16"
