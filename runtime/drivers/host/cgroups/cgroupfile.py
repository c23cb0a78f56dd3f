"""Files and folders of one cgroup hierarchy, version 1 or 2: made, given values, emptied, removed.

```text
              cpu                                  memory                 processes   huge pages
version 1     cpu.shares cpu.cfs_{period,quota}_us memory.limit_in_bytes  pids.max    hugetlb.<size>.limit_in_bytes
version 2     cpu.weight cpu.max                   memory.max             pids.max    hugetlb.<size>.max
```
"""

import contextlib
import errno
import os
import posixpath
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from api.ports.cgroups import UNLIMITED, CgroupLimits
from runtime.drivers.host.oserror import DENIED, translate
from runtime.drivers.host.usage import usagefile

WANTED = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "name=systemd")
"""Hierarchies of version 1 that a pod has a cgroup in; its runtime makes the others for itself."""
DELEGATED = ("cpu", "cpuset", "memory", "pids", "hugetlb", "io")
"""Controllers of version 2 that are enabled all the way down to a pod."""
CPUSET = ("cpuset.cpus", "cpuset.mems")
FRESH = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"}
"""The value of a new cgroup of version 1 where the kernel limits CPU: no limit."""
UNBOUNDED = 1 << 62
"""What version 1 shows from here on means no limit."""
PAGE = os.sysconf("SC_PAGE_SIZE")
REFUSED = DENIED | {errno.ENOTDIR, errno.ENODEV}
"""What asking again does not change: this hierarchy may not be written."""
KILL_ROUNDS = 5
BUSY_TRIES = 10
BUSY_WAIT_S = 0.001
LONGEST_WAIT_S = 0.064


class Hierarchy(msgspec.Struct, frozen=True, kw_only=True):
    """A mounted hierarchy, or a folder that stands for one; `root` is the folder of its root cgroup."""

    root: Path
    unified: bool = False
    """Version 2."""
    controllers: tuple[str, ...] = ()
    make: Callable[[str], None] = os.mkdir
    """Makes one folder, which the kernel fills with files."""
    drop: Callable[[str], None] = os.rmdir
    """Removes one folder, which the kernel empties of its files."""

    def folder(self, path: str) -> str:
        """Return the folder of a cgroup."""
        return f"{self.root}{path}".rstrip("/")

    def has(self, path: str) -> bool:
        """Return whether a cgroup exists."""
        return os.path.isdir(self.folder(path))  # noqa: PTH112


def make_cgroup(hierarchy: Hierarchy, path: str) -> tuple[bool, tuple[str, ...]]:
    """Make a cgroup and those above it; return whether it was not there, and what could not be delegated to it.

    Raises OSError.
    """
    if not hierarchy.unified and "cpuset" not in hierarchy.controllers:
        with contextlib.suppress(FileNotFoundError):
            return make_folder(hierarchy, path), ()
    made, troubles = False, []
    above = posixpath.dirname(path) if is_ready_for_children(hierarchy, posixpath.dirname(path)) else ""
    for name in path.removeprefix(above).strip("/").split("/"):
        trouble = delegate(hierarchy, above) if hierarchy.unified else ""
        if trouble:
            troubles.append(trouble)
        above = f"{above}/{name}"
        if not hierarchy.has(above):
            made = make_folder(hierarchy, above)
        if "cpuset" in hierarchy.controllers and not hierarchy.unified:
            inherit_cpuset(hierarchy.folder(above))
    return made, tuple(troubles)


def make_folder(hierarchy: Hierarchy, path: str) -> bool:
    """Make one cgroup below its parent; return whether it was not there. Raises OSError."""
    try:
        hierarchy.make(hierarchy.folder(path))
    except FileExistsError:
        return False
    return True


def is_ready_for_children(hierarchy: Hierarchy, path: str) -> bool:
    """Return whether a cgroup can have children now: in version 2 each one above must delegate its controllers."""
    if hierarchy.unified or not path.strip("/") or not hierarchy.has(path):
        return False
    if "cpuset" not in hierarchy.controllers:
        return True
    return all(read(f"{hierarchy.folder(path)}/{name}").strip() for name in CPUSET)


