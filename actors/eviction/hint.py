"""What the kernel says between two rounds: that a memory threshold is crossed, so that a fresh reading may tell.

A hint decides nothing. It has usage read at once, unless it names only what is known already, and at most once a second.
"""

from typing import assert_never

from msgspec.structs import replace

from actors.eviction.state import CROSSINGS, EvictionState
from api import paths
from api.eviction import MemoryCrossed, Threshold
from api.ids import Instant
from api.lifecycle import Action, Listen, Tell
from api.messages.kernel import Heard, StreamEnded
from api.messages.usage import ReadUsageNow
from api.usage import Usage

ASK_AGAIN_S = 1.0
ANSWER_S = 10.0
"""A hint that is not answered by then is answered by the ordinary round."""


def with_stream(state: EvictionState, message: Heard | StreamEnded, now: Instant) -> EvictionState:
    """Take in what the stream of the kernel brought, or that it ended."""
    match message:
        case Heard(item=MemoryCrossed(thresholds=crossed)):
            return with_hint(state, crossed, now)
        case Heard():
            return state
        case StreamEnded(failure=failure):
            return replace(state, subscription=state.subscription.ended(failure, now))
        case _:
            assert_never(message)


def with_hint(state: EvictionState, crossed: tuple[Threshold, ...], now: Instant) -> EvictionState:
    """Take in that the kernel showed these thresholds crossed; what is met already is no news."""
    if {one.threshold for one in state.met}.issuperset(crossed):
        return state
    return replace(state, hinted_at=now, hints=state.hints + 1)


def answered(state: EvictionState, usage: Usage) -> EvictionState:
    """Take in a reading: it answers the hint when it was begun after that."""
    as_of = usage.node.as_of
    if state.hinted_at is None or as_of is None or as_of < state.hinted_at:
        return state
    return replace(state, hinted_at=None)


def listen(state: EvictionState, actions: list[Action], now: Instant) -> EvictionState:
    """Listen to the kernel where there is a threshold that it can tell of."""
    if not state.hears or not state.subscription.is_due(now):
        return state
    actions.append(Listen(stream=CROSSINGS))
    return replace(state, subscription=state.subscription.opened(now))


def follow_hint(state: EvictionState, actions: list[Action], now: Instant) -> EvictionState:
    """Ask for a reading of what a hint is about."""
    if state.hinted_at is None:
        return state
    if now >= state.hinted_at + ANSWER_S:
        return replace(state, hinted_at=None)
    if now < state.hint_asked_at + ASK_AGAIN_S:
        return state
    actions.append(Tell(to=paths.USAGE, message=ReadUsageNow(asked_by=paths.EVICTION, everything=False)))
    return replace(state, hint_asked_at=now)


def wakes_for_hint(state: EvictionState) -> tuple[Instant, ...]:
    """Return when to look again because of the kernel."""
    found = state.subscription.wakes() if state.hears else ()
    if state.hinted_at is None:
        return found
    return (*found, min(state.hint_asked_at + ASK_AGAIN_S, state.hinted_at + ANSWER_S))
