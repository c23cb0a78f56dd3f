"""The end of a round: its result, the time of the next one, node events and log lines."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from actors.imagegc import disk
from actors.imagegc.state import Dropping, ImageGCState, Inspecting, Round, Settling
from actors.rules.nodeevent import NodeEvent, with_node_event
from actors.rules.retry import RetryPolicy
from api.ids import Instant, WallNs
from api.shown.introspection import Collection, ImageDecision, ImageGCRow, ImageVerdict

RETRY_S = 30.0
KEPT_RUNS = 8


def finish(
    state: ImageGCState,
    current: Round,
    now: Instant,
    wall: WallNs,
    *,
    failure: str = "",
    note: str = "",
    again_at: Instant | None = None,
) -> ImageGCState:
    """End a round. What failed is tried again soon, then more and more slowly, at the latest after the usual period."""
    ended = replace(
        collection_of(current, now),
        done=True,
        ended_at=wall,
        doing="",
        failure=failure,
        note=note or current.unmeasured,
    )
    failures = state.failures + 1 if failure else 0
    period_s = state.policy.period_s
    policy = RetryPolicy(base_s=RETRY_S, limit_s=period_s)
    next_at = now + (policy.wait_s(failures) if failure else period_s)
    if current.everything:
        # A requested round does not change the time of the next periodic one.
        failures, next_at = state.failures, state.next_round_at
        collected = (*state.collected, ended)[-KEPT_RUNS:]
        state = replace(state, collected=collected)
    elif again_at is not None:
        next_at = min(next_at, max(again_at, now + 1.0))
    state = replace(state, round=None, last=ended, failures=failures, next_round_at=next_at)
    if failure and not current.everything and failures > 1:
        # One failure in a row may be a hiccup of the runtime, and is only logged.
        state = happened(state, wall, "ImageGCFailed", failure)
    return state


def collection_of(current: Round, now: Instant) -> Collection:
    """Return how far a round has come."""
    over = {row.id for row in current.gone} | set(current.spared)
    rest = tuple(row for row in current.verdicts if row.id not in over)
    freed = None
    if current.before is not None and current.after is not None:
        freed = disk.available(current.after) - disk.available(current.before)
    return Collection(
        runs=current.runs,
        everything=current.everything,
        since_s=now - current.since,
        doing=doing(current),
        images=(*current.gone, *sorted(current.spared.values(), key=lambda row: row.id), *rest),
        before=current.before,
        after=current.after,
        removed_bytes=sum(max(0, row.size_bytes) for row in current.gone),
        freed_bytes=freed,
        note=current.unmeasured,
    )


def doing(current: Round) -> str:
    """Return the current step of a round as text."""
    match current.step:
        case Inspecting(inspection=inspection):
            return "checks which images are in use" if inspection.images is not None else "lists images"
        case Dropping(image=image):
            return f"removes {image.names[0] if image.names else image.id}"
        case Settling():
            return "measures the freed space"


def happened(state: ImageGCState, wall: WallNs, reason: str, message: str) -> ImageGCState:
    """Add a node event; one of the same reason counts up, whatever its figures."""
    fact = NodeEvent(at=wall, reason=reason, message=message)
    return replace(state, node_events=with_node_event(state.node_events, fact, any_message=True))


# ---------------------------------------------------------------- for users


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log: a constant text and its facts."""

    warning: bool = False
    text: str
    facts: Mapping[str, object] = {}


def report(before: ImageGCState, after: ImageGCState) -> tuple[Said, ...]:
    """Return the log lines for what changed between two states."""
    known = frozenset(before.node_events)
    lines = [
        Said(
            warning=True,
            text="node event",
            facts={"reason": one.reason, "message": one.message, "count": one.count},
        )
        for one in after.node_events
        # A repeated one is logged again each time its count has doubled.
        if one not in known and not one.count & (one.count - 1)
    ]
    ended = after.last
    if ended is None or ended is before.last:
        return tuple(lines)
    gone = removed_rows(ended)
    if gone:
        facts = {"images": len(gone), "size_bytes": ended.removed_bytes, "freed_bytes": ended.freed_bytes}
        lines.append(Said(text="unused images removed", facts=facts))
    if ended.failure and after.node_events == before.node_events:
        lines.append(Said(warning=True, text="image collection failed", facts={"why": ended.failure}))
    if before.failures and not after.failures:
        lines.append(Said(text="image collection works again"))
    return tuple(lines)


def standing(state: ImageGCState, now: Instant) -> ImageGCRow:
    """Return where the collection of images stands."""
    return ImageGCRow(
        under_way=collection_of(state.round, now) if state.round else None,
        last=state.last,
        next_in_s=max(0.0, state.next_round_at - now) if state.round is None else None,
        failures=state.failures,
        note=state.note,
    )


def run_of(state: ImageGCState, run: str, now: Instant) -> Collection | None:
    """Return the collection of a run, None when it is not known."""
    if state.round is not None and run in state.round.runs:
        return collection_of(state.round, now)
    if run in state.waiting:
        return Collection(runs=(run,), everything=True, doing="waits for the current collection to end")
    return next((one for one in reversed(state.collected) if run in one.runs), None)


def removed_rows(ended: Collection) -> tuple[ImageVerdict, ...]:
    """Return the images that a collection removed, in order."""
    return tuple(row for row in ended.images if row.decision is ImageDecision.REMOVED)
