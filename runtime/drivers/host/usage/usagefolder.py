"""Disk usage of a pod's folders: a walk like ``du``, bounded in time, that follows no link and crosses no mount.

Folders are opened by name below the open folder above them, so nothing that a container changes meanwhile leads
elsewhere. Devices of folders only are compared: on an overlay a file shows another device than the folder it is in.
However deep folders are nested, only some are open at a time. A part that cannot be counted makes a row ``at_least``.
"""

import contextlib
import os
import stat
import time
from collections.abc import Callable

import msgspec

from api.ports.usage import FolderPlace, FolderReading, PodFoldersReading
from api.usage import FsUsage

BLOCK = 512
CHECK_EVERY = 32
"""Entries between checks of the clock."""
FOLDERS_LIMIT = 250_000
"""Folders of one walk that are remembered to be entered yet; those beyond are not counted."""
LINKS_LIMIT = 250_000
"""Inodes with several names that are remembered; beyond, each name counts for its share of the inode."""
PLUGIN_PREFIX = "kubernetes.io~"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_HELD = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class Tally:
    """Blocks and inodes of one walk; an inode with several names counts once."""

    __slots__ = ("_at", "_clock", "_late", "_seen", "_shares", "_until", "inodes", "trouble", "used_bytes")

    def __init__(self, until: float, clock: Callable[[], float]) -> None:
        self.used_bytes = self.inodes = 0
        self.trouble = ""
        """Why this is only a part, empty when it is all."""
        self._seen: set[tuple[int, int]] = set()
        self._shares: dict[int, list[int]] = {}
        """By number of names: names that were met of inodes that are not remembered, and the bytes of those inodes."""
        self._until, self._clock, self._at, self._late = until, clock, 0, False

    def add(self, shown: os.stat_result) -> None:
        """Count one thing on disk."""
        used_bytes = shown.st_blocks * BLOCK
        if shown.st_nlink > 1 and not stat.S_ISDIR(shown.st_mode):
            key = (shown.st_dev, shown.st_ino)
            if key in self._seen:
                return
            if len(self._seen) >= LINKS_LIMIT:
                share = self._shares.setdefault(shown.st_nlink, [0, 0])
                share[0] += 1
                share[1] += used_bytes
                return
            self._seen.add(key)
        self.used_bytes += used_bytes
        self.inodes += 1

    def miss(self, why: str) -> None:
        """Note that something cannot be counted."""
        self.trouble = self.trouble or f"{why}: this is a part of it"

    def over(self) -> bool:
        """Return whether the time is up; then the result is partial."""
        self._at += 1
        if self._at % CHECK_EVERY == 0 and not self._late and self._clock() > self._until:
            self._late = True
            self.miss("too much to count in time")
        return self._late

    def row(self, name: str, kind: str = "") -> FolderReading:
        """Return what was counted."""
        return FolderReading(
            name=name,
            kind=kind,
            used_bytes=self.used_bytes + sum(used // names for names, (_, used) in self._shares.items()),
            inodes=self.inodes + sum(met // names for names, (met, _) in self._shares.items()),
            at_least=bool(self.trouble),
        )


def scan(folder: int, tally: Tally, most: int) -> list[str]:
    """Count an open folder and the files directly in it; return the names of the folders in it, no more than `most`."""
    folders: list[str] = []
    tally.add(os.fstat(folder))
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if tally.over():
                    break
                try:
                    if not entry.is_dir(follow_symlinks=False):
                        tally.add(entry.stat(follow_symlinks=False))
                    elif len(folders) < most:
                        folders.append(entry.name)
                    else:
                        tally.miss("too many folders")
                except FileNotFoundError:
                    continue
    except OSError as error:
        tally.miss(f"a folder in it cannot be read ({error.strerror})")
    return folders


class OpenFolder(msgspec.Struct):
    """A folder on the path of a walk: its name in the one above, its inode, and its entries still to visit."""

    name: str
    inode: int
    folders: list[str]


class Walk:
    """Counts what is in an open folder and below it on its device, itself included.

    Open are the folder where it began and the one where it is. The way back up is ``..``, and leads to the inode that was
    left; from a folder that was moved elsewhere meanwhile, the way back is found by name from the top.
    """

    def __init__(self, top: int, tally: Tally) -> None:
        shown = os.fstat(top)
        self._top, self._device, self._tally = top, shown.st_dev, tally
        self._trail = [OpenFolder("", shown.st_ino, scan(top, tally, FOLDERS_LIMIT))]
        self._waiting = len(self._trail[0].folders)
        """Folders to be entered yet, of all levels."""

    def run(self) -> None:
        """Count all that is below the folder, until the time is up."""
        here = os.open(".", _HELD, dir_fd=self._top)
        try:
            while self._waiting and not self._tally.over():
                if self._trail[-1].folders:
                    new = self._down(here, self._trail[-1].folders.pop())
                else:
                    self._trail.pop()
                    new = self._up(here)
                if new >= 0:
                    os.close(here)
                    here = new
        finally:
            os.close(here)

    def _down(self, here: int, name: str) -> int:
        """Count a folder; return it open when there are others in it, else -1."""
        self._waiting -= 1
        below = self._enter(here, name)
        if below < 0:
            return -1
        folders = scan(below, self._tally, FOLDERS_LIMIT - self._waiting)
        if not folders:
            os.close(below)
            return -1
        self._trail.append(OpenFolder(name, os.fstat(below).st_ino, folders))
        self._waiting += len(folders)
        return below

    def _up(self, here: int) -> int:
        """Open the last folder of the trail, which `here` was in; what cannot be found again is taken off the trail."""
        with contextlib.suppress(OSError):
            above = os.open("..", _HELD, dir_fd=here)
            if self._is_at(above, self._trail[-1]):
                return above
            os.close(above)
        self._tally.miss("folders were moved while they were counted")
        found = os.open(".", _HELD, dir_fd=self._top)
        for depth, level in enumerate(self._trail[1:], 1):
            below = -1 if self._tally.over() else self._enter(found, level.name)
            if below < 0 or not self._is_at(below, level):
                self._waiting -= sum(len(lost.folders) for lost in self._trail[depth:])
                del self._trail[depth:]
                if below >= 0:
                    os.close(below)
                break
            os.close(found)
            found = below
        return found

    def _enter(self, parent: int, name: str) -> int:
        """Open a folder of this device; -1 for one that is gone, that something else took the place of, or that is closed."""
        try:
            opened = os.open(name, _FOLDER, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            return -1
        except OSError as error:
            self._tally.miss(f"a folder in it cannot be read ({error.strerror})")
            return -1
        if os.fstat(opened).st_dev != self._device:
            os.close(opened)
            return -1
        return opened

    def _is_at(self, opened: int, level: OpenFolder) -> bool:
        shown = os.fstat(opened)
        return (shown.st_dev, shown.st_ino) == (self._device, level.inode)


def walk_pod(
    place: FolderPlace, budget_s: float, *, clock: Callable[[], float] = time.monotonic
) -> PodFoldersReading:
    """Measure the folders of one pod; a missing one counts 0."""
    began = clock()
    until = began + budget_s
    other = Tally(until, clock)
    troubles: list[str] = []
    try:
        logs = _logs(place.log_folder, other, until, clock, troubles)
        volumes = _volumes(f"{place.pod_folder}/volumes", until, clock, troubles)
    except OSError as error:
        why = f"{error.filename or 'its folders'} cannot be read: {error.strerror}"
        return PodFoldersReading(uid=place.uid, at=time.time_ns(), measured=False, trouble=why)
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
    """Measure the files directly in each container's log folder; other files go into `other`."""
    rows: list[FolderReading] = []
    with contextlib.ExitStack() as opened:
        folder = _open(path, opened)
        for name in _names(folder):
            shown = _stat(name, folder)
            if shown is None:
                continue
            if not stat.S_ISDIR(shown.st_mode):
                other.add(shown)
                continue
            tally = Tally(until, clock)
            _measure(name, folder, tally)
            rows.append(tally.row(name))
            if tally.trouble:
                troubles.append(f"logs of {name}: {tally.trouble}")
    return rows


def _volumes(path: str, until: float, clock: Callable[[], float], troubles: list[str]) -> list[FolderReading]:
    """Measure ``<path>/kubernetes.io~<kind>/<name>``; one that is a file system of its own is asked as a whole.

    Of the time that is left each has an equal part, and what it does not need is the others'.
    """
    rows: list[FolderReading] = []
    with contextlib.ExitStack() as opened:
        folder = _open(path, opened)
        home = os.fstat(folder).st_dev if folder >= 0 else -1
        places = [
            (plugin.removeprefix(PLUGIN_PREFIX), name, inside)
            for plugin in _names(folder)
            if plugin.startswith(PLUGIN_PREFIX)
            for inside in (_open(plugin, opened, folder),)
            for name in _names(inside)
        ]
        for at, (kind, name, inside) in enumerate(places):
            now = clock()
            tally = Tally(now + (until - now) / (len(places) - at), clock)
            row = _volume(kind, name, inside, home, tally)
            rows += [row] if row is not None else []
            if tally.trouble:
                troubles.append(f"volume {name}: {tally.trouble}")
    return rows


def _volume(kind: str, name: str, inside: int, home: int, tally: Tally) -> FolderReading | None:
    try:
        opened = os.open(name, _FOLDER, dir_fd=inside)
    except FileNotFoundError:
        return None
    except OSError as error:
        tally.miss(f"cannot be read ({error.strerror})")
        return tally.row(name, kind)
    try:
        if os.fstat(opened).st_dev != home:
            return _mounted(kind, name, os.statvfs(opened))
        Walk(opened, tally).run()
    except OSError as error:
        tally.miss(f"cannot be read ({error.strerror})")
    finally:
        os.close(opened)
    return tally.row(name, kind)


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
    except FileNotFoundError:
        return
    except OSError as error:
        tally.miss(f"cannot be read ({error.strerror})")
        return
    try:
        scan(opened, tally, FOLDERS_LIMIT)
    finally:
        os.close(opened)


def _open(path: str, opened: contextlib.ExitStack, folder: int | None = None) -> int:
    """Open a folder of the agent's own, until the end of `opened`; -1 for one that is not there. Raises OSError."""
    try:
        fd = os.open(path, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return -1
    opened.callback(os.close, fd)
    return fd


def _names(folder: int) -> list[str]:
    """Return the entries of an open folder, by name; empty for -1."""
    return sorted(os.listdir(folder)) if folder >= 0 else []


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
