"""The order of eviction, and why a pod is not evicted; used by the manager and by ``explain eviction``."""

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
"""Older readings are not used."""
ASK_AGAIN_S = 300.0
"""Minimum time before a pod is evicted again that did not terminate."""
DISK = (Signal.NODEFS, Signal.NODEFS_INODES, Signal.IMAGEFS, Signal.IMAGEFS_INODES)


class Stand(msgspec.Struct, frozen=True, kw_only=True):
    """The rank of a pod."""

    rating: Rating
    kept: str = ""
    """Why it is not evicted; empty: it may be."""


def due(state: EvictionState, now: Instant) -> tuple[tuple[Threshold, Observation], ...]:
    """Return the thresholds to act on now, in order of urgency.

    Each is met for its grace period, by a reading that began after the last action and was not used for a decision.
    """
    seen = {one.signal: one for one in state.observations}
    found = [
        (threshold, seen[threshold.signal])
        for threshold in state.pressure.ripe
        if threshold.signal in seen and is_news(state, seen[threshold.signal], now)
    ]
    return tuple(sorted(found, key=lambda row: row[0].signal not in MEMORY_SIGNALS))


def is_news(state: EvictionState, seen: Observation, now: Instant) -> bool:
    """Return whether an observation began after the last action, is recent, and was not used for a decision."""
    decided = state.decided.get(seen.signal, float("-inf"))
    return seen.as_of > max(state.action_at, decided) and now - seen.as_of <= READING_LIMIT_S


def is_dedicated(state: EvictionState) -> bool:
    """Return whether images have a file system of their own."""
    return state.usage is not None and state.usage.node.dedicated_image_fs is True


def reclaims_images(state: EvictionState, signal: Signal) -> bool:
    """Return whether removing unused images helps a signal."""
    if KINDS[signal].pressure is not Pressure.DISK:
        return False
    return not (is_dedicated(state) and signal in (Signal.NODEFS, Signal.NODEFS_INODES))


def ranking(state: EvictionState, signal: Signal, now: Instant) -> tuple[Stand, ...]:
    """Return all active pods in the order of eviction for a signal, with the reason why one is not evicted."""
    used = usage_rows(state)
    fresh = {uid: row for uid, row in used.items() if is_fresh(row, signal, now)}
    active = {one.uid: one for one in state.active}
    contenders = tuple(Contender(uid=uid, pod=one.pod, usage=fresh.get(uid)) for uid, one in active.items())
    return tuple(
        Stand(rating=row, kept=kept(state, active[row.uid], used.get(row.uid), row, now))
        for row in rank(signal, contenders, dedicated=is_dedicated(state))
    )


def kept(state: EvictionState, one: ActivePod, row: PodUsage | None, rating: Rating, now: Instant) -> str:
    """Return why a pod is not evicted, empty when it may be."""
    hindrance = hindered(state, one, now)
    if hindrance or rating.used is not None:
        return hindrance
    why = "; ".join(row.troubles) if row is not None else ""
    return f"usage unknown{': ' if why else ''}{why}"


def hindered(state: EvictionState, one: ActivePod, now: Instant) -> str:
    """Return why a pod is not evicted regardless of its usage, empty when it may be."""
    spared = is_spared(one.pod, spares_static=state.policy.spares_static)
    if spared:
        return f"never evicted: {spared}"
    if one.ending:
        return "already terminating"
    if now - state.evicted.asked.get(one.uid, float("-inf")) < ASK_AGAIN_S:
        return "already evicted"
    return ""


def over_limit(state: EvictionState, now: Instant) -> tuple[tuple[ActivePod, Excess], ...]:
    """Return the pods over their own limit of local storage that may be evicted, by name."""
    if not state.policy.local_limits:
        return ()
    used = usage_rows(state)
    found = []
    for one in sorted(state.active, key=name_of):
        row = used.get(one.uid)
        if row is None or row.disk_as_of is None or hindered(state, one, now):
            continue
        if row.disk_as_of <= state.action_at or now - row.disk_as_of > READING_LIMIT_S:
            continue
        excess = local_excess(one.pod, row, dedicated=is_dedicated(state))
        if excess is not None:
            found.append((one, excess))
    return tuple(found)


def usage_rows(state: EvictionState) -> dict[Uid, PodUsage]:
    """Return the last reading of each pod."""
    return {row.uid: row for row in state.usage.pods} if state.usage is not None else {}


def is_fresh(row: PodUsage, signal: Signal, now: Instant) -> bool:
    """Return whether a pod's reading is recent enough for a decision."""
    as_of = row.disk_as_of if signal in DISK else row.as_of
    return as_of is not None and now - as_of <= READING_LIMIT_S


def name_of(one: ActivePod) -> str:
    """Return ``namespace/name``."""
    return f"{one.pod.metadata.namespace}/{one.pod.metadata.name}"
