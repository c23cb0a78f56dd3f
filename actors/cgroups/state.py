"""What CgroupManager knows: the node, the CPU requests of its Burstable pods, and the cgroups applied."""

from collections.abc import Mapping

import msgspec

from actors.rules.nodeevent import NodeEvent
from actors.rules.nodewatch import NEVER_ASKED
from api.ids import Instant, OpId, Uid
from api.ports.cgroups import NodeCgroup
from api.ports.node import NodeFacts


class PodCpuRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU that one Burstable pod requests."""

    milli: int
    at: Instant
    """When it was last received."""


class CgroupsState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that CgroupManager knows."""

    node_name: str
    period_s: float = 60.0
    """Between calls without a change."""
    forget_s: float = 180.0
    """A request that is not repeated for so long is dropped."""

    node: NodeFacts | None = None
    """None until its facts were received."""
    node_asked_at: Instant = NEVER_ASKED
    asked: Mapping[Uid, PodCpuRequest] = {}
    op: OpId | None = None
    """The one call in flight."""
    sent: tuple[NodeCgroup, ...] = ()
    """The cgroups of the call in flight."""
    applied: tuple[NodeCgroup, ...] = ()
    """The cgroups of the last successful call."""
    next_at: Instant = float("-inf")
    failures: int = 0
    """Calls in a row that failed."""
    notice: str = ""
    """Why pods are not limited as a whole, in one sentence; empty where they are."""
    node_events: tuple[NodeEvent, ...] = ()
    """Node events: one of each reason and message, oldest first."""
