"""Kernel files in which usage stands: small, read whole, taken apart by key."""

import os
import time

from api.usage import CpuUsage, InterfaceUsage, MemoryUsage, NetworkUsage, SwapUsage, available, working_set

LIMIT_BYTES = 1 << 16
LOOPBACK = "lo"
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def read(path: str) -> bytes:
    """Return what is in a small file. Raises OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(opened, LIMIT_BYTES)
        if len(text) < 4096:
            return text
        parts = [text]
        while part := os.read(opened, LIMIT_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(opened)


def read_if_there(path: str) -> bytes:
    """Return what is in a file, nothing for one that is not there or may not be read."""
    try:
        return read(path)
    except OSError:
        return b""


def number(text: bytes) -> int | None:
    """Return the number in a file, None for ``max`` and for an invalid one."""
    try:
        return int(text)
    except ValueError:
        return None


def field(text: bytes, key: bytes) -> int | None:
    """Return the number after a key at the beginning of a line, ``key 123``; None when there is none."""
    if text.startswith(key + b" "):
        begin = len(key) + 1
    else:
        found = text.find(b"\n" + key + b" ")
        if found < 0:
            return None
        begin = found + len(key) + 2
    end = text.find(b"\n", begin)
    return number(text[begin:] if end < 0 else text[begin:end])


def kibibytes(meminfo: bytes, key: bytes) -> int | None:
    """Return the bytes behind a key of ``/proc/meminfo``: ``MemTotal:       24643 kB``."""
    begin = meminfo.find(key + b":")
    if begin < 0 or (begin and meminfo[begin - 1 : begin] != b"\n"):
        return None
    end = meminfo.find(b"\n", begin)
    words = meminfo[begin : end if end >= 0 else len(meminfo)].split()
    value = number(words[1]) if len(words) > 1 else None
    return None if value is None else value * 1024


# ---------------------------------------------------------------- cgroups


def cpu_v1(folder: str) -> CpuUsage | None:
    """Return the CPU time of a cgroup of the controller cpuacct. Raises OSError."""
    return _cpu(number(read(f"{folder}/cpuacct.usage")))


def cpu_v2(folder: str) -> CpuUsage | None:
    """Return the CPU time of a cgroup, which v2 counts without any controller. Raises OSError."""
    micros = field(read(f"{folder}/cpu.stat"), b"usage_usec")
    return _cpu(None if micros is None else micros * 1000)


def _cpu(total_ns: int | None) -> CpuUsage | None:
    if total_ns is None:
        return None
    return CpuUsage(at=time.time_ns(), clock_ns=time.monotonic_ns(), total_ns=total_ns)


def memory_v1(folder: str, limit_bytes: int | None = None) -> tuple[MemoryUsage | None, SwapUsage | None]:
    """Return memory and swap of a cgroup with all below it. Raises OSError. A limit given counts instead of its own."""
    used = number(read(f"{folder}/memory.usage_in_bytes"))
    stat = read(f"{folder}/memory.stat")
    if used is None:
        return None, None
    if limit_bytes is None:
        limit_bytes = number(read_if_there(f"{folder}/memory.limit_in_bytes"))
    swap = field(stat, b"total_swap")
    return _memory(stat, used, limit_bytes, v1=True), _swap(swap, None)


def memory_v2(folder: str, limit_bytes: int | None = None) -> tuple[MemoryUsage | None, SwapUsage | None]:
    """Return memory and swap of a cgroup with all below it. Raises OSError. A limit given counts instead of its own."""
    stat = read(f"{folder}/memory.stat")
    try:
        used = number(read(f"{folder}/memory.current"))
    except FileNotFoundError:
        # The root has no such file: like a kubelet, count its processes and its page cache.
        used = (field(stat, b"anon") or 0) + (field(stat, b"file") or 0)
    if used is None:
        return None, None
    if limit_bytes is None:
        limit_bytes = number(read_if_there(f"{folder}/memory.max"))
    swap = number(read_if_there(f"{folder}/memory.swap.current"))
    most = number(read_if_there(f"{folder}/memory.swap.max")) if swap is not None else None
    return _memory(stat, used, limit_bytes, v1=False), _swap(swap, most)


def oom_kills(folder: str, *, v1: bool) -> int | None:
    """Return the OOM kills of a cgroup, None where they are not counted."""
    return field(read_if_there(f"{folder}/memory.{'oom_control' if v1 else 'events'}"), b"oom_kill")


def _memory(stat: bytes, used: int, limit_bytes: int | None, *, v1: bool) -> MemoryUsage:
    prefix = b"total_" if v1 else b""
    in_use = working_set(used, field(stat, prefix + b"inactive_file") or 0)
    return MemoryUsage(
        at=time.time_ns(),
        usage_bytes=used,
        working_set_bytes=in_use,
        available_bytes=available(limit_bytes, in_use),
        rss_bytes=field(stat, b"total_rss" if v1 else b"anon"),
        page_faults=field(stat, prefix + b"pgfault"),
        major_page_faults=field(stat, prefix + b"pgmajfault"),
    )


def _swap(used: int | None, limit_bytes: int | None) -> SwapUsage | None:
    if used is None:
        return None
    return SwapUsage(at=time.time_ns(), usage_bytes=used, available_bytes=available(limit_bytes, used))


# ---------------------------------------------------------------- network


def network(table: bytes) -> NetworkUsage:
    """Return the interfaces of ``/proc/<pid>/net/dev``, by name, without loopback."""
    rows = []
    for line in table.splitlines()[2:]:
        name, _, rest = line.partition(b":")
        words = rest.split()
        label = name.strip().decode(errors="replace")
        if len(words) < 16 or label == LOOPBACK:
            continue
        rows.append(
            InterfaceUsage(
                name=label,
                rx_bytes=int(words[0]),
                rx_errors=int(words[2]),
                tx_bytes=int(words[8]),
                tx_errors=int(words[10]),
            )
        )
    rows.sort(key=lambda row: row.name)
    return NetworkUsage(at=time.time_ns(), interfaces=tuple(rows))
