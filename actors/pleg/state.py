"""What Pleg knows: the last listing, inspections in flight, and the time of the next listing."""

from collections.abc import Mapping

import msgspec

from actors.rules.subscription import Subscription
from api.ids import Instant, OpId, Path, Uid
from api.ports.runtime import RuntimePod

STREAM = "runtime.events"


class PodInspection(msgspec.Struct, frozen=True, kw_only=True):
    """An inspection in flight."""

    uid: Uid
    since: Instant
    again: bool = False
    """Something changed since it began: inspect once more when it ends."""


class PlegState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that Pleg knows."""

    relist_s: float = 5.0
    """Between listings while events flow."""
    deadline_s: float = 30.0
    started_at: Instant = 0.0

    watched: frozenset[Uid] = frozenset()
    """Pods whose actors are subscribed."""
    seen: Mapping[Uid, RuntimePod] = {}
    """What was last sent of each pod."""
    sent_at: Mapping[Uid, Instant] = {}
    listing: OpId | None = None
    listing_since: Instant = 0.0
    inspections: Mapping[OpId, PodInspection] = {}
    due: tuple[Uid, ...] = ()
    """Pods to inspect now."""
    subscription: Subscription = Subscription()
    """To the event stream."""
    next_listing_at: Instant = float("-inf")
    listed_at: Instant | None = None
    """Start of the last complete listing."""
    health_subscribers: tuple[Path, ...] = ()
    """In the order in which they came."""
    healthy: bool | None = None
    """As its subscribers know it; None when the last of them does not know it yet."""
    failures: int = 0
    failure: str = ""
    relists: int = 0
