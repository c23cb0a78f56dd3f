"""What a pod's folders hold on disk: a walk as ``du`` walks, bounded in time, that no link and no mount leads astray.

Folders are opened by name below the open folder above them, so nothing that a container changes meanwhile leads
elsewhere. Devices of folders only are compared: on an overlay a file shows another device than the folder it is in.
"""

import contextlib
import os
import stat
import time
from collections.abc import Callable

from api.usage import FsUsage
from api.usagecall import FolderPlace, FolderReading, PodFoldersReading

BLOCK = 512
DEPTH_LIMIT = 128
"""Folders below folders; each level holds one descriptor open."""
CHECK_EVERY = 256
"""Entries between looks at the clock."""
PLUGIN_PREFIX = "kubernetes.io~"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Tally:
    """Blocks and inodes of one walk; an inode with several names counts once."""

    __slots__ = ("_at", "_clock", "_seen", "_until", "inodes", "trouble", "used_bytes")

    def __init__(self, until: float, clock: Callable[[], float]) -> None:
        self.used_bytes = self.inodes = 0
        self.trouble = ""
        self._seen: set[tuple[int, int]] = set()
        self._until, self._clock, self._at = until, clock, 0

    def add(self, shown: os.stat_result) -> None:
        """Count one thing on disk."""
        if shown.st_nlink > 1 and not stat.S_ISDIR(shown.st_mode):
            key = (shown.st_dev, shown.st_ino)
            if key in self._seen:
                return
            self._seen.add(key)
        self.used_bytes += shown.st_blocks * BLOCK
        self.inodes += 1

    def over(self) -> bool:
        """Say whether the time is up; then `trouble` says that this is only a part."""
        self._at += 1
        if self._at % CHECK_EVERY == 0 and self._clock() > self._until and not self.trouble:
            self.trouble = "too much to count in time: this is a part of it"
        return bool(self.trouble)


def walk(folder: int, tally: Tally, *, below: bool = True, depth: int = 0) -> None:
    """Count what is in an open folder, itself included; with `below` also what is in those below it on its device."""
    own = os.fstat(folder)
    tally.add(own)
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if tally.over():
                return
            try:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    tally.add(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
    for name in folders if below else ():
        if depth >= DEPTH_LIMIT:
            tally.trouble = (
                tally.trouble or f"folders are nested over {DEPTH_LIMIT} deep: this is a part of it"
            )
            return
        try:
            opened = os.open(name, _FOLDER, dir_fd=folder)
        except OSError:
            # Gone meanwhile, made a link of, or not ours to read: nothing of it can be counted.
            continue
        try:
            if os.fstat(opened).st_dev == own.st_dev:
                walk(opened, tally, depth=depth + 1)
        finally:
            os.close(opened)


def walk_pod(
    place: FolderPlace, budget_s: float, *, clock: Callable[[], float] = time.monotonic
) -> PodFoldersReading:
    """Measure the folders of one pod; what is missing holds nothing."""
    began = clock()
    until = began + budget_s
    other = Tally(until, clock)
    troubles: list[str] = []
    logs = _logs(place.log_folder, other, until, clock, troubles)
    volumes = _volumes(f"{place.pod_folder}/volumes", until, clock, troubles)
    with contextlib.suppress(OSError):
        other.add(os.lstat(f"{place.pod_folder}/etc-hosts"))
    return PodFoldersReading(
        uid=place.uid,
        at=time.time_ns(),
        took_s=clock() - began,
        logs=tuple(logs),
        volumes=tuple(volumes),
        other_bytes=other.used_bytes,
        other_inodes=other.inodes,
        trouble="; ".join(troubles),
    )


def _logs(
    path: str, other: Tally, until: float, clock: Callable[[], float], troubles: list[str]
) -> list[FolderReading]:
    """Measure each container's log folder; files beside them go into `other`."""
    rows: list[FolderReading] = []
    folder = _open(path, troubles)
    if folder < 0:
        return rows
    try:
        for name in sorted(os.listdir(folder)):  # noqa: PTH208  # an open folder
            shown = _stat(name, folder)
            if shown is None:
                continue
            if not stat.S_ISDIR(shown.st_mode):
                other.add(shown)
                continue
            tally = Tally(until, clock)
            _measure(name, folder, tally)
            rows.append(FolderReading(name=name, used_bytes=tally.used_bytes, inodes=tally.inodes))
            if tally.trouble:
                troubles.append(f"logs of {name}: {tally.trouble}")
    finally:
        os.close(folder)
    return rows


def _volumes(path: str, until: float, clock: Callable[[], float], troubles: list[str]) -> list[FolderReading]:
    """Measure ``<path>/kubernetes.io~<kind>/<name>``; one that is a file system of its own is asked as a whole."""
    rows: list[FolderReading] = []
    folder = _open(path, troubles)
    if folder < 0:
        return rows
    try:
        home = os.fstat(folder).st_dev
        for plugin in sorted(os.listdir(folder)):  # noqa: PTH208  # an open folder
            if not plugin.startswith(PLUGIN_PREFIX):
                continue
            inside = _open(plugin, troubles, folder)
            if inside < 0:
                continue
            try:
                for name in sorted(os.listdir(inside)):  # noqa: PTH208  # an open folder
                    row = _volume(
                        plugin.removeprefix(PLUGIN_PREFIX), name, inside, home, Tally(until, clock), troubles
                    )
                    rows += [row] if row is not None else []
            finally:
                os.close(inside)
    finally:
        os.close(folder)
    return rows


def _volume(
    kind: str, name: str, inside: int, home: int, tally: Tally, troubles: list[str]
) -> FolderReading | None:
    opened = _open(name, troubles, inside)
    if opened < 0:
        return None
    try:
        if os.fstat(opened).st_dev != home:
            return _mounted(kind, name, os.statvfs(opened))
        walk(opened, tally)
    except OSError as error:
        tally.trouble = error.strerror or "can not be read"
    finally:
        os.close(opened)
    if tally.trouble:
        troubles.append(f"volume {name}: {tally.trouble}")
    return FolderReading(name=name, kind=kind, used_bytes=tally.used_bytes, inodes=tally.inodes)


def _mounted(kind: str, name: str, shown: os.statvfs_result) -> FolderReading:
    total, free = shown.f_blocks * shown.f_frsize, shown.f_bfree * shown.f_frsize
    inodes = shown.f_files - shown.f_ffree
    fs = FsUsage(
        at=time.time_ns(),
        capacity_bytes=total,
        available_bytes=shown.f_bavail * shown.f_frsize,
        used_bytes=total - free,
        inodes=shown.f_files,
        inodes_free=shown.f_ffree,
        inodes_used=inodes,
    )
    return FolderReading(name=name, kind=kind, used_bytes=total - free, inodes=inodes, memory=True, fs=fs)


def _measure(name: str, folder: int, tally: Tally) -> None:
    """Count one log folder: the files directly in it."""
    try:
        opened = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        return
    try:
        walk(opened, tally, below=False)
    except OSError as error:
        tally.trouble = error.strerror or "can not be read"
    finally:
        os.close(opened)


def _open(path: str, troubles: list[str], folder: int | None = None) -> int:
    """Open a folder; -1 for one that is not there, or that can not be read, which is said."""
    try:
        return os.open(path, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return -1
    except OSError as error:
        troubles.append(f"{path} can not be read: {error.strerror}")
        return -1


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
