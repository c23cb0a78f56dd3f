"""Watches manifests by inotify: the stream ``manifests.changes``.

It has a thread of its own: a folder on the network may hang, and nothing else must wait for it. A file is announced when
its writer closed it or when it was renamed, linked, moved or removed, never while it is being written. The stream is a hint: what it cannot say (overflow, the folder itself came
or went) it says by announcing the manifest path itself, which means no more than "look again".
"""

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator

from api.errors import Failure, FailureKind
from api.manifestname import why_ignored
from api.messages import Message
from api.ports.manifests import FileSettled
from api.ports.port import Undo
from runtime.net.loop import Loop

CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE = 0x8, 0x40, 0x80, 0x100
DELETE, DELETE_SELF, MOVE_SELF = 0x200, 0x400, 0x800
Q_OVERFLOW, IGNORED = 0x4000, 0x8000
ONLYDIR = 0x01000000

ENTRIES = CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE
ITSELF = DELETE_SELF | MOVE_SELF | IGNORED
HEADER = struct.Struct("iIII")
BUFFER_BYTES = 1 << 16
CHECK_S = 20.0
"""How often it is made sure that what is watched is still what the path means (a parent may have been moved)."""


class ManifestChanges:
    """The stream ``manifests.changes`` of one manifest path, a folder or a file, which may not exist yet."""

    name = "manifests.changes"

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)  # noqa: PTH100  symbolic links stay as the user wrote them

    def open(self, push: Callable[[Message], None], ended: Callable[[Failure | None], None]) -> Undo:
        """Begin to feed `push`; every change after the return is received."""
        try:
            watch = InotifyWatch(self._path, push, ended)
        except OSError as error:
            ended(failure(self._path, error))
            return lambda: None
        watch.start()
        return watch.stop


