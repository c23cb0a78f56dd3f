"""What NodeStatusManager knows: its inputs, the Node as the API server has it, and the request in flight.

```text
NodeHealthSeen, PlegHealthSeen, PressureSeen, images ─┐
kube.node, answers of the port kube ──▶ node ─────────┴─▶ Composed ──▶ POST, PATCH
```
"""

from enum import StrEnum

import msgspec

from actors.rules.nodeevent import NodeEvent
from actors.rules.retry import Retry
from actors.rules.subscription import Subscription
from api.errors import Failure
from api.eviction import Pressure
from api.ids import Instant, OpId, Path
from api.kube.objects.node import Node
from api.messages.node import NodeHealthSeen
from api.messages.nodestatus import NodeObjectSeen, PlegHealthSeen
from api.ports.images import ImageRow

NEVER = float("-inf")


class NodeStatusSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator says of this node's registration and status."""

    node_name: str
    node_ips: tuple[str, ...] = ()
    """One address, or one of each family; empty: the machine's own. An unspecified one (``::``) only chooses the family."""
    register: bool = True
    """Whether the node registers itself; if not, somebody else creates the Node."""
    provider_id: str = ""
    external_cloud: bool = False
    """Whether a cloud controller initializes the node."""
    controller_attach: bool = True
    """Whether a controller attaches volumes."""
    update_s: float = 10.0
    """Between two looks at whether the status has changed."""
    report_s: float = 300.0
    """After which a status is reported that has not changed, give or take a half."""
    max_images: int = 50
    """-1: all."""


class AskedAt(msgspec.Struct, frozen=True, kw_only=True):
    """When others were asked for what they know."""

    health: Instant = NEVER
    pleg: Instant = NEVER
    pressure: Instant = NEVER
    pressure_known: bool = False


class ImageCache(msgspec.Struct, frozen=True, kw_only=True):
    """The images that the runtime listed last."""

    rows: tuple[ImageRow, ...] = ()
    op: OpId | None = None
    """Of the listing in flight."""
    asked_at: Instant = NEVER
    trouble: str = ""
    """Why they could not be listed."""


class StatusEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the node that a status brings with it, recorded once it is written."""

    reason: str
    message: str
    type: str = "Normal"


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """A Node with a new status."""

    original: Node
    node: Node
    status_events: tuple[StatusEvent, ...] = ()
    troubles: tuple[str, ...] = ()
    """Of parts that could not be computed and stay as they were."""
    is_changed: bool = False
    """In more than the times of its heartbeats."""


class NodeStep(StrEnum):
    """What the request in flight is for."""

    CREATE = "create the Node"
    READ = "read the Node that is there already"
    RECONCILE = "correct the Node that is there already"
    LOOK = "read the Node before its status is written"
    WRITE = "write the status"


class NodeExchange(msgspec.Struct, frozen=True, kw_only=True):
    """The request about the Node in flight: at most one."""

    op: OpId
    step: NodeStep
    composed: Composed | None = None
    """What it writes."""


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the Node is ours, and when to try again to make it so."""

    is_done: bool = False
    retry: Retry = Retry()


class Reporting(msgspec.Struct, frozen=True, kw_only=True):
    """When the status is looked at, and when it was written."""

    due_at: Instant = NEVER
    began_at: Instant = NEVER
    attempts: int = 0
    """Failures of the round that goes on; 0 between rounds."""
    failed: bool = False
    """Whether the last round failed."""
    rounds: int = 0
    looks_first: bool = False
    """Whether the next round reads the Node from the server: the stream says that there is none any more."""
    reported_at: Instant | None = None
    delay_s: float = 0.0
    """Added to the pause until an unchanged status is reported again."""


class NodeStatusState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that NodeStatusManager knows."""

    settings: NodeStatusSettings
    asked: AskedAt = AskedAt()
    health: NodeHealthSeen | None = None
    """None before NodeManager has answered: until then nothing is written."""
    pleg: PlegHealthSeen | None = None
    pressures: tuple[Pressure, ...] = ()
    images: ImageCache = ImageCache()
    subscription: Subscription = Subscription()
    """To the stream of the Node."""
    node: Node | None = None
    """As the API server showed it last; None while it is absent or not known."""
    registration: Registration = Registration()
    reporting: Reporting = Reporting()
    exchange: NodeExchange | None = None
    subscribers: tuple[Path, ...] = ()
    """In the order in which they came."""
    published: NodeObjectSeen | None = None
    """What all subscribers know."""
    node_events: tuple[NodeEvent, ...] = ()
    is_reboot_reported: bool = False
    unschedulable: bool = False
    """As it was last seen."""
    failure: Failure | None = None
    """Of the last request about the Node; None where it went well."""
    troubles: tuple[str, ...] = ()
    """Of the status composed last."""

    @property
    def node_name(self) -> str:
        """Return the node's name."""
        return self.settings.node_name
