"""Messages to NodeManager, the owner of the node's facts, and to its subscribers.

Sent by: subscribers (`WatchNode`), NodeManager itself (`NodeChanged`). Delivery: `NodeChanged` is a level: sent
at once to a subscriber that asks, if the facts are known, and to all whenever they change. A subscriber asks again until it
knows them, once a minute after that, and when NodeManager has a new incarnation.
"""

from api.ids import Path
from api.messages import Message
from api.ports.node import NodeFacts


class WatchNode(Message, frozen=True, kw_only=True):
    """From now on send `asked_by` the node's facts: at once, and whenever they change."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"WatchNode {self.asked_by}"


class NodeChanged(Message, frozen=True, kw_only=True):
    """To a subscriber: the node's facts, with what the runtime says of itself."""

    facts: NodeFacts

    def brief(self) -> str:
        """Return one line for traces."""
        facts = self.facts
        return f"NodeChanged {facts.name} cpu={facts.cpu_milli}m memory={facts.memory_bytes}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "node"


NodeMessage = WatchNode | NodeChanged