def delegate(hierarchy: Hierarchy, path: str) -> str:
    """Enable for the children of a cgroup of version 2 what it has itself; return what could not be, in words."""
    folder = hierarchy.folder(path)
    have = set(read(f"{folder}/cgroup.controllers").split())
    enabled = set(read(f"{folder}/cgroup.subtree_control").split())
    missing = [name for name in DELEGATED if name in have - enabled]
    if not missing:
        return ""
    file, failed = f"{folder}/cgroup.subtree_control", []
    try:
        write(file, " ".join(f"+{name}" for name in missing))
    except OSError:
        # Written together; when one controller fails, the others are still enabled.
        for name in missing:
            try:
                write(file, f"+{name}")
            except OSError as error:
                failed.append(f"{name}: {error.strerror}")
    return f"{file}: could not enable {', '.join(failed)}" if failed else ""


def inherit_cpuset(folder: str) -> None:
    """Give a cpuset of version 1 its parent's processors and memory nodes: with none no process may enter it."""
    for name in CPUSET:
        if not read(f"{folder}/{name}").strip():
            text = read(f"{posixpath.dirname(folder)}/{name}").strip()
            if text:
                write(f"{folder}/{name}", text)


def apply_limits(
    hierarchy: Hierarchy, path: str, limits: CgroupLimits, *, fresh: bool = False
) -> tuple[list[str], list[str]]:
    """Give a cgroup its values where it has others; return what may not be written, and what the kernel did not take.

    A `fresh` one, just made, is not read for values with which the kernel makes each.
    """
    folder = hierarchy.folder(path)
    refused: list[str] = []
    failed: list[str] = []
    for name, text in values_of(hierarchy, limits):
        if fresh and FRESH.get(name) == text:
            continue
        file = f"{folder}/{name}"
        try:
            if not is_same(name, read(file, missing=text).strip(), text):
                write(file, text)
        except OSError as error:
            why = f"{file}: could not be set to {text}: {error.strerror}"
            (refused if error.errno in DENIED else failed).append(why)
    return refused, failed


def are_applied(hierarchy: Hierarchy, path: str, limits: CgroupLimits) -> bool:
    """Return whether a cgroup has its values."""
    folder = hierarchy.folder(path)
    return all(
        is_same(name, read(f"{folder}/{name}", missing=text).strip(), text)
        for name, text in values_of(hierarchy, limits)
    )


def values_of(hierarchy: Hierarchy, limits: CgroupLimits) -> Iterator[tuple[str, str]]:
    """Yield file and text of each value that this hierarchy has a controller for."""
    unified, controllers = hierarchy.unified, hierarchy.controllers
    if "cpu" in controllers:
        yield from cpu_values(limits, unified=unified)
    if "memory" in controllers and limits.memory_bytes:
        name = "memory.max" if unified else "memory.limit_in_bytes"
        yield name, bound(limits.memory_bytes, "max" if unified else "-1")
    if "pids" in controllers and limits.pids:
        yield "pids.max", bound(limits.pids, "max")
    if "hugetlb" in controllers:
        for size, limit in limits.hugepages:
            yield f"hugetlb.{size}.{'max' if unified else 'limit_in_bytes'}", str(limit)


def cpu_values(limits: CgroupLimits, *, unified: bool) -> Iterator[tuple[str, str]]:
    """Yield the values of the controller ``cpu``."""
    if unified:
        if limits.cpu_weight:
            yield "cpu.weight", str(limits.cpu_weight)
        if limits.cpu_quota_us and limits.cpu_period_us:
            yield "cpu.max", f"{bound(limits.cpu_quota_us, 'max')} {limits.cpu_period_us}"
        return
    if limits.cpu_shares:
        yield "cpu.shares", str(limits.cpu_shares)
    if limits.cpu_quota_us and limits.cpu_period_us:
        yield "cpu.cfs_period_us", str(limits.cpu_period_us)
        yield "cpu.cfs_quota_us", bound(limits.cpu_quota_us, "-1")


