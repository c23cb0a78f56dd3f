"""How often pulls may begin: a token bucket that fills at a steady rate; a pull without a token waits for the next."""

from msgspec.structs import replace

from actors.images.state import ImagesState
from api.ids import Instant


def filled(state: ImagesState, now: Instant) -> ImagesState:
    """Return the state with the tokens that there are now."""
    policy = state.policy
    burst = float(max(1, policy.burst))
    if state.counted_at is None:
        return replace(state, tokens=burst, counted_at=now)
    gained = max(0.0, now - state.counted_at) * policy.per_second
    return replace(state, tokens=min(burst, state.tokens + gained), counted_at=now)


def next_at(state: ImagesState, now: Instant) -> Instant:
    """Return when a pull may begin, `now` when it may at once; the tokens are those of `now`."""
    if state.policy.per_second <= 0 or state.tokens >= 1 - 1e-9:
        return now
    return now + (1 - state.tokens) / state.policy.per_second


def taken(state: ImagesState) -> ImagesState:
    """Return the state after one pull began."""
    return replace(state, tokens=max(0.0, state.tokens - 1)) if state.policy.per_second > 0 else state
