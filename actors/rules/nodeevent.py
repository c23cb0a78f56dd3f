"""Events of the node: a repeated one increases its count, and only the last `KEPT` are kept."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec

from api.ids import Path, WallNs
from api.lifecycle import Decision, Tell
from api.messages.apievents import EventRecorded
from api.shown.introspection import EventRow

KEPT = 20


class HasNodeEvents(Protocol):
    """The state of an actor that records events of the node."""

    @property
    def node_events(self) -> tuple["NodeEvent", ...]:
        """Return its events, the last one last."""

    @property
    def node_name(self) -> str:
        """Return the node's name."""


S = TypeVar("S", bound=msgspec.Struct)


class NodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the node."""

    at: WallNs
    """Last time."""
    first_at: WallNs = WallNs(0)
    """0 stands for `at`."""
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
    counted = msgspec.structs.replace(fact, first_at=same.first_at or same.at, count=same.count + 1)
    return (*others, counted)[-KEPT:]


def node_events_to_log(before: tuple[NodeEvent, ...], after: tuple[NodeEvent, ...]) -> tuple[NodeEvent, ...]:
    """Return the events to log now: a repeated one each time its count has doubled."""
    known = set(before)
    return tuple(fact for fact in after if fact not in known and not fact.count & (fact.count - 1))


def node_event_rows(facts: tuple[NodeEvent, ...], node_name: str) -> tuple[EventRow, ...]:
    """Return the events as rows for users."""
    return tuple(
        EventRow(
            at=one.at,
            first_at=one.first_at,
            namespace="",
            pod=f"node/{node_name}",
            host=node_name,
            type=one.type,
            reason=one.reason,
            message=one.message,
            count=one.count,
        )
        for one in facts
    )


def with_node_events_sent(
    decision: Decision[S], before: HasNodeEvents, after: HasNodeEvents, followers: Iterable[Path]
) -> Decision[S]:
    """Return the decision from one state to another with messages that bring its new events to those who follow them."""
    if before.node_events is after.node_events:
        return decision
    known = set(before.node_events)
    rows = node_event_rows(tuple(one for one in after.node_events if one not in known), after.node_name)
    tells = (Tell(to=path, message=EventRecorded(event=row)) for path in followers for row in rows)
    return msgspec.structs.replace(decision, actions=(*decision.actions, *tells))
