"""The mount namespace of a container: only its own processes see its mounts. Runs in a fork, before exec.

The container's files are the host's, so a link that some container could have made may lead anywhere: nothing is mounted by
path. What is to be mounted and where is walked to by descriptors (`find`), the volumes are copied before the first of them
covers anything, and a copy has its rights before it is attached.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Container, Iterator

from runtime.drivers.embedded.keeper import small
from runtime.drivers.embedded.keeper.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLONE_NEWNS = 0x20000
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
"""Numbers of system calls, the same on every architecture that Debian has; the C library knows them late or never."""
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
OPEN_TREE_CLONE = 1
MOVE_DESCRIPTORS = 0x44
"""Both what is moved and where to are descriptors (MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH)."""
MOUNT_ATTR_RDONLY = 1
MAX_LINKS = 40
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

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


def steps(binds: tuple[Bind, ...], pods: str) -> Iterator[str]:
    """Mount volumes for this process and its children alone; yields what is done next, before it is. Raises OSError.

    `pods` is the folder below which the volumes of all pods are.
    """
    yield "create its mount namespace"
    _separate()
    volumes = []
    for bind in binds:
        yield f"open the volume of mount path {quoted(bind.target)}"
        volumes.append(_copy(bind))
    yield "detach the volumes of others"
    _leave_others(pods)
    mounted: list[bytes] = []
    for bind, volume in zip(binds, volumes, strict=True):
        yield f"mount a volume at {quoted(bind.target)}"
        place = find(bind.target, mounted, stat.S_IFMT(os.fstat(volume).st_mode))
        _call(MOVE_MOUNT, volume, b"", place, b"", MOVE_DESCRIPTORS)
        mounted.append(_mount_id(volume))


def find(path: str, volumes: Container[bytes] = (), missing: int = 0) -> int:
    """Return a descriptor of what an absolute path names. Raises OSError.

    A link is followed only where it lies in a folder that root, or this process's user, alone may change, as do all folders
    on the way to it: any other could be a container's. Below `volumes`, ids of mounts, every link is a container's, and what
    is missing there is made, as folders or, the last, as a file where `missing` is `stat.S_IFREG`; nothing is where it is 0.
    """
    names = os.path.normpath(path).split("/")[::-1]
    # Of each folder that we are in: its descriptor, whether its links are followed, whether it is in a volume.
    trail = [(os.open("/", PLACE), True, False)]
    links = 0
    try:
        while names:
            name = names.pop()
            here, is_safe, is_inside = trail[-1]
            if name == "..":
                # Only a link that was followed: a volume contains none.
                if len(trail) > 1:
                    os.close(trail.pop()[0])
                continue
            if name in ("", "."):
                continue
            kind = missing if is_inside else 0
            there = _open(here, name, stat.S_IFDIR if kind and names else kind)
            seen = os.fstat(there)
            if not stat.S_ISLNK(seen.st_mode):
                is_inside = is_inside or _mount_id(there) in volumes
                trail.append((there, is_safe and not is_inside and _is_ours_alone(seen), is_inside))
                continue
            text = os.readlink("", dir_fd=there)
            os.close(there)
            links += 1
            if not is_safe:
                folder = os.readlink(f"/proc/self/fd/{here}")  # noqa: PTH115 pathlib would cost every keeper memory
                raise OSError(
                    errno.ELOOP,
                    f"link {quoted(f'{folder}/{name}')} could have been made by a container or another user, and is not followed; name"
                    " the path that it leads to",
                )
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            while text.startswith("/") and len(trail) > 1:
                os.close(trail.pop()[0])
            names += text.split("/")[::-1]
        return trail.pop()[0]
    finally:
        for level, _, _ in trail:
            os.close(level)


def _separate() -> None:
    """Unshare the mount namespace; later shared mounts of the host still appear in it."""
    if _libc.unshare(CLONE_NEWNS) or _libc.mount(
        b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None
    ):
        raise _error()


def _copy(one: Bind) -> int:
    """Return a volume as a descriptor of a detached mount with the requested options."""
    source = find(one.source)
    volume = _call(OPEN_TREE, source, b"", OPEN_TREE_CLONE | os.O_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE)
    os.close(source)
    if not one.follows:
        _set(volume, AT_RECURSIVE, 0, MS_PRIVATE)
    if one.read_only:
        _set(volume, 0, MOUNT_ATTR_RDONLY, 0)
    return volume


def _leave_others(pods: str) -> None:
    """Let go of every volume as the host has it: a copy would keep other pods' memory after they are gone.

    Before anything is mounted, since these paths are the host's.
    """
    points = [line.split(b" ")[4] for line in small.read("/proc/self/mountinfo").splitlines()]
    for point in reversed(points):
        if os.fsdecode(point).startswith(f"{pods}/"):
            # One that is gone already is as good; the names in this folder need no escapes but for what users made below.
            path = point.decode("unicode_escape").encode("latin-1")
            _libc.umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW)


def _mount_id(fd: int) -> bytes:
    """Return the id of the mount that a descriptor is on."""
    for line in small.read(f"/proc/self/fdinfo/{fd}").splitlines():
        if line.startswith(b"mnt_id:"):
            return line.split()[1]
    raise OSError(errno.ENOSYS, "this kernel does not tell mounts apart (no mnt_id in /proc/self/fdinfo)")


def _is_ours_alone(seen: os.stat_result) -> bool:
    return seen.st_uid in (0, os.geteuid()) and not seen.st_mode & OTHERS_WRITE


def _open(folder: int, name: str, missing: int) -> int:
    """Open an entry of a folder, without following a link; create it first where `missing` has its kind."""
    try:
        return os.open(name, PLACE, dir_fd=folder)
    except FileNotFoundError:
        if not missing:
            raise
    try:
        if missing == stat.S_IFDIR:
            os.mkdir(name, 0o755, dir_fd=folder)
        else:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder))
    except FileExistsError:
        # A container created it first: check it like any other.
        pass
    return os.open(name, PLACE, dir_fd=folder)


def _set(mount: int, flags: int, attributes: int, propagation: int) -> None:
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, propagation, 0)
    _call(MOUNT_SETATTR, mount, b"", flags | AT_EMPTY_PATH, wanted, ctypes.c_size_t(ctypes.sizeof(wanted)))


def _call(number: int, *arguments: Any) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise _error()
    return result


def _error() -> OSError:
    number = ctypes.get_errno()
    if number == errno.ENOSYS:
        return OSError(number, "volumes need Linux 5.12 or newer; remove volumeMounts, or use a newer kernel")
    return OSError(number, os.strerror(number))
