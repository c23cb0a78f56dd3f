"""Usage by process, for containers whose cgroup counts nothing: the sum over ``/proc``."""

import os
import time

from api.usage import CpuUsage, MemoryUsage
from runtime.drivers.host.usage.usagefile import PAGE, TICK_NS, read

UTIME, STIME, CUTIME, CSTIME, STARTTIME, RSS = 11, 12, 13, 14, 19, 21
"""Columns of ``/proc/<pid>/stat`` behind the command's name."""


class Processes:
    """One scan of all processes; made when the first container needs it, valid for one call."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._children: dict[int, list[int]] | None = None

    def family(self, pid: int) -> list[int]:
        """Return a process and all that descend from it."""
        if self._children is None:
            self._children = self._scan()
        found, left = [], [pid]
        while left:
            one = left.pop()
            found.append(one)
            left += self._children.get(one, ())
        return found

    def _scan(self) -> dict[int, list[int]]:
        children: dict[int, list[int]] = {}
        for name in os.listdir(self._proc):  # noqa: PTH208  # names alone, of hundreds
            if not name.isdigit():
                continue
            words = stat(self._proc, int(name))
            if words is not None:
                children.setdefault(int(words[1]), []).append(int(name))
        return children

    def cpu(self, pids: list[int]) -> CpuUsage | None:
        """Return the CPU time of processes, and of their children that ended and were waited for."""
        ticks, known = 0, False
        for pid in pids:
            words = stat(self._proc, pid)
            if words is not None:
                known = True
                ticks += sum(int(words[at]) for at in (UTIME, STIME, CUTIME, CSTIME))
        if not known:
            return None
        return CpuUsage(at=time.time_ns(), clock_ns=time.monotonic_ns(), total_ns=ticks * TICK_NS)

    def memory(self, pids: list[int]) -> MemoryUsage | None:
        """Return the resident memory of processes. Pages that several processes share count for each."""
        resident = anonymous = 0
        known = False
        for pid in pids:
            try:
                words = read(f"{self._proc}/{pid}/statm").split()
            except OSError:
                continue
            if len(words) > 2:
                known = True
                resident += int(words[1]) * PAGE
                anonymous += (int(words[1]) - int(words[2])) * PAGE
        if not known:
            return None
        return MemoryUsage(
            at=time.time_ns(), usage_bytes=resident, working_set_bytes=resident, rss_bytes=anonymous
        )


def stat(proc: str, pid: int) -> list[bytes] | None:
    """Return the columns of a process behind its name (its state is the first), None when it is gone."""
    try:
        text = read(f"{proc}/{pid}/stat")
    except OSError:
        return None
    return text[text.rfind(b")") + 2 :].split()


def members(group: str) -> list[int]:
    """Return the processes of a cgroup and of all below it; none when it is gone."""
    found = []
    for folder, _, _ in os.walk(group):
        try:
            found += [int(word) for word in read(f"{folder}/cgroup.procs").split() if word != b"0"]
        except OSError:
            # Removed between listing and opening: it has no members then.
            continue
    return found
