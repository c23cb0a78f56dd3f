"""Reads a container's log for a reader who may see that log and nothing else.

A container that can write to the log folder may plant symbolic links, pipes and endless lines there. So nothing below
the pod's own log folder is opened through a link, only regular files are read, and memory stays bounded. `open_log` is
an `api.shown.introspection.LogReader`.

Following watches the folder, not the file: rotation puts a new file in its place. It ends when the container does not
run any more and everything is read, or at once when the asker hangs up. A file that lost its name is read to its end
before the next one is begun, so nothing is lost and nothing comes twice.
"""

import contextlib
import ctypes
import errno
import os
import select
import stat
import time
from collections.abc import Callable, Generator, Iterator

import msgspec

from api.errors import DeniedError, NotFoundError, UnavailableError
from api.shown.introspection import LogQuery, LogTarget
from runtime.drivers.host.logs.crilog import (
    HEADER_LIMIT_BYTES,
    Joiner,
    LineStarts,
    LogRecord,
    Splitter,
    nanoseconds,
)
from runtime.drivers.host.logs.logfolder import age_of, files_of, is_rotated

CHUNK_BYTES = 64 << 10
CHECK_S = 1.0
"""While following: how often to check for a rotation or an end without a notification."""
POLL_S = 0.2
"""The same on a machine that has no inotify watch left for us."""
BURST_S = 0.02
"""Pause after new lines while following."""
LATE_S = 0.1
"""How long the writer of a rotated log may take to write down what it held when it began with the new file."""
GAP_S = 2.0
"""How long to wait for the live file of a running container: between two steps of a rotation there is none."""
COMPARED_BYTES = 4096
WAITING_S = 1.0
"""How long one stream's lines wait for the other's unfinished line while following."""
SEARCH_LIMIT_BYTES = 1 << 20
"""How far to search back for the beginning of a line whose end is among the requested ones."""

_FOLLOW_MASK = (
    0x00000002 | 0x00000080 | 0x00000100 | 0x00000200 | 0x00000400
)  # modify, moved to, create, delete, self
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC


def open_log(
    target: LogTarget, query: LogQuery, *, running: Callable[[], bool], hangup: int = -1
) -> "ContainerLog":
    """Open a container's log; see `api.shown.introspection.LogReader`."""
    folder, name = _open_folder(target)
    try:
        file = _open_live(folder, name, target, hangup)
    except BaseException:
        os.close(folder)
        raise
    return ContainerLog(query, _Opened(target.path, folder, name, file), running=running, hangup=hangup)


