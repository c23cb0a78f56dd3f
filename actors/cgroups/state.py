"""What CgroupManager knows: the node, who asks for how much CPU, and how far the cgroups are what they are to be."""

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
    """When it was said last."""


class CgroupsState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that CgroupManager knows."""

    node_name: str
    period_s: float = 60.0
    """Between looks at cgroups that nothing was heard of."""
    forget_s: float = 180.0
    """What is not said again for so long counts no more."""

    node: NodeFacts | None = None
    """None until it was told."""
    node_asked_at: Instant = NEVER_ASKED
    asked: Mapping[Uid, PodCpuRequest] = {}
    op: OpId | None = None
    """The one call in flight."""
    sent: tuple[NodeCgroup, ...] = ()
    """What the call in flight asks for."""
    applied: tuple[NodeCgroup, ...] = ()
    """What was asked for last and carried out."""
    next_at: Instant = float("-inf")
    failures: int = 0
    """Calls in a row that failed."""
    notice: str = ""
    """Why pods are not limited as a whole, in one sentence; empty where they are."""
    happenings: tuple[NodeEvent, ...] = ()
    """One of each reason and message, oldest first."""
