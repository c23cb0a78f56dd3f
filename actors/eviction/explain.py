"""What people are told of eviction: the manager's own rules, asked what they would say now."""

from actors.eviction.reading import pressures
from actors.eviction.state import Clearing, EvictionState, Killing, Reclaiming
from actors.eviction.verdict import (
    due,
    is_news,
    name_of,
    over_limit,
    ranking,
    reclaims_images,
)
from actors.rules.resources.ranking import binary
from api.eviction import KINDS, Observation, Pressure, Quantity, Signal, Threshold
from api.ids import Instant
from api.shown.evictionrow import EvictionRow, RankingRow, StandRow, ThresholdRow, VictimRow


def explain(state: EvictionState, now: Instant) -> EvictionRow:
    """Return thresholds, readings, what is done or would be, and how each pod stands."""
    short = tuple(dict.fromkeys(one.signal for one in state.ripe))
    others = tuple(dict.fromkeys(one.signal for one in state.policy.thresholds if one.signal not in short))
    return EvictionRow(
        conditions=tuple(condition_line(state, one, now) for one in pressures(state, now)),
        doing=doing(state, now),
        usage_age_s=now - state.usage.as_of if state.usage is not None else None,
        kernel=kernel_line(state),
        thresholds=tuple(threshold_row(state, one, now) for one in state.policy.thresholds),
        short_of=tuple(ranking_row(state, one, now) for one in short),
        if_short=tuple(ranking_row(state, one, now) for one in others),
        over_limit=tuple(
            f"{name_of(one)}: {excess.message.strip()}" for one, excess in over_limit(state, now)
        ),
        victims=tuple(
            VictimRow(
                pod=one.name,
                signal=one.signal,
                message=one.message.strip(),
                ago_s=now - one.asked_at,
                outcome=one.outcome or "its end is waited for",
            )
            for one in reversed(state.victims)
        ),
        problems=problems(state),
    )


def condition_line(state: EvictionState, pressure: str, now: Instant) -> str:
    """Return a pressure, and how long it lasts at least."""
    felt = {KINDS[one.threshold.signal].pressure for one in state.met}
    if pressure in felt:
        return f"{pressure}, felt now"
    at = next(at for one, at in state.last_seen.items() if one == pressure)
    left = max(0.0, at + state.policy.transition_s - now)
    return f"{pressure}, felt last {now - at:.0f} s ago; it is over in {left:.0f} s"


def kernel_line(state: EvictionState) -> str:
    """Return whether the kernel tells of memory at once."""
    if not state.hears:
        return "not asked: memory is looked at in each round only"
    if not state.subscription.is_open:
        return f"does not tell of memory, it is looked at in each round only: {state.subscription.why or 'not asked yet'}"
    told = f", which it did {state.hints} times" if state.hints else ""
    return f"tells at once when a memory threshold is crossed{told}"


def doing(state: EvictionState, now: Instant) -> str:
    """Return what is under way, or else what would be done now."""
    match state.doing:
        case Killing(victim=victim, until=until, stopped=stopped):
            what = "it has stopped, and what it had is being removed" if stopped else "its end is waited for"
            left = max(0.0, until - now)
            return f"pod {victim.name} has to go, with {victim.grace_s} s of grace; {what}, {left:.0f} s more at most"
        case Clearing(signal=signal, until=until):
            left = max(0.0, until - now)
            return f"what is kept of ended pods is removed for {signal}; that is waited for, {left:.0f} s more at most"
        case Reclaiming(signal=signal, until=until):
            left = max(0.0, until - now)
            return f"unused images are removed for {signal}; that is waited for, {left:.0f} s more at most"
        case None:
            return intent(state, now)


