"""Which readings of usage are believed: an impossible one is refused, with the reason, and the last good one stands.

A kernel file that is read while it changes, a runtime that mixes up units, a clock that stands still: each was seen, and
each would evict an innocent pod. A decreased counter is no error: its process or cgroup was restarted.
"""

from typing import TypeVar

from msgspec.structs import replace

from api.usage import CpuUsage, FsUsage, MemoryUsage, SwapUsage

MARGIN = 1.25
"""How far over what the machine can do a rate may seem to be: counters and clock are not read at one instant."""
NS = 1_000_000_000
RATE_LIMIT_NS = 600 * NS
"""A reading before this is too old to say anything of the present rate."""

T = TypeVar("T")
Checked = tuple[T | None, str]
"""What is believed, and why it is not what was read; empty when it is."""


def check_cpu(before: CpuUsage | None, after: CpuUsage | None, cpus: int) -> Checked[CpuUsage]:
    """Return a reading of CPU time with its rate, or the one before it."""
    if after is None:
        return None, ""
    if after.total_ns < 0:
        return before, f"CPU time of {after.total_ns} ns is negative"
    if before is None:
        return after, ""
    passed = after.clock_ns - before.clock_ns
    if passed == 0:
        return before, "time stands still at its source"
    if passed < 0:
        # The clock of the source was set: it is believed from here on, and there is no rate yet.
        return after, "time goes back at its source"
    used = after.total_ns - before.total_ns
    if used < 0 or passed > RATE_LIMIT_NS:
        return after, ""
    # A tick of the clock more or less decides nothing, however short the time between.
    if used > cpus * passed * MARGIN + NS // 50:
        return before, (
            f"CPU time grew by {used / NS:.3f} s within {passed / NS:.3f} s: more than {cpus} CPUs allow"
        )
    return replace(after, nano_cores=used * NS // passed), ""


def check_memory(
    before: MemoryUsage | None, after: MemoryUsage | None, capacity: int | None
) -> Checked[MemoryUsage]:
    """Return a reading of memory, or the one before it."""
    if after is None:
        return None, ""
    named = (("usage", after.usage_bytes), ("working set", after.working_set_bytes), ("rss", after.rss_bytes))
    for name, value in named:
        why = bounded(f"memory {name}", value, capacity)
        if why:
            return before, why
    why = bounded("available memory", after.available_bytes, None)
    return (before, why) if why else (after, "")


def check_swap(before: SwapUsage | None, after: SwapUsage | None, capacity: int | None) -> Checked[SwapUsage]:
    """Return a reading of swap, or the one before it."""
    if after is None:
        return None, ""
    why = bounded("swap usage", after.usage_bytes, capacity)
    return (before, why) if why else (after, "")


def check_count(what: str, before: int | None, after: int | None, capacity: int | None) -> Checked[int]:
    """Return a count, or the one before it."""
    why = bounded(what, after, capacity, unit="")
    return (before, why) if why else (after, "")


def check_fs(before: FsUsage | None, after: FsUsage | None) -> Checked[FsUsage]:
    """Return how full a file system is, or what was read before."""
    if after is None:
        return None, ""
    if after.capacity_bytes is None or after.capacity_bytes <= 0:
        return before, f"capacity of {after.capacity_bytes} bytes"
    for name, value, most, unit in (
        ("available", after.available_bytes, after.capacity_bytes, " bytes"),
        ("used", after.used_bytes, after.capacity_bytes, " bytes"),
        ("free", after.inodes_free, after.inodes, " inodes"),
        ("used", after.inodes_used, after.inodes, " inodes"),
    ):
        why = bounded(name, value, most, unit=unit)
        if why:
            return before, why
    return after, ""


def check_share(what: str, used_bytes: int, inodes: int, fs: FsUsage | None) -> str:
    """Return why something cannot take so much of a file system, empty when it can."""
    return bounded(what, used_bytes, fs.capacity_bytes if fs else None) or bounded(
        what, inodes, fs.inodes if fs else None, unit=" inodes"
    )


def bounded(what: str, value: int | None, most: int | None, *, unit: str = " bytes") -> str:
    """Return why a value is absurd, empty when it is not: below nothing, or exceeds the maximum."""
    if value is None:
        return ""
    if value < 0:
        return f"{what} of {value}{unit} is negative"
    if most is not None and value > most:
        return f"{what} of {value}{unit} exceeds the maximum {most}"
    return ""
