"""Messages to NodeManager, the owner of the node's facts, and to its subscribers.

Sent by: subscribers (`WatchNode`, `WatchNodeHealth`), NodeManager itself (`NodeChanged`, `NodeHealthSeen`), NodeStatusManager
(`NodeObjectSeen`). Delivery: what NodeManager sends are levels: sent at once to a subscriber that asks, if they are known, and to
all whenever they change. A subscriber asks again until it knows them, once a minute after that, and when NodeManager has a new
incarnation.
"""

from api.ids import Instant, Path
from api.messages import Message
from api.messages.nodestatus import NodeObjectSeen
from api.ports.node import NodeFacts
from api.ports.runtime import RuntimeInfo


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


class WatchNodeHealth(Message, frozen=True, kw_only=True):
    """From now on send `asked_by` how machine and runtime are: at once, and whenever that changes."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"WatchNodeHealth {self.asked_by}"


class NodeHealthSeen(Message, frozen=True, kw_only=True):
    """To a subscriber: machine and runtime as they were last found, also while the runtime has never answered."""

    machine: NodeFacts
    """Without what the API server's Node says; with the runtime's word, if there is one."""
    runtime: RuntimeInfo | None = None
    """Its last answer, None before the first."""
    is_answering: bool = False
    """Whether it answered when it was last asked."""
    ready_until: Instant | None = None
    """None while the last answer says that it is ready; else when it was last asked with that answer, ``-inf`` for never."""

    def brief(self) -> str:
        """Return one line for traces."""
        how = "ready" if self.ready_until is None else f"not ready since {self.ready_until:.3f}"
        return f"NodeHealthSeen {self.machine.name} runtime {how}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "health"


NodeMessage = WatchNode | NodeChanged | WatchNodeHealth | NodeHealthSeen | NodeObjectSeen
