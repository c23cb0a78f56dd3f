"""Memory notifications of the kernel between two readings: each requests a fresh reading.

A hint decides nothing. It requests a reading at once, unless its thresholds are already met, and at most once a second.
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
"""After this time the periodic reading answers the hint."""


def with_stream(state: EvictionState, message: Heard | StreamEnded, now: Instant) -> EvictionState:
    """Absorb an item or the end of the kernel's stream."""
    match message:
        case Heard(item=MemoryCrossed(thresholds=crossed)):
            return with_hint(state, crossed, now)
        case Heard():
            return state
        case StreamEnded(failure=failure) if state.kernel is not None:
            ended = state.kernel.subscription.ended(failure, now)
            return replace(state, kernel=replace(state.kernel, subscription=ended))
        case StreamEnded():
            return state
        case _:
            assert_never(message)


def with_hint(state: EvictionState, crossed: tuple[Threshold, ...], now: Instant) -> EvictionState:
    """Absorb a notification for these thresholds; ignore it when all are already met."""
    kernel = state.kernel
    if kernel is None or {one.threshold for one in state.pressure.met}.issuperset(crossed):
        return state
    return replace(state, kernel=replace(kernel, hinted_at=now, count=kernel.count + 1))


def answered(state: EvictionState, usage: Usage) -> EvictionState:
    """Absorb a reading: it answers the hint when it began later."""
    kernel, as_of = state.kernel, usage.node.as_of
    if kernel is None or kernel.hinted_at is None or as_of is None or as_of < kernel.hinted_at:
        return state
    return replace(state, kernel=replace(kernel, hinted_at=None))


def listen(state: EvictionState, actions: list[Action], now: Instant) -> EvictionState:
    """Subscribe to the kernel's stream where a memory threshold is configured."""
    kernel = state.kernel
    if kernel is None or not kernel.subscription.is_due(now):
        return state
    actions.append(Listen(stream=CROSSINGS))
    return replace(state, kernel=replace(kernel, subscription=kernel.subscription.opened(now)))


def follow_hint(state: EvictionState, actions: list[Action], now: Instant) -> EvictionState:
    """Request a reading for a hint."""
    kernel = state.kernel
    if kernel is None or kernel.hinted_at is None:
        return state
    if now >= kernel.hinted_at + ANSWER_S:
        return replace(state, kernel=replace(kernel, hinted_at=None))
    if now < kernel.asked_at + ASK_AGAIN_S:
        return state
    actions.append(Tell(to=paths.USAGE, message=ReadUsageNow(asked_by=paths.EVICTION, everything=False)))
    return replace(state, kernel=replace(kernel, asked_at=now))


def wakes_for_hint(state: EvictionState) -> tuple[Instant, ...]:
    """Return when to decide again: subscription and pending hint."""
    kernel = state.kernel
    if kernel is None:
        return ()
    found = kernel.subscription.wakes()
    if kernel.hinted_at is None:
        return found
    return (*found, min(kernel.asked_at + ASK_AGAIN_S, kernel.hinted_at + ANSWER_S))
