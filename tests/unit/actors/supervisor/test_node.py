"""The supervisor follows the node's facts, and every pod that somebody wants is told of a change."""

import msgspec

from api import paths
from api.ids import Path
from api.messages.kernel import Restarted
from api.messages.node import NodeChanged, WatchNode
from api.messages.pod import KillPod, UpdatePod
from api.messages.supervisor import PodLife, PodOp
from tests.unit.actors.pods import wanted
from tests.unit.actors.supervisor.house import NODE, House, told

LESS = msgspec.structs.replace(NODE, allocatable_memory_bytes=1 << 30)
RESTARTED = Restarted(path=paths.NODE, incarnation=1, cause="x")


def asked(house):
    """Return how often the node's facts were asked for and not answered."""
    return sum(getattr(one, "message", None) == WatchNode(asked_by=paths.PODS) for one in house.open)


def updates(actions):
    """Return generation and facts of each update."""
    return [(message.generation, message.node) for _, message in told(actions, UpdatePod)]


def test_the_facts_are_asked_for_until_they_come_and_then_once_a_minute():
    house = House(answers=False)
    asks = []
    for second in range(1, 13):
        before = asked(house)
        house.wait(1.0)
        asks += [second] * (asked(house) - before)
    assert asks == [5, 10]
    house.give(NodeChanged(facts=NODE))
    house.open.clear()
    asks = []
    for second in range(1, 130):
        before = asked(house)
        house.wait(1.0)
        asks += [second] * (asked(house) - before)
    assert asks == [58, 118]


def test_a_new_incarnation_of_the_owner_is_asked_at_once():
    house = House(answers=False)
    house.give(NodeChanged(facts=NODE))
    house.open.clear()
    house.give(RESTARTED)
    assert asked(house) == 1
    assert house.state.node.known, "what is known stays known"
    house.give(Restarted(path=Path("/node/pods/u1"), incarnation=1, cause="x"))
    assert asked(house) == 1


def test_a_change_is_told_to_each_pod_once_and_equal_facts_are_not():
    house = House()
    house.snapshot(wanted()), house.listed()
    [(first, facts)] = updates(house.last)
    assert facts == NODE
    house.moved("u1", PodLife.SYNCING)
    assert updates(house.give(NodeChanged(facts=msgspec.structs.replace(NODE)))) == []
    assert updates(house.give(NodeChanged(facts=LESS))) == [(first + 1, LESS)]
    assert updates(house.give(NodeChanged(facts=LESS))) == []


def test_pods_that_are_being_ended_are_not_told():
    house = House()
    house.snapshot(wanted()), house.listed()
    house.change(PodOp.REMOVE, wanted())
    house.moved("u1", PodLife.TERMINATING, deleted=True)
    actions = house.give(NodeChanged(facts=LESS))
    assert updates(actions) == []
    assert told(actions, KillPod) == []
