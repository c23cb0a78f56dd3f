"""Events of the node: a repeated one increases its count, and only the last `KEPT` are kept."""

import msgspec

from api.ids import WallNs
from api.shown.introspection import EventRow

KEPT = 20


class NodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the node."""

    at: WallNs
    type: str = "Warning"
    reason: str
    message: str
    count: int = 1


def with_node_event(
    known: tuple[NodeEvent, ...], fact: NodeEvent, *, any_message: bool = False
) -> tuple[NodeEvent, ...]:
    """Return the events with one more; one with the same reason and message, or with `any_message` the same reason, counts up."""
    same = next(
        (one for one in known if one.reason == fact.reason and (any_message or one.message == fact.message)),
        None,
    )
    if same is None:
        return (*known, fact)[-KEPT:]
    others = tuple(one for one in known if one is not same)
    return (*others, msgspec.structs.replace(fact, count=same.count + 1))[-KEPT:]


def node_events_to_log(before: tuple[NodeEvent, ...], after: tuple[NodeEvent, ...]) -> tuple[NodeEvent, ...]:
    """Return the events to log now: a repeated one each time its count has doubled."""
    known = set(before)
    return tuple(fact for fact in after if fact not in known and not fact.count & (fact.count - 1))


def node_event_rows(facts: tuple[NodeEvent, ...], node_name: str) -> tuple[EventRow, ...]:
    """Return the events as rows for users."""
    return tuple(
        EventRow(
            at=one.at,
            namespace="",
            pod=f"node/{node_name}",
            type=one.type,
            reason=one.reason,
            message=one.message,
            count=one.count,
        )
        for one in facts
    )
