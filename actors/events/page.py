"""A page of events: what is counted, what is combined, what is dropped (reference ``api-config-security`` section 22)."""

from msgspec.structs import replace

from actors.events.state import EVENT_LIMIT, PodEvents, SeenEvent
from api.ids import WallNs
from api.messages.events import EventSeen

NS = 1_000_000_000
SIMILAR_LIMIT = 10
"""So many different messages of one reason are told one by one; the next ones are combined."""
SIMILAR_WINDOW_NS = 600 * NS
COMBINED = "(combined from similar events): "


def with_event(page: PodEvents, seen: EventSeen) -> PodEvents:
    """Return the page with one more event: an equal one is counted, one of too many similar ones is combined."""
    fresh = SeenEvent(
        first_at=seen.at,
        at=seen.at,
        type=seen.kind,
        reason=seen.reason,
        message=seen.message,
        field_path=seen.field_path,
        count=seen.times,
    )
    before = next((event for event in page.events if is_same(event, fresh)), None)
    if before is None and len(similar(page, fresh)) >= SIMILAR_LIMIT:
        fresh = replace(fresh, message=COMBINED + fresh.message)
        before = next((event for event in page.events if is_combined(event, fresh)), None)
    if before is not None:
        first_at = min(before.first_at, fresh.at)
        fresh = replace(fresh, first_at=first_at, count=before.count + fresh.count)
    rest = tuple(event for event in page.events if event is not before)
    return replace(page, events=bounded((*rest, fresh)))


def joined(older: PodEvents, newer: PodEvents) -> PodEvents:
    """Return the page of what was recalled and of what was seen before it was."""
    page = replace(newer, events=older.events)
    for event in newer.events:
        before = next((one for one in page.events if is_same(one, event)), None)
        if before is not None:
            event = replace(event, first_at=before.first_at, count=before.count + event.count)  # noqa: PLW2901
        rest = tuple(one for one in page.events if one is not before)
        page = replace(page, events=bounded((*rest, event)))
    return page


def bounded(events: tuple[SeenEvent, ...]) -> tuple[SeenEvent, ...]:
    """Return the events that are kept: those that happened last."""
    return events[-EVENT_LIMIT:]


def is_same(one: SeenEvent, other: SeenEvent) -> bool:
    """Tell whether two events say the same of the same."""
    return is_alike(one, other) and one.message == other.message


def is_alike(one: SeenEvent, other: SeenEvent) -> bool:
    """Tell whether two events differ at most in their message."""
    return (one.type, one.reason, one.field_path) == (other.type, other.reason, other.field_path)


def is_combined(one: SeenEvent, other: SeenEvent) -> bool:
    """Tell whether `one` stands for many that are like `other`."""
    return is_alike(one, other) and one.message.startswith(COMBINED)


def similar(page: PodEvents, fresh: SeenEvent) -> tuple[SeenEvent, ...]:
    """Return the events of late that say other things for the same reason."""
    return tuple(
        event
        for event in page.events
        if is_alike(event, fresh)
        and fresh.at - event.at < SIMILAR_WINDOW_NS
        and not event.message.startswith(COMBINED)
    )


def last_at(page: PodEvents) -> WallNs:
    """Return when something last happened to the pod."""
    return max((event.at for event in page.events), default=0)
