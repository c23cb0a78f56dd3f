"""What ApiEventWriter knows: events to write, those that the API server has, and how many each object may still have."""

from collections.abc import Mapping

import msgspec

from actors.rules.retry import Retry
from api.errors import Failure
from api.ids import Instant, OpId
from api.shown.introspection import EventRow

ObjectKey = tuple[str, str, str]
"""UID of the object, its name, and the type of the event."""


class ApiEventSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What limits the rate of all events together, as ``eventRecordQPS`` and ``eventBurst`` of the configuration."""

    qps: float = 50.0
    """0: no limit."""
    burst: int = 100


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, one for each event, that grow again with time up to a limit."""

    tokens: float
    at: Instant

    def grown(self, now: Instant, per_s: float, limit: float) -> "Bucket":
        """Return this as it is now."""
        return Bucket(tokens=min(limit, self.tokens + max(0.0, now - self.at) * per_s), at=max(now, self.at))


class EventWrite(msgspec.Struct, frozen=True, kw_only=True):
    """The request in flight."""

    op: OpId
    name: str
    event: EventRow
    creates: bool
    """POST of a new object, else PATCH of one that the server has."""


class DroppedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """How many events were not written, by cause."""

    spam: int = 0
    """Too many of one object."""
    overflow: int = 0
    """Too many waited."""
    refused: int = 0
    """The server did not take them."""


class ApiEventState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that ApiEventWriter knows."""

    settings: ApiEventSettings = ApiEventSettings()
    waiting: Mapping[str, EventRow] = {}
    """The newest of each event by the name of its object, first come first served."""
    on_server: Mapping[str, None] = {}
    """Names of events that the server has, the last used last."""
    objects: Mapping[ObjectKey, Bucket] = {}
    """The last used last."""
    all: Bucket | None = None
    """None before the first event."""
    write: EventWrite | None = None
    inherited: tuple[OpId, ...] = ()
    """Requests of an earlier incarnation: none is started before they ended."""
    retry: Retry = Retry()
    failure: Failure | None = None
    """Of the last request, until one succeeds."""
    written: int = 0
    dropped: DroppedEvents = DroppedEvents()
