"""Facts about the node that its events tell: one that is told again counts up, and only the last ones are kept."""

import msgspec

from api.ids import WallNs
from api.shown.introspection import EventRow

KEPT = 20


class NodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A fact worth an event of the node."""

    at: WallNs
    type: str = "Warning"
    reason: str
    message: str
    count: int = 1


def told(
    known: tuple[NodeEvent, ...], fact: NodeEvent, *, whatever_it_says: bool = False
) -> tuple[NodeEvent, ...]:
    """Return the facts with one more: an equal one counts up, or with `whatever_it_says` one of the same reason."""
    same = next(
        (
            one
            for one in known
            if one.reason == fact.reason and (whatever_it_says or one.message == fact.message)
        ),
        None,
    )
    if same is None:
        return (*known, fact)[-KEPT:]
    others = tuple(one for one in known if one is not same)
    return (*others, msgspec.structs.replace(fact, count=same.count + 1))[-KEPT:]


def worth_telling(before: tuple[NodeEvent, ...], after: tuple[NodeEvent, ...]) -> tuple[NodeEvent, ...]:
    """Return the facts to tell an operator now: what repeats is told again each time the count has doubled."""
    known = set(before)
    return tuple(fact for fact in after if fact not in known and not fact.count & (fact.count - 1))


def node_event_rows(facts: tuple[NodeEvent, ...], node_name: str) -> tuple[EventRow, ...]:
    """Return the facts as rows of what happened."""
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
