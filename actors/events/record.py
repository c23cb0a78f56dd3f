"""The event record of one pod: counts, combines and drops events (reference ``api-config-security`` section 22)."""

from msgspec.structs import replace

from actors.events.state import EVENT_LIMIT, PodEvents, SeenEvent
from actors.rules.eventobject import COMBINED
from api.ids import WallNs
from api.messages.events import EventSeen

NS = 1_000_000_000
SIMILAR_LIMIT = 10
"""Number of different messages of one reason that are kept apart; further ones are combined."""
SIMILAR_WINDOW_NS = 600 * NS


def with_event(record: PodEvents, seen: EventSeen) -> PodEvents:
    """Return the record with one more event: an equal one is counted, one of too many similar ones is combined."""
    fresh = SeenEvent(
        first_at=seen.at,
        at=seen.at,
        type=seen.kind,
        reason=seen.reason,
        message=seen.message,
        field_path=seen.field_path,
        count=seen.times,
    )
    before = next((event for event in record.events if is_same(event, fresh)), None)
    if before is None and len(similar(record, fresh)) >= SIMILAR_LIMIT:
        fresh = replace(fresh, message=COMBINED + fresh.message)
        before = next((event for event in record.events if is_combined(event, fresh)), None)
    if before is not None:
        first_at = min(before.first_at, fresh.at)
        fresh = replace(fresh, first_at=first_at, count=before.count + fresh.count)
    rest = tuple(event for event in record.events if event is not before)
    return replace(record, events=bounded((*rest, fresh)))


def joined(older: PodEvents, newer: PodEvents) -> PodEvents:
    """Return the recalled record joined with events from before the recall."""
    record = replace(newer, events=older.events)
    for event in newer.events:
        before = next((one for one in record.events if is_same(one, event)), None)
        if before is not None:
            event = replace(event, first_at=before.first_at, count=before.count + event.count)  # noqa: PLW2901
        rest = tuple(one for one in record.events if one is not before)
        record = replace(record, events=bounded((*rest, event)))
    return record


def bounded(events: tuple[SeenEvent, ...]) -> tuple[SeenEvent, ...]:
    """Return the events that are kept: those that happened last."""
    return events[-EVENT_LIMIT:]


def is_same(one: SeenEvent, other: SeenEvent) -> bool:
    """Return whether two events are equal but for their times."""
    return is_alike(one, other) and one.message == other.message


def is_alike(one: SeenEvent, other: SeenEvent) -> bool:
    """Return whether two events differ at most in their message."""
    return (one.type, one.reason, one.field_path) == (other.type, other.reason, other.field_path)


def is_combined(one: SeenEvent, other: SeenEvent) -> bool:
    """Return whether `one` is the combined event for events similar to `other`."""
    return is_alike(one, other) and one.message.startswith(COMBINED)


def similar(record: PodEvents, fresh: SeenEvent) -> tuple[SeenEvent, ...]:
    """Return the recent events with the same reason and another message."""
    return tuple(
        event
        for event in record.events
        if is_alike(event, fresh)
        and fresh.at - event.at < SIMILAR_WINDOW_NS
        and not event.message.startswith(COMBINED)
    )


def last_at(record: PodEvents) -> WallNs:
    """Return when something last happened to the pod."""
    return max((event.at for event in record.events), default=0)
