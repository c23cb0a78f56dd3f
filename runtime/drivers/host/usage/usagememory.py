"""The memory of the machine and of a cgroup, of whichever version it is."""

import time

from api.usage import MemoryUsage, SwapUsage, UsageSource, available
from runtime.drivers.host.usage import usagefile as files
from runtime.drivers.host.usage.usagegroup import CgroupFolder, Hierarchies


def group_memory(
    place: CgroupFolder, limit_bytes: int | None = None
) -> tuple[MemoryUsage | None, SwapUsage | None]:
    """Return memory and swap of a cgroup. Raises OSError. A limit given counts instead of its own."""
    if place.v2:
        return files.memory_v2(place.folder, limit_bytes)
    return files.memory_v1(place.folder, limit_bytes)


def source_of(place: CgroupFolder) -> str:
    """Describe the source of a cgroup's numbers."""
    return UsageSource.CGROUP_V2 if place.v2 else UsageSource.CGROUP_V1


def machine_memory(hierarchies: Hierarchies, meminfo: bytes) -> tuple[MemoryUsage | None, str]:
    """Return the root cgroup's account and its source, or the kernel's own when that is out of sight."""
    total = files.kibibytes(meminfo, b"MemTotal") or 0
    root = hierarchies.root("memory")
    if root is not None:
        try:
            memory, _ = group_memory(root, total)
        except OSError:
            memory = None
        if memory is not None:
            return memory, source_of(root)
    free, inactive = (files.kibibytes(meminfo, key) for key in (b"MemFree", b"Inactive(file)"))
    if not total or free is None:
        return None, ""
    used = total - free
    in_use = max(0, used - (inactive or 0))
    memory = MemoryUsage(
        at=time.time_ns(),
        usage_bytes=used,
        working_set_bytes=in_use,
        available_bytes=available(total, in_use),
        rss_bytes=files.kibibytes(meminfo, b"AnonPages"),
    )
    return memory, UsageSource.PROC
