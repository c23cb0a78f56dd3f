"""A container's own table of mounts: what a pod mounts is seen by its own processes only. Runs in a fork, before exec."""

from __future__ import annotations

import ctypes
import os

from runtime.drivers.embedded.keeper import small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLONE_NEWNS = 0x20000
MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MNT_DETACH = 2
KEPT = ((2, 2), (4, 4), (8, 8), (1024, 1024), (2048, 2048), (4096, 1 << 21))
"""Of a mount: what statvfs shows, and the flag that keeps it when it is mounted again (nosuid, nodev, noexec, *atime)."""

_libc = ctypes.CDLL(None, use_errno=True)


class Bind:
    """A file or folder of the host and where a container sees it."""

    __slots__ = ("follows", "read_only", "source", "target")

    def __init__(self, source: str, target: str, *, read_only: bool, follows: bool) -> None:
        self.source = source
        self.target = target
        self.read_only = read_only
        self.follows = follows
        """Whether what the host mounts below it later is seen too."""


def binds_of(mounts: list[dict[str, Any]]) -> tuple[Bind, ...]:
    """Return the mounts of a specification as the driver sent them, outer paths before those inside them."""
    found = [
        Bind(
            one["host_path"],
            one["container_path"],
            read_only=one.get("read_only", False),
            follows=one.get("propagation") == "host-to-container",
        )
        for one in mounts
    ]
    return tuple(sorted(found, key=lambda bind: bind.target.rstrip("/").count("/")))


def separate() -> None:
    """Leave the host's table of mounts for a copy; what the host mounts later appears in it where it is shared."""
    if _libc.unshare(CLONE_NEWNS):
        raise _error()
    _mount("none", "/", MS_REC | MS_SLAVE)


def bind(one: Bind) -> None:
    """Mount one file or folder where the container sees it."""
    _mount(one.source, one.target, MS_BIND | MS_REC)
    if not one.follows:
        _mount("none", one.target, MS_REC | MS_PRIVATE)
    if one.read_only:
        shown = os.statvfs(one.target).f_flag
        kept = sum(flag for bit, flag in KEPT if shown & bit)
        _mount("none", one.target, MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def leave_others(pods: str, binds: tuple[Bind, ...]) -> None:
    """Let go of every volume as the host has it: a copy would keep other pods' memory after they are gone."""
    own = tuple(one.target.rstrip("/") for one in binds)
    points = [line.split(b" ")[4] for line in small.read("/proc/self/mountinfo").splitlines()]
    for point in reversed(points):
        path = os.fsdecode(point)
        below = path.startswith(f"{pods}/") and not any(
            path == target or path.startswith(f"{target}/") for target in own
        )
        if below:
            # One that is gone already is as good; the names in this folder need no escapes but for what users made below.
            _libc.umount2(point.decode("unicode_escape").encode("latin-1"), MNT_DETACH)


def _mount(source: str, target: str, flags: int) -> None:
    if _libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None):
        raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
