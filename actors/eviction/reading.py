"""From a reading of usage to signals and thresholds (reference ``node`` sections 6.1, 6.6).

A signal that cannot be read is left out and changes no threshold.
"""

from msgspec.structs import replace

from actors.eviction.state import EvictionReading, EvictionState, Met
from api.eviction import KINDS, Observation, Pressure, Signal, Threshold, is_met
from api.ids import Instant
from api.usage import FsUsage, Usage

PODS = "pods"

Row = tuple[Signal, int | None, int | None, Instant | None]


def observe(usage: Usage) -> tuple[tuple[Observation, ...], tuple[str, ...]]:
    """Return an observation of each known signal, and impossible values in words."""
    found, absurd = [], []
    for signal, available, capacity, as_of in rows(usage):
        if available is None or capacity is None or as_of is None or not capacity:
            continue
        if 0 <= available <= capacity:
            found.append(
                Observation(signal=signal, available=available, capacity=capacity, as_of=float(as_of))
            )
        else:
            absurd.append(f"{signal}: {available} of {capacity} is impossible")
    return tuple(found), tuple(absurd)


def rows(usage: Usage) -> list[Row]:
    """Return available, capacity and time of reading of every signal; None: unknown."""
    node = usage.node
    pods = next((part.memory for part in node.system if part.name == PODS), None)
    memory: Row = (Signal.MEMORY, None, None, node.as_of)
    if node.memory is not None and node.capacity_bytes is not None:
        used = node.memory.working_set_bytes
        free = node.memory.available_bytes
        free = max(0, node.capacity_bytes - used) if free is None else free
        memory = (Signal.MEMORY, free, max(node.capacity_bytes, free), node.as_of)
    of_pods: Row = (Signal.PODS_MEMORY, None, None, node.as_of)
    if pods is not None and pods.available_bytes is not None:
        whole = pods.available_bytes + pods.working_set_bytes
        of_pods = (Signal.PODS_MEMORY, pods.available_bytes, whole, node.as_of)
    pids: Row = (Signal.PID, None, node.pid_limit, node.as_of)
    if node.pids is not None and node.pid_limit is not None:
        pids = (Signal.PID, max(0, node.pid_limit - node.pids), node.pid_limit, node.as_of)
    return [
        memory,
        of_pods,
        *of_disk(Signal.NODEFS, Signal.NODEFS_INODES, node.fs, node.disk_as_of),
        *of_disk(Signal.IMAGEFS, Signal.IMAGEFS_INODES, node.image_fs, node.image_as_of),
        pids,
    ]


def of_disk(space: Signal, inodes: Signal, fs: FsUsage | None, as_of: Instant | None) -> list[Row]:
    """Return both rows of a file system."""
    if fs is None:
        return [(space, None, None, as_of), (inodes, None, None, as_of)]
    return [
        (space, fs.available_bytes, fs.capacity_bytes, as_of),
        (inodes, fs.inodes_free, fs.inodes, as_of),
    ]


def with_usage(state: EvictionState, usage: Usage, now: Instant) -> EvictionState:
    """Return the state after a reading: thresholds that are met, since when, and pressures."""
    observations, absurd = observe(usage)
    seen = {one.signal: one for one in observations}
    before = {one.threshold: one for one in state.pressure.met}
    met = tuple(
        met_since(one, before[one].since if one in before else now, now)
        for one in state.policy.thresholds
        if is_short(one, seen.get(one.signal), before.get(one))
    )
    felt = {pressure_of(one.threshold) for one in met}
    last_seen = {**state.pressure.last_seen, **dict.fromkeys(sorted(felt), now)}
    return replace(
        state,
        reading=EvictionReading(usage=usage, observations=observations, absurd=absurd),
        asked=replace(state.asked, usage_at=now),
        pressure=replace(state.pressure, met=met, last_seen=last_seen),
    )


def met_since(threshold: Threshold, since: Instant, now: Instant) -> Met:
    """Return a threshold that is met, ripe after its grace period."""
    return Met(threshold=threshold, since=since, ripe=now - since >= threshold.grace_s)


def is_short(threshold: Threshold, seen: Observation | None, before: Met | None) -> bool:
    """Return whether a threshold is met; a ripe one ends only with its minimum reclaim."""
    if seen is None:
        return before is not None
    return is_met(threshold, seen, with_reclaim=before is not None and before.ripe)


def pressure_of(threshold: Threshold) -> Pressure:
    """Return the pressure of a threshold."""
    return KINDS[threshold.signal].pressure


def pressures(state: EvictionState, now: Instant) -> tuple[Pressure, ...]:
    """Return the published pressures: observed now or within the transition period."""
    felt = {pressure_of(one.threshold) for one in state.pressure.met}
    lately = {one for one, at in state.pressure.last_seen.items() if now - at < state.policy.transition_s}
    return tuple(sorted(felt | lately))
