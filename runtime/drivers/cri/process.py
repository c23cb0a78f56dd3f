"""Processes of sandboxes and containers as the machine shows them, beside what the runtime says."""

import contextlib
from pathlib import Path

ROOTS = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")
"""Where the cgroups are that count processes: of version 1, of version 2."""


def only_process(parent: str, identity: str, roots: tuple[str, ...] = ROOTS) -> int:
    """Return the pid of what was just made below the cgroup `parent`, where it is one process and has no other.

    0 where that cannot be told so: under systemd cgroups are called otherwise, and processes of another process
    namespace are out of sight.
    """
    for root in roots if parent and identity else ():
        with contextlib.suppress(OSError, ValueError):
            [pid] = Path(f"{root}{parent}/{identity}/cgroup.procs").read_text().split()
            return int(pid)
    return 0


def is_of(pid: int, identity: str) -> bool:
    """Return whether a process is in the cgroup of this container or sandbox, by which runtimes name them."""
    with contextlib.suppress(OSError):
        return identity in Path(f"/proc/{pid}/cgroup").read_text()
    return False
