"""What EventRecorder knows: a page of events for each pod, and which pages the ledger does not hold yet."""

from collections.abc import Mapping

import msgspec

from actors.rules.nodeevent import NodeEvent
from api.ids import Instant, OpId, Uid, WallNs
from api.shown.introspection import EventRow

SECTION = "events"
"""Ledger section, keys are UIDs, owned by EventRecorder."""

EVENT_LIMIT = 64
"""Different events of one pod."""
PAGE_LIMIT = 512
"""Pages of pods that are gone."""


class SeenEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, counted."""

    first_at: WallNs
    at: WallNs
    """Last time."""
    type: str
    reason: str
    message: str
    field_path: str = ""
    count: int = 1


class PodEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that happened to one pod, by the time of the last occurrence: what the ledger holds of it."""

    namespace: str
    pod: str
    events: tuple[SeenEvent, ...] = ()
    gone_at: WallNs | None = None
    """Since when nothing is left of the pod."""


class PodEventsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A page, and what is to be done about it."""

    page: PodEvents
    claimed: bool = False
    """The pod is there, as its actor said in this life of the agent."""
    stored: PodEvents | None = None
    """What the ledger holds."""
    tried_at: Instant = float("-inf")
    """When it was last written, or first changed: the next write is some time after that."""


class EventsState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that EventRecorder knows."""

    node_name: str = ""
    records: Mapping[Uid, PodEventsEntry] = {}
    begun_at: Instant = 0.0
    recalled: bool = False
    recalling: OpId | None = None
    retry_at: Instant = float("-inf")
    """When to ask the ledger again for what it holds."""
    writing: OpId | None = None
    """The one write that is under way: more would stand in the way of those that pods wait for."""
    written: Uid = Uid("")
    """Whose page is being written."""
    writes: PodEvents | None = None
    """What is being written, None for a page that is being removed."""
    settled: bool = False
    """Pages that no pod claimed have been given up."""
    happenings: tuple[NodeEvent, ...] = ()
    """Facts about the node: what of the ledger could not be read."""
    line: tuple[Uid, ...] = ()
    """Whose pages the last look at all of them found due, first to be written first: they are written before the next one."""
    idle_until: Instant = float("-inf")
    """Before then no page is due to be written or forgotten, as far as the last look at all of them showed."""


def rows(state: EventsState, uid: Uid | None = None) -> tuple[EventRow, ...]:
    """Return the events of one pod or of all, oldest first."""
    found = [
        EventRow(
            at=event.at,
            first_at=event.first_at,
            namespace=record.page.namespace,
            pod=record.page.pod,
            uid=known,
            host=state.node_name,
            type=event.type,
            reason=event.reason,
            message=event.message,
            count=event.count,
            field_path=event.field_path,
        )
        for known, record in state.records.items()
        if uid is None or known == uid
        for event in record.page.events
    ]
    return tuple(sorted(found, key=lambda row: row.at))