class InotifyWatch:
    """One open stream: an inotify instance and the loop that reads it."""

    def __init__(
        self, path: str, push: Callable[[Message], None], ended: Callable[[Failure | None], None]
    ) -> None:
        self._path = path
        self._folder, self._name = os.path.split(path)
        self._push, self._ended = push, ended
        self._stopped = False
        self._problem: Failure | None = None
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._watched: dict[int, str] = {}
        self._identity: object = None
        try:
            self._arm()
            self._loop = Loop("manifest-changes", self._over)
        except OSError:
            os.close(self._inotify)
            raise

    def start(self) -> None:
        """Begin to read events."""
        self._loop.submit(self._begin)

    def stop(self) -> None:
        """End the thread; may be called more than once and from any thread."""
        self._stopped = True
        self._loop.stop(0.0)

    def _begin(self) -> None:
        self._loop.watch(self._inotify, lambda _: self._or_end(self._read))
        self._loop.after(CHECK_S, self._check)

    def _check(self) -> None:
        self._loop.after(CHECK_S, self._check)
        self._or_end(self._compare)

    def _compare(self) -> None:
        if self._meaning() != self._identity:
            self._arm()
            self._push(FileSettled(path=self._path))

    def _or_end(self, step: Callable[[], None]) -> None:
        """Take a step; what the kernel refuses ends the stream."""
        try:
            step()
        except OSError as error:
            self._problem = failure(self._path, error)
            self._loop.stop(0.0)

    def _over(self) -> None:
        os.close(self._inotify)
        if not self._stopped:
            self._ended(self._problem)

    def _read(self) -> None:
        try:
            data = os.read(self._inotify, BUFFER_BYTES)
        except BlockingIOError:
            return
        told: dict[str, None] = {}
        rearm = False
        for watch, mask, name in events(data):
            if mask & Q_OVERFLOW:
                told[self._path] = None
            elif watch in self._watched:
                path, moved = self._meant(self._watched[watch], mask, name)
                rearm |= moved
                if path:
                    told[path] = None
        if rearm:
            self._arm()
        for path in told:
            self._push(FileSettled(path=path))

    def _meant(self, folder: str, mask: int, name: str) -> tuple[str, bool]:
        """Return which path an event announces, empty for none, and whether the watches must be set again."""
        if mask & ITSELF:
            return self._path, True
        if folder == self._path:
            return self._entry(mask, name), False
        if folder != self._folder:
            # An ancestor, watched because the path does not exist yet: only the next folder on the way matters.
            onward = name == os.path.relpath(self._path, folder).split("/")[0]
            return (self._path, True) if onward and mask & (CREATE | MOVED_TO) else ("", False)
        if name != self._name or not settled(self._path, mask, self._path not in self._watched.values()):
            return "", False
        # It is the manifest file itself, or the manifest folder (a link to it) came, went or was exchanged.
        return self._path, bool(mask & ~CLOSE_WRITE)

    def _entry(self, mask: int, name: str) -> str:
        path = f"{self._path}/{name}"
        if name.startswith(".."):
            # Kubernetes' own atomic writer exchanges the link ..data, and with it what every file means.
            return self._path if mask & MOVED_TO else ""
        return "" if why_ignored(name) or not settled(path, mask, False) else path

    def _meaning(self) -> object:
        """Return what the path means now, to be compared with what is watched."""
        try:
            shown = os.stat(self._path)  # noqa: PTH116
        except OSError:
            return None
        return shown.st_dev, shown.st_ino if stat.S_ISDIR(shown.st_mode) else 0

    def _arm(self) -> None:
        """Watch the folder; also the nearest existing folder above, where the folder has no event of its own end.

        Repeated until nothing changed underneath. Raises OSError.
        """
        while True:
            self._identity = self._meaning()
            wanted = self._wanted()
            for watch in [watch for watch, path in self._watched.items() if path not in wanted]:
                self._forget(watch)
            watched: dict[int, str] = {}
            for path in wanted:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    watched[self._add(path)] = path
            for watch in self._watched.keys() - watched.keys():
                self._forget(watch)
            self._watched = watched
            if self._meaning() == self._identity and self._wanted() == wanted and len(watched) > 0:
                return

    def _wanted(self) -> tuple[str, ...]:
        if os.path.isdir(self._path):  # noqa: PTH112
            # A folder has an event of its own end; a link to a folder does not.
            linked = os.path.islink(self._path)  # noqa: PTH114
            return (self._path, self._folder) if linked else (self._path,)
        above = self._folder
        while above != "/" and not os.path.isdir(above):  # noqa: PTH112
            above = os.path.dirname(above)  # noqa: PTH120
        return (above,)

    def _add(self, path: str) -> int:
        mask = ENTRIES | DELETE_SELF | MOVE_SELF | ONLYDIR
        return self._checked(self._libc.inotify_add_watch(self._inotify, os.fsencode(path), mask))

    def _forget(self, watch: int) -> None:
        # A watch whose folder is gone is gone already.
        self._libc.inotify_rm_watch(self._inotify, watch)
        self._watched.pop(watch, None)

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def settled(path: str, mask: int, folder_counts: bool) -> bool:
    """Return whether an event leaves `path` complete.

    A file that was merely created is still being written, and its writer's close follows; a link is complete as it
    is made, and so is a folder (`folder_counts`).
    """
    if not mask & CREATE or mask & ~CREATE & (ENTRIES):
        return bool(mask & ENTRIES)
    try:
        shown = os.lstat(path)
    except OSError:
        return False
    linked = stat.S_ISLNK(shown.st_mode) or (stat.S_ISREG(shown.st_mode) and shown.st_nlink > 1)
    return linked or (folder_counts and stat.S_ISDIR(shown.st_mode))


def events(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield watch, mask and name of each event in what inotify gave."""
    at = 0
    while at < len(data):
        watch, mask, _cookie, length = HEADER.unpack_from(data, at)
        at += HEADER.size
        yield watch, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length


def failure(path: str, error: OSError) -> Failure:
    """Return why changes cannot be watched and what can be done; periodic readings continue."""
    why = os.strerror(error.errno) if error.errno else type(error).__name__
    hint = ""
    if error.errno in (errno.EMFILE, errno.ENOSPC):
        hint = "; raise the sysctls fs.inotify.max_user_instances and fs.inotify.max_user_watches"
    return Failure(kind=FailureKind.UNAVAILABLE, message=f"changes of {path} cannot be watched: {why}{hint}")
