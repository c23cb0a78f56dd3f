"""A pod learns with its update what the node is; a change of that restarts nothing."""

from msgspec.structs import replace

from api.messages.status import PodStatusComposed
from api.ports.runtime import RuntimeHandler
from tests.unit.actors.pods import wanted
from tests.unit.actors.tiny import FACTS, Hand

OTHER = replace(FACTS, ips=("10.0.0.9",), memory_bytes=1 << 40, handlers=(RuntimeHandler(name="kata"),))


def running():
    hand = Hand(node=FACTS)
    hand.update(wanted()), hand.settle()
    hand.started.clear()
    return hand


def test_another_address_is_published_and_nothing_is_started_or_stopped():
    hand = running()
    assert hand.messages(PodStatusComposed)[-1].status.host_ip == "10.0.0.7"
    hand.update(wanted(), generation=2, node=OTHER), hand.settle()
    assert hand.messages(PodStatusComposed)[-1].status.host_ip == "10.0.0.9"
    assert (hand.state.node, hand.state.settings.node_ip) == (OTHER, "10.0.0.9")
    assert hand.started == []


def test_an_older_update_does_not_bring_older_facts_back():
    hand = running()
    hand.update(wanted(), generation=2, node=OTHER)
    hand.update(wanted(), generation=1, node=FACTS)
    assert hand.state.node == OTHER