def bound(limit: int, unlimited: str) -> str:
    """Write a limit, or the word of no limit."""
    return unlimited if limit == UNLIMITED else str(limit)


def is_same(name: str, found: str, wanted: str) -> bool:
    """Return whether a file already has its value: memory is counted in whole pages."""
    if found == wanted:
        return True
    if not (name.startswith(("memory.", "hugetlb.")) and found.isdigit()):
        return False
    if wanted == "-1":
        return int(found) >= UNBOUNDED
    return wanted.isdigit() and int(found) == int(wanted) // PAGE * PAGE


def kill_rest(folder: str) -> None:
    """Kill all processes in a cgroup and below it, in rounds, since a process may fork between listing and killing."""
    for _ in range(KILL_ROUNDS):
        left = [pid for place, _, _ in os.walk(folder) for pid in read(f"{place}/cgroup.procs").split()]
        # A process of another pid namespace shows as 0: it is out of our reach.
        pids = [int(pid) for pid in left if pid != "0"]
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(BUSY_WAIT_S)


def remove_cgroup(hierarchy: Hierarchy, path: str) -> None:
    """Remove a cgroup and those below it, from below; an absent one is fine. Raises OSError.

    What was killed is gone a moment later: a busy one is tried again for some tenths of a second.
    """
    folder = hierarchy.folder(path)
    for place, below, _ in os.walk(folder, topdown=False):
        for name in below:
            remove_patiently(hierarchy, f"{place}/{name}")
    remove_patiently(hierarchy, folder)


def remove_patiently(hierarchy: Hierarchy, folder: str) -> None:
    """Remove one cgroup, waiting while it is busy. Raises OSError."""
    wait_s = BUSY_WAIT_S
    for _ in range(BUSY_TRIES - 1):
        try:
            return remove_empty(hierarchy, folder)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        time.sleep(wait_s)
        wait_s = min(wait_s * 2, LONGEST_WAIT_S)
    return remove_empty(hierarchy, folder)


def remove_empty(hierarchy: Hierarchy, folder: str) -> None:
    """Remove one cgroup unless it is gone already. Raises OSError: EBUSY while processes or other cgroups are in it."""
    with contextlib.suppress(FileNotFoundError):
        hierarchy.drop(folder)


def read(path: str, missing: str = "") -> str:
    """Return a small kernel file, `missing` where there is none that may be read."""
    try:
        return usagefile.read(path).decode("ascii", "replace")
    except FileNotFoundError:
        return missing
    except OSError:
        return ""


def write(path: str, text: str) -> None:
    """Write a file of the kernel, which must be there. Raises OSError."""
    number = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(number, text.encode())
    finally:
        os.close(number)


def mounted_hierarchies(mountinfo: Path = Path("/proc/self/mountinfo")) -> tuple[Hierarchy, ...]:
    """Return the cgroup hierarchies of this machine, each once, by where they are mounted."""
    found: dict[str, tuple[tuple[bool, int, str], bool, tuple[str, ...]]] = {}
    try:
        lines = mountinfo.read_text().splitlines()
    except OSError as error:
        raise translate(error, "could not read which cgroup hierarchies are mounted") from error
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(), right.split()
        if not kinds or kinds[0] not in ("cgroup", "cgroup2") or len(fields) < 5:
            continue
        _, _, device, root, place = fields[:5]
        # A hierarchy may be mounted several times, parts of it too: the whole comes before a part, short before long.
        rank = (root != "/", len(place), posixpath.normpath(place))
        options = tuple(kinds[2].split(",")) if len(kinds) > 2 else ()
        row = (rank, kinds[0] == "cgroup2", options)
        if device not in found or rank < found[device][0]:
            found[device] = row
    rows = [
        Hierarchy(
            root=Path(place),
            unified=unified,
            controllers=tuple(read(f"{place}/cgroup.controllers").split()) if unified else options,
        )
        for (_, _, place), unified, options in found.values()
    ]
    return tuple(sorted(rows, key=lambda row: row.root))