def intent(state: EvictionState, now: Instant) -> str:
    """Return what would be done now while nothing is under way."""
    if state.usage is None or state.pods is None:
        missing = "what is used" if state.usage is None else "which pods there are"
        return f"nothing is decided before it is known {missing}"
    if not state.settled:
        left = max(0.0, state.settling_until - now)
        return f"nothing is decided before all pods are known and those that were ending are gone, {left:.0f} s more at most"
    for one, excess in over_limit(state, now):
        return f"pod {name_of(one)} would be evicted: {excess.message.strip()}"
    if not state.ripe:
        waiting = [one for one in state.met if one.threshold not in state.ripe]
        if waiting:
            first = min(waiting, key=lambda one: one.since + one.threshold.grace_s)
            left = max(0.0, first.since + first.threshold.grace_s - now)
            return f"{first.threshold.signal} is short; something is done if it still is in {left:.0f} s"
        return "nothing: no threshold is met"
    if state.note:
        return state.note
    threshold = due(state, now)[0][0] if due(state, now) else state.ripe[0]
    return deed(state, threshold, now)


def deed(state: EvictionState, threshold: Threshold, now: Instant) -> str:
    """Return what the next reading would lead to if it says what the last one says."""
    seen = next((one for one in state.observations if one.signal is threshold.signal), None)
    if seen is None:
        return f"nothing: {threshold.signal} was met and can not be read now"
    when = "" if is_news(state, seen, now) else " after the next reading"
    if KINDS[threshold.signal].pressure is Pressure.DISK and state.reclaimed is not threshold.signal:
        images = " and unused images" if reclaims_images(state, threshold.signal) else ""
        return f"what is kept of ended pods{images} would be removed for {threshold.signal}{when}"
    chosen = next((one for one in ranking(state, threshold.signal, now) if not one.kept), None)
    if chosen is None:
        return f"{threshold.signal} is short, and there is no pod that may go for it"
    return f"pod {chosen.rating.name} would be evicted for {threshold.signal}{when}"


def threshold_row(state: EvictionState, threshold: Threshold, now: Instant) -> ThresholdRow:
    """Return one threshold beside its reading."""
    kind = KINDS[threshold.signal]
    seen = next((one for one in state.observations if one.signal is threshold.signal), None)
    since = next((one.since for one in state.met if one.threshold == threshold), None)
    return ThresholdRow(
        signal=threshold.signal.value,
        condition=kind.pressure.value,
        is_bytes=kind.is_bytes,
        value=written(threshold.value),
        grace_s=threshold.grace_s,
        least=least(threshold, seen, 0),
        enough=least(threshold, seen, threshold.reclaim.of(seen.capacity) if seen is not None else 0),
        available=seen.available if seen is not None else None,
        capacity=seen.capacity if seen is not None else None,
        age_s=now - seen.as_of if seen is not None else None,
        met_s=now - since if since is not None else None,
    )


def least(threshold: Threshold, seen: Observation | None, more: int) -> int | None:
    """Return what must be available; a percentage of nothing known is not known."""
    if seen is None:
        return None if threshold.value.percent is not None else threshold.value.amount
    return threshold.value.of(seen.capacity) + more


def written(value: Quantity) -> str:
    """Write an amount or a percentage as the configuration does."""
    return binary(value.amount) if value.percent is None else f"{value.percent:g}%"


def ranking_row(state: EvictionState, signal: Signal, now: Instant) -> RankingRow:
    """Return the pods as they would go for a signal."""
    stands = ranking(state, signal, now)
    chosen = next((one for one in stands if not one.kept), None)
    rows = tuple(
        StandRow(
            pod=one.rating.name,
            used=one.rating.used,
            requested=one.rating.requested,
            priority=one.rating.priority,
            verdict="next" if one is chosen else one.kept or f"number {at} in the order",
        )
        for at, one in enumerate(stands, start=1)
    )
    return RankingRow(signal=signal.value, is_bytes=KINDS[signal].is_bytes, pods=rows)


def problems(state: EvictionState) -> tuple[str, ...]:
    """Return what keeps eviction from working as it should."""
    found = list(state.absurd)
    seen = {one.signal for one in state.observations}
    if state.usage is not None:
        unread = dict.fromkeys(one.signal.value for one in state.policy.thresholds if one.signal not in seen)
        found += [f"{signal} can not be read: it triggers nothing and clears nothing" for signal in unread]
    if state.note:
        found.append(state.note)
    return tuple(found)