class ContainerLog:
    """An opened log. Iterate once, then close."""

    def __init__(
        self, query: LogQuery, opened: "_Opened", *, running: Callable[[], bool], hangup: int
    ) -> None:
        self._path, self._query, self._running, self._hangup = opened.path, query, running, hangup
        self._folder, self._name, self._file = opened.folder, opened.name, opened.file
        self._watch = -1
        self._offset = 0
        self._skip: dict[bytes, int] = {}
        self._since = query.since_ns
        self._splitter = Splitter()
        self._joiner = Joiner(timestamps=query.timestamps)
        self._waiting_since: float | None = None

    def close(self) -> None:
        """Give back the descriptors."""
        for field in ("_file", "_watch", "_folder"):
            descriptor = getattr(self, field)
            setattr(self, field, -1)
            if descriptor >= 0:
                os.close(descriptor)

    def __iter__(self) -> Iterator[bytes]:
        """Return the pieces of the answer, cut at the query's limit."""
        left = self._query.limit_bytes
        for piece in self._pieces():
            if left is None:
                yield piece
                continue
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    def _pieces(self) -> Iterator[bytes]:
        if self._query.tail is not None:
            self._offset, self._skip = find_tail(self._file, self._query.tail)
        if self._query.follow:
            self._watch = _watch_folder(self._folder)
            yield from self._follow()
        else:
            # Not a moving target: what is written while we read is for the next asker.
            yield from self._read(os.fstat(self._file).st_size)
        yield from self._emit(self._splitter.end())
        if last := b"".join(self._joiner.end()):
            yield last

    def _read(self, end: int | None) -> Iterator[bytes]:
        """Read up to `end`, or to the file's end."""
        while end is None or self._offset < end:
            wanted = CHUNK_BYTES if end is None else min(CHUNK_BYTES, end - self._offset)
            try:
                data = os.pread(self._file, wanted, self._offset)
            except OSError as error:
                raise UnavailableError(f"cannot read the log {self._path}: {error.strerror}") from None
            if not data:
                return
            self._offset += len(data)
            yield from self._emit(self._splitter.feed(data))

    def _emit(self, records: Iterator[LogRecord]) -> Iterator[bytes]:
        # One piece of output for each chunk of input: a chunk of HTTP for each line would cost more than the line.
        if out := b"".join(
            piece for record in records if self._wanted(record) for piece in self._joiner.feed(record)
        ):
            yield out

    def _wanted(self, record: LogRecord) -> bool:
        if left := self._skip.get(record.stream, 0):
            self._skip[record.stream] = left - record.whole
            return False
        if self._since is not None:
            at = nanoseconds(record.stamp)
            if at is None or at < self._since:
                return False
            self._since = None  # The clock of a log goes forward: from here on everything is wanted.
        return True

    def _follow(self) -> Iterator[bytes]:
        while True:
            # In this order: what was written before the container ended is there once we know that it ended.
            running = self._running()
            before = self._offset
            yield from self._read(None)
            moved = self._offset != before
            if self._rotated():
                if (yield from self._move_on(running=running)):
                    continue
            elif os.fstat(self._file).st_size < self._offset:
                # Cut to nothing in place, as some rotations do.
                yield from self._emit(self._splitter.end())
                self._offset = 0
                continue
            yield from self._break_line()
            if not running and not moved:
                return
            # After something came, a short pause: a container that writes each line by itself wakes us 50 times a second
            # at most, not once a line.
            if self._gone(BURST_S if moved and running else 0) or (running and not self._wait()):
                return

    def _break_line(self) -> Iterator[bytes]:
        """Let lines that wait too long for the other stream's unfinished line go first."""
        if not self._joiner.waiting:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = time.monotonic()
        elif time.monotonic() - self._waiting_since >= WAITING_S:
            self._waiting_since = None
            yield b"".join(self._joiner.give_up())

    def _rotated(self) -> bool:
        try:
            named = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return False  # Between the rename and the new file, or removed: the open file stays readable.
        mine = os.fstat(self._file)
        return (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino)

    def _move_on(self, *, running: bool) -> Generator[bytes, None, bool]:
        """Finish a file that lost its name and open the one after it; return whether there is one yet."""
        try:
            file = _open_file(self._folder, self._successor(), self._path)
        except NotFoundError:
            return False
        size = os.fstat(file).st_size
        if running and not size:
            # The new file is made before the writer lets go of the old one: until it has something in it, that one counts.
            os.close(file)
            return False
        # What the writer still held of the old file comes within a moment of the first line in the new one.
        self._gone(LATE_S)
        yield from self._read(None)
        yield from self._emit(self._splitter.end())
        self._offset = size if self._has_as_end(file, size) else 0
        os.close(self._file)
        self._file = file
        return True

    def _successor(self) -> str:
        """Return the name of the file after ours: the live one, or one that was rotated since when we are slow.

        Rotated files go back in time as far as they are not compressed; a follower that falls further behind misses
        what is between.
        """
        mine = os.fstat(self._file)
        found: list[tuple[tuple[str, int], str, os.stat_result]] = []
        for name in files_of(self._folder, self._name):
            if is_rotated(self._name, name) and not name.endswith(".gz"):
                with contextlib.suppress(FileNotFoundError):
                    shown = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
                    found.append((age_of(self._name, name), name, shown))
        found.sort(key=lambda entry: entry[0])
        for place, (_, _, shown) in enumerate(found):
            if (shown.st_dev, shown.st_ino) == (mine.st_dev, mine.st_ino):
                found = found[place + 1 :]
                break
        else:
            # Ours is compressed by now, or removed: what was written after it comes after it.
            found = [entry for entry in found if entry[2].st_mtime_ns > mine.st_mtime_ns]
        return found[0][1] if found else self._name

    def _has_as_end(self, file: int, size: int) -> bool:
        """Return whether a new file has only the last lines of ours: the truncated log of an ended container."""
        start = os.fstat(self._file).st_size - size
        if not size or start < 0:
            return False
        return os.pread(file, COMPARED_BYTES, 0) == os.pread(self._file, min(size, COMPARED_BYTES), start)

    def _gone(self, pause_s: float) -> bool:
        """Return whether the client disconnected, after a pause that only this ends early."""
        return bool(self._poll(pause_s, watch=False))

    def _wait(self) -> bool:
        """Wait until there may be more; False when the asker hung up."""
        ready = self._poll(CHECK_S if self._watch >= 0 else POLL_S, watch=True)
        if self._hangup >= 0 and self._hangup in ready:
            return False
        if self._watch in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._watch, 16 << 10)  # Which file changed does not matter: ours is checked.
        return True

    def _poll(self, timeout_s: float, *, watch: bool) -> set[int]:
        poll = select.poll()
        if self._hangup >= 0:
            poll.register(self._hangup, select.POLLRDHUP)
        if watch and self._watch >= 0:
            poll.register(self._watch, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(timeout_s * 1000)}


