"""State of EventRecorder: an event record for each pod, and which records are not in the ledger yet."""

from collections.abc import Mapping

import msgspec

from actors.rules.nodeevent import NodeEvent
from api.ids import Instant, OpId, Uid, WallNs
from api.shown.introspection import EventRow

SECTION = "events"
"""Ledger section, keys are UIDs, owned by EventRecorder."""

EVENT_LIMIT = 64
"""Different events of one pod."""
RECORD_LIMIT = 512
"""Records of removed pods."""


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
    """All events of one pod, by the time of the last occurrence: the content of its ledger entry."""

    namespace: str
    pod: str
    events: tuple[SeenEvent, ...] = ()
    gone_at: WallNs | None = None
    """Since when the pod is fully removed."""


class PodEventsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A record, and its pending writes."""

    record: PodEvents
    claimed: bool = False
    """The pod's actor claimed the record in this life of the agent."""
    stored: PodEvents | None = None
    """The content of the ledger entry."""
    tried_at: Instant = float("-inf")
    """When it was last written, or first changed: the next write is some time after that."""


class EventsState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that EventRecorder knows."""

    node_name: str = ""
    entries: Mapping[Uid, PodEventsEntry] = {}
    begun_at: Instant = 0.0
    recalled: bool = False
    recalling: OpId | None = None
    retry_at: Instant = float("-inf")
    """When to recall the ledger's section again."""
    writing: OpId | None = None
    """The one write that is under way: more would stand in the way of those that pods wait for."""
    written: Uid = Uid("")
    """The pod whose record is being written."""
    writes: PodEvents | None = None
    """The record being written, None for a removal."""
    settled: bool = False
    """Unclaimed records have been dropped."""
    node_events: tuple[NodeEvent, ...] = ()
    """Facts about the node: what of the ledger could not be read."""
    line: tuple[Uid, ...] = ()
    """Pods whose records the last check of all found due, in the order of writing; written before the next check."""
    idle_until: Instant = float("-inf")
    """Before this time no record is due to be written or dropped, by the last check of all."""


def rows(state: EventsState, uid: Uid | None = None) -> tuple[EventRow, ...]:
    """Return the events of one pod or of all, oldest first."""
    found = [
        row_of(state, known, entry.record, event)
        for known, entry in state.entries.items()
        if uid is None or known == uid
        for event in entry.record.events
    ]
    return tuple(sorted(found, key=lambda row: row.at))


def last_row(state: EventsState, uid: Uid) -> EventRow:
    """Return the event of a pod that was added or counted last."""
    record = state.entries[uid].record
    return row_of(state, uid, record, record.events[-1])


def row_of(state: EventsState, uid: Uid, record: PodEvents, event: SeenEvent) -> EventRow:
    """Return an event with what it is about."""
    return EventRow(
        at=event.at,
        first_at=event.first_at,
        namespace=record.namespace,
        pod=record.pod,
        uid=uid,
        host=state.node_name,
        type=event.type,
        reason=event.reason,
        message=event.message,
        count=event.count,
        field_path=event.field_path,
    )
