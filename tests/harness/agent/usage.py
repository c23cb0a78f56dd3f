"""What a process costs, read from /proc: CPU, memory, when it began, who started it."""

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def read(path: str) -> bytes:
    """Return a file of /proc, empty when its process is gone."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat behind the command, the state first; empty when it is gone."""
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S if fields else 0.0


def parent(pid: int) -> int:
    """Return who started a process, or adopted it."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def started_at(pid: int) -> float:
    """Return when a process was started, on the clock of `time.clock_gettime(CLOCK_BOOTTIME)`; 10 ms exact."""
    fields = stat_fields(pid)
    return int(fields[19]) / TICKS_PER_S if fields else 0.0


def memory_bytes(pid: int, *names: str) -> int:
    """Return the sum of some of a process's memory figures: ``Rss``, ``Private_Clean`` ..."""
    wanted = {f"{name}:".encode() for name in names}
    lines = [line.split() for line in read(f"/proc/{pid}/smaps_rollup").splitlines()]
    return sum(int(line[1]) * 1024 for line in lines if line and line[0] in wanted)


def resident_bytes(pid: int) -> int:
    """Return the resident set of a process."""
    return memory_bytes(pid, "Rss")


def private_bytes(pids: list[int]) -> int:
    """Return what these processes share with nobody."""
    return sum(memory_bytes(pid, "Private_Clean", "Private_Dirty") for pid in pids)
