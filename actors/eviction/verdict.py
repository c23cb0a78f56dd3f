"""Who would have to go now, and why each other pod is kept: decided here for the manager and for whoever asks alike."""

import msgspec

from actors.eviction.state import EvictionState
from actors.rules.resources.ranking import (
    Contender,
    Excess,
    Rating,
    is_spared,
    local_excess,
    rank,
)
from api.eviction import KINDS, MEMORY_SIGNALS, Observation, Pressure, Signal, Threshold
from api.ids import Instant, Uid
from api.messages.eviction import ActivePod
from api.usage import PodUsage

READING_LIMIT_S = 120.0
"""Nothing is decided on a reading that is older."""
ASK_AGAIN_S = 300.0
"""A pod that was asked to go and shows no sign of it is not asked again before."""
DISK = (Signal.NODEFS, Signal.NODEFS_INODES, Signal.IMAGEFS, Signal.IMAGEFS_INODES)


class Stand(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod stands in a ranking."""

    rating: Rating
    kept: str = ""
    """Why it does not go; empty: it may."""


def due(state: EvictionState, now: Instant) -> tuple[tuple[Threshold, Observation], ...]:
    """Return the thresholds on which something may be decided now, the first to be looked after first.

    Each is met for as long as its grace, by a reading that was begun after the last deed and decided on nothing yet.
    """
    seen = {one.signal: one for one in state.observations}
    found = [
        (threshold, seen[threshold.signal])
        for threshold in state.ripe
        if threshold.signal in seen and is_news(state, seen[threshold.signal], now)
    ]
    return tuple(sorted(found, key=lambda row: row[0].signal not in MEMORY_SIGNALS))


def is_news(state: EvictionState, seen: Observation, now: Instant) -> bool:
    """Tell whether an observation was made after the last deed, is young enough, and decided on nothing yet."""
    decided = state.decided.get(seen.signal, float("-inf"))
    return seen.as_of > max(state.deed_at, decided) and now - seen.as_of <= READING_LIMIT_S


def is_dedicated(state: EvictionState) -> bool:
    """Tell whether images are known to have a file system of their own."""
    return state.usage is not None and state.usage.node.dedicated_image_fs is True


def reclaims_images(state: EvictionState, signal: Signal) -> bool:
    """Tell whether unused images take of what a signal is about."""
    if KINDS[signal].pressure is not Pressure.DISK:
        return False
    return not (is_dedicated(state) and signal in (Signal.NODEFS, Signal.NODEFS_INODES))


def ranking(state: EvictionState, signal: Signal, now: Instant) -> tuple[Stand, ...]:
    """Return all active pods for a signal, first to go first, each with why it is kept if it is."""
    used = usage_rows(state)
    fresh = {uid: row for uid, row in used.items() if is_fresh(row, signal, now)}
    active = {one.uid: one for one in state.pods or ()}
    contenders = tuple(Contender(uid=uid, pod=one.pod, usage=fresh.get(uid)) for uid, one in active.items())
    return tuple(
        Stand(rating=row, kept=kept(state, active[row.uid], used.get(row.uid), row, now))
        for row in rank(signal, contenders, dedicated=is_dedicated(state))
    )


def kept(state: EvictionState, one: ActivePod, row: PodUsage | None, rating: Rating, now: Instant) -> str:
    """Return why a pod does not go, empty when it may."""
    hindrance = hindered(state, one, now)
    if hindrance or rating.used is not None:
        return hindrance
    why = "; ".join(row.troubles) if row is not None else ""
    return f"nobody knows what it uses{': ' if why else ''}{why}"


def hindered(state: EvictionState, one: ActivePod, now: Instant) -> str:
    """Return why a pod does not go whatever it uses, empty when it may."""
    spared = is_spared(one.pod, spares_static=state.policy.spares_static)
    if spared:
        return f"it is never evicted: {spared}"
    if one.ending:
        return "it is being stopped already"
    if now - state.asked.get(one.uid, float("-inf")) < ASK_AGAIN_S:
        return "it was asked to go already"
    return ""


def over_limit(state: EvictionState, now: Instant) -> tuple[tuple[ActivePod, Excess], ...]:
    """Return the pods that are over a limit of local storage of their own and may go, by name."""
    if not state.policy.local_limits:
        return ()
    used = usage_rows(state)
    found = []
    for one in sorted(state.pods or (), key=name_of):
        row = used.get(one.uid)
        if row is None or row.disk_as_of is None or hindered(state, one, now):
            continue
        if row.disk_as_of <= state.deed_at or now - row.disk_as_of > READING_LIMIT_S:
            continue
        excess = local_excess(one.pod, row, dedicated=is_dedicated(state))
        if excess is not None:
            found.append((one, excess))
    return tuple(found)


def usage_rows(state: EvictionState) -> dict[Uid, PodUsage]:
    """Return the last reading of each pod."""
    return {row.uid: row for row in state.usage.pods} if state.usage is not None else {}


def is_fresh(row: PodUsage, signal: Signal, now: Instant) -> bool:
    """Tell whether a pod's reading is young enough to be decided on."""
    as_of = row.disk_as_of if signal in DISK else row.as_of
    return as_of is not None and now - as_of <= READING_LIMIT_S


def name_of(one: ActivePod) -> str:
    """Return ``namespace/name``."""
    return f"{one.pod.metadata.namespace}/{one.pod.metadata.name}"