def find_tail(file: int, lines: int) -> tuple[int, dict[bytes, int]]:
    """Return where the last `lines` lines begin and how many whole lines per stream to skip from there.

    Reads blocks from the end; memory does not depend on the length of lines. A last line without newline is shown, not
    counted.
    """
    end = os.fstat(file).st_size
    if not lines:
        return end, {}
    starts = LineStarts(lines, end)
    ahead = b""
    position = end
    complete = False  # the line that begins after the next newline we meet is not the unterminated one
    while position > 0 and not starts.done:
        if not starts.left and starts.start - position > SEARCH_LIMIT_BYTES:
            break
        size = min(CHUNK_BYTES, position)
        position -= size
        block = os.pread(file, size, position)
        data = block + ahead
        at = block.rfind(b"\n")
        while at >= 0 and not starts.done:
            if complete:
                starts.feed(position + at + 1, data[at + 1 : at + 1 + HEADER_LIMIT_BYTES].partition(b"\n")[0])
            elif position + at + 1 < end:
                starts.start = position + at + 1
            complete = True
            at = block.rfind(b"\n", 0, at)
        ahead = data[:HEADER_LIMIT_BYTES]
    if position == 0 and not starts.done and complete:
        starts.feed(0, ahead.partition(b"\n")[0])
    if starts.left:
        return 0, {}
    return starts.start, starts.skip


class _Opened(msgspec.Struct, frozen=True):
    path: str
    folder: int
    name: str
    file: int


class _Place(msgspec.Struct, frozen=True):
    folder: str
    parts: tuple[str, ...]


def _place(target: LogTarget) -> _Place:
    root, path = os.path.normpath(target.root), target.path
    parts = tuple(path[len(root) + 1 :].split("/")) if path.startswith(root + "/") else ()
    if not parts or not root.startswith("/") or any(part in {"", ".", ".."} for part in parts):
        raise DeniedError(f"the log {path} is not inside its pod's log folder {root}; it is not read")
    return _Place(root, parts)


def _open_folder(target: LogTarget) -> tuple[int, str]:
    """Walk from the pod's folder to the file's, opening no symbolic link on the way."""
    place = _place(target)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # The folder of all pods' logs may be the operator's own link; the pod's folder and all below may not.
        folder = os.open(place.folder, flags)
    except OSError as error:
        raise _failure(target.path, error) from None
    for part in place.parts[:-1]:
        try:
            below = os.open(part, flags, dir_fd=folder)
        except OSError as error:
            raise _failure(target.path, error) from None
        finally:
            os.close(folder)
        folder = below
    return folder, place.parts[-1]


def _open_live(folder: int, name: str, target: LogTarget, hangup: int) -> int:
    """Open the live file, waiting for it while a rotation may have taken the old one away just now."""
    until = time.monotonic() + GAP_S
    while True:
        try:
            return _open_file(folder, name, target.path)
        except NotFoundError:
            rotated = any(is_rotated(name, entry) for entry in files_of(folder, name))
            if not (target.running and rotated) or time.monotonic() >= until:
                raise
        poll = select.poll()
        if hangup >= 0:
            poll.register(hangup, select.POLLRDHUP)
        if poll.poll(BURST_S * 1000):
            raise NotFoundError(f"there is no log {target.path}, and no reader waits for it")


def _open_file(folder: int, name: str, path: str) -> int:
    try:
        # Non-blocking: opening a pipe must not wait for its writer.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NOCTTY | _NONBLOCK_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise _failure(path, error) from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise DeniedError(f"the log {path} is not a regular file; it is not read")
    return file


def _failure(path: str, error: OSError) -> DeniedError | NotFoundError | UnavailableError:
    if error.errno == errno.ENOENT:
        return NotFoundError(f"there is no log {path}: the container wrote none yet, or it was removed")
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return DeniedError(f"the log {path} leads through a symbolic link or a file; it is not read")
    if error.errno in {errno.ENXIO, errno.EACCES, errno.EPERM}:
        return DeniedError(f"the log {path} may not be read: {error.strerror}")
    return UnavailableError(f"cannot open the log {path}: {error.strerror}")


def _watch_folder(folder: int) -> int:
    """Return an inotify descriptor that wakes on changes in `folder`, or -1 when the machine has none left."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch: int = libc.inotify_init1(_NONBLOCK_CLOEXEC)
    if watch < 0:
        return -1
    # Through the open descriptor: the name may mean another folder by now.
    if libc.inotify_add_watch(watch, f"/proc/self/fd/{folder}".encode(), _FOLLOW_MASK) < 0:
        os.close(watch)
        return -1
    return watch
