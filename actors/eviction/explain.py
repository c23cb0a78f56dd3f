"""Explain eviction: the manager's own rules, applied to its committed state."""

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
    """Return thresholds, readings, the current or next action, and the rank of each pod."""
    short = tuple(dict.fromkeys(one.signal for one in state.pressure.ripe))
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
                outcome=one.outcome or "terminating",
            )
            for one in reversed(state.evicted.victims)
        ),
        problems=problems(state),
    )


def condition_line(state: EvictionState, pressure: str, now: Instant) -> str:
    """Return a pressure with its minimum duration."""
    felt = {KINDS[one.threshold.signal].pressure for one in state.pressure.met}
    if pressure in felt:
        return f"{pressure}, observed now"
    at = next(at for one, at in state.pressure.last_seen.items() if one == pressure)
    left = max(0.0, at + state.policy.transition_s - now)
    return f"{pressure}, last observed {now - at:.0f} s ago; ends in {left:.0f} s"


def kernel_line(state: EvictionState) -> str:
    """Return whether the kernel notifies of memory shortage."""
    kernel = state.kernel
    if kernel is None:
        return "no notifications: memory is read every 10 s only"
    if not kernel.subscription.is_open:
        return f"no notifications, memory is read every 10 s only: {kernel.subscription.why or 'not subscribed yet'}"
    count = f" ({kernel.count} so far)" if kernel.count else ""
    return f"notifies when a memory threshold is crossed{count}"


def doing(state: EvictionState, now: Instant) -> str:
    """Return the current action, else the next one."""
    match state.doing:
        case Killing(victim=victim, until=until, stopped=stopped):
            what = "stopped, its volumes are being removed" if stopped else "terminating"
            left = max(0.0, until - now)
            return f"evicting pod {victim.name}, grace period {victim.grace_s} s: {what}; timeout in {left:.0f} s"
        case Clearing(signal=signal, until=until):
            left = max(0.0, until - now)
            return f"removing containers and logs of ended pods for {signal}; timeout in {left:.0f} s"
        case Reclaiming(signal=signal, until=until):
            left = max(0.0, until - now)
            return f"removing unused images for {signal}; timeout in {left:.0f} s"
        case None:
            return intent(state, now)


def intent(state: EvictionState, now: Instant) -> str:
    """Return the next action while none is running."""
    if state.usage is None or state.pods is None:
        missing = "the first reading of usage" if state.usage is None else "the list of pods"
        return f"waiting for {missing}"
    if not state.settling.done:
        left = max(0.0, state.settling.until - now)
        return f"waiting until all pods are known and terminating ones are gone; timeout in {left:.0f} s"
    for one, excess in over_limit(state, now):
        return f"evict pod {name_of(one)}: {excess.message.strip()}"
    ripe = state.pressure.ripe
    if not ripe:
        waiting = state.pressure.met
        if waiting:
            first = min(waiting, key=lambda one: one.since + one.threshold.grace_s)
            left = max(0.0, first.since + first.threshold.grace_s - now)
            return f"{first.threshold.signal} is below its soft threshold; grace period ends in {left:.0f} s"
        return "nothing: no threshold is met"
    if state.note:
        return state.note
    threshold = due(state, now)[0][0] if due(state, now) else ripe[0]
    return next_action(state, threshold, now)


def next_action(state: EvictionState, threshold: Threshold, now: Instant) -> str:
    """Return the next action if the next reading equals the last one."""
    seen = next((one for one in state.observations if one.signal is threshold.signal), None)
    if seen is None:
        return f"nothing: {threshold.signal} is met but cannot be read now"
    when = "" if is_news(state, seen, now) else " after the next reading"
    if KINDS[threshold.signal].pressure is Pressure.DISK and not is_reclaimed(state, threshold.signal):
        images = " and unused images" if reclaims_images(state, threshold.signal) else ""
        return f"remove containers and logs of ended pods{images} for {threshold.signal}{when}"
    chosen = next((one for one in ranking(state, threshold.signal, now) if not one.kept), None)
    if chosen is None:
        return f"{threshold.signal} is short, and no pod may be evicted for it"
    return f"evict pod {chosen.rating.name} for {threshold.signal}{when}"


def is_reclaimed(state: EvictionState, signal: Signal) -> bool:
    """Return whether everything but running pods was removed for a signal since the last eviction."""
    return state.reclaimed is not None and state.reclaimed.signal is signal


def threshold_row(state: EvictionState, threshold: Threshold, now: Instant) -> ThresholdRow:
    """Return one threshold and its reading."""
    kind = KINDS[threshold.signal]
    seen = next((one for one in state.observations if one.signal is threshold.signal), None)
    since = next((one.since for one in state.pressure.met if one.threshold == threshold), None)
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
    """Return what must be available; None for a percentage of an unknown capacity."""
    if seen is None:
        return None if threshold.value.percent is not None else threshold.value.amount
    return threshold.value.of(seen.capacity) + more


def written(value: Quantity) -> str:
    """Format a quantity or a percentage as in the configuration."""
    return binary(value.amount) if value.percent is None else f"{value.percent:g}%"


def ranking_row(state: EvictionState, signal: Signal, now: Instant) -> RankingRow:
    """Return the pods in the order of eviction for a signal."""
    stands = ranking(state, signal, now)
    chosen = next((one for one in stands if not one.kept), None)
    rows = tuple(
        StandRow(
            pod=one.rating.name,
            used=one.rating.used,
            requested=one.rating.requested,
            priority=one.rating.priority,
            verdict="next" if one is chosen else one.kept or f"number {at}",
        )
        for at, one in enumerate(stands, start=1)
    )
    return RankingRow(signal=signal.value, is_bytes=KINDS[signal].is_bytes, pods=rows)


def problems(state: EvictionState) -> tuple[str, ...]:
    """Return problems of eviction."""
    found = list(state.absurd)
    seen = {one.signal for one in state.observations}
    if state.usage is not None:
        unread = dict.fromkeys(one.signal.value for one in state.policy.thresholds if one.signal not in seen)
        found += [f"{signal} cannot be read: it neither starts nor ends pressure" for signal in unread]
    if state.note:
        found.append(state.note)
    return tuple(found)
