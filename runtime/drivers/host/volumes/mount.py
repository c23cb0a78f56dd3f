"""Mounting by system call, and reading the kernel's table of mounts. Linux only; raises `OSError`."""

import ctypes
import os
import re
from pathlib import Path

MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SHARED = 1 << 20
UMOUNT_NOFOLLOW = 8

_ESCAPED = re.compile(r"\\([0-7]{3})")
_libc = ctypes.CDLL(None, use_errno=True)


def attach(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Call mount(2) for `source` at `target`: no path is rewritten, no helper program is run."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    if result:
        raise _error(target)


def unmount(target: str) -> None:
    """Unmount what is mounted last at `target`; a symbolic link is not followed. Raises EBUSY while it is in use."""
    if _libc.umount2(os.fsencode(target), UMOUNT_NOFOLLOW):
        raise _error(target)


def bind(source: str, target: str) -> None:
    """Mount a file or folder once more at `target`, without what is mounted below it."""
    attach(source, target, flags=MS_BIND)


def share(target: str) -> None:
    """Let mounts below `target` be seen wherever it is mounted."""
    attach("none", target, flags=MS_SHARED | MS_REC)


def _error(target: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), target)


def mounts_below(folder: str, table: str = "/proc/self/mountinfo") -> list[str]:
    """Return every mount point below an absolute folder without symbolic links, those mounted last first."""
    found = []
    for line in Path(table).read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), line.split(" ")[4])
        if point.startswith(f"{folder}/"):
            found.append(point)
    return found[::-1]


def mount_id(fd: int) -> str:
    """Return the id of the mount of an open file; it distinguishes bind mounts, which a device number cannot."""
    for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines():
        if line.startswith("mnt_id:"):
            return line.partition(":")[2].strip()
    raise OSError(0, "this kernel does not tell mounts apart (no mnt_id in /proc/self/fdinfo)")
