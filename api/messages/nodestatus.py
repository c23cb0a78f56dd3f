"""Messages of NodeStatusManager, which registers this node with the API server and reports its status there.

Sent by: those that need to know the Node as the API server has it (`WatchNodeObject`), NodeStatusManager itself (`NodeObjectSeen`),
Pleg (`PlegHealthSeen`), EvictionManager (`PressureSeen`), NodeManager (`api.messages.node.NodeHealthSeen`, which has its home
there). Delivery: all but `WatchNodeObject` are levels: sent at once to a subscriber that asks, if they are known, and to all whenever
they change. A subscriber asks again until it knows it, once a minute after that, and when the sender has a new incarnation.
"""

from api.eviction import Pressure
from api.ids import Instant, Path
from api.messages import Message
from api.ports.node import NodeTaint


class WatchNodeObject(Message, frozen=True, kw_only=True):
    """From now on send `asked_by` the Node of this node: at once, and whenever it changes."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"WatchNodeObject {self.asked_by}"


class NodeObjectSeen(Message, frozen=True, kw_only=True):
    """To a subscriber: what others may decide about this node, as the API server has it."""

    uid: str
    """Empty while the server has no such Node."""
    labels: tuple[tuple[str, str], ...] = ()
    """Ascending by key."""
    taints: tuple[NodeTaint, ...] = ()
    pod_cidrs: tuple[str, ...] = ()
    """The addresses of its pods, one range of each family, the primary one first."""
    is_being_deleted: bool = False

    def brief(self) -> str:
        """Return one line for traces."""
        return (
            f"NodeObjectSeen uid={self.uid or 'absent'} labels={len(self.labels)} taints={len(self.taints)}"
        )

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "node"


class PlegHealthSeen(Message, frozen=True, kw_only=True):
    """To a subscriber: whether the runtime's pods are listed in time."""

    is_healthy: bool
    listed_at: Instant | None = None
    """The last complete listing; None for none yet. Newer ones are not sent while it is healthy."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PlegHealthSeen {'healthy' if self.is_healthy else 'unhealthy'}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "pleg"


class PressureSeen(Message, frozen=True, kw_only=True):
    """To a subscriber: what the node is short of now."""

    conditions: tuple[Pressure, ...] = ()

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PressureSeen {' '.join(self.conditions) or 'none'}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "pressure"


NodeStatusMessage = WatchNodeObject | NodeObjectSeen | PlegHealthSeen | PressureSeen
