"""The port ``logfiles``: finds container logs that are too big, rotates them, and finds links that lead nowhere.

Rotation of a live log, in this order, so that a crash at any point loses no line:

```text
remove *.tmp and uncompressed files that have a .gz  ->  keep the newest max_files - 2  ->  compress each uncompressed one
->  rename the live file to <log>.<YYYYMMDD-HHMMSS>          (then the runtime is asked to open the live name anew)
```

Compression is streamed: memory does not depend on the size of a log, and zlib lets other threads run meanwhile.
"""

import gzip
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from api.errors import ConflictError, NotFoundError, RejectedError
from api.ids import Uid
from api.ports.call import Done
from api.ports.logs import (
    ROTATED,
    DeadLink,
    DeadLinks,
    FindDeadLinks,
    FindLogs,
    LogPlace,
    LogRotated,
    LogSeen,
    LogsFound,
    RemoveDeadLink,
    RestoreLog,
    RotateLog,
    check_link_name,
    place_of,
)
from api.ports.podfiles import uid_of_log_folder
from runtime.drivers.host.logs.logfolder import age_of, files_of, is_rotated, log_folder, open_regular, remove
from runtime.drivers.host.oserror import translate

CHUNK_BYTES = 256 << 10
COMPRESSION = 4
"""Two thirds of the time of gzip's own default, for a few percent of size."""
SETTLED_S = 2.0
"""How long an ended container's log must be unchanged before it is cut: what its writer still held is in it then."""
LINE_SEARCH_BYTES = 1 << 20
UNREADABLE_LIMIT = 10


class LogFiles:
    """The port ``logfiles`` over the root of all pods' logs and the folder of links, which may be missing."""

    name = "logfiles"

    def __init__(
        self, logs_root: Path, links_root: Path, local_time: Callable[[], time.struct_time] = time.localtime
    ) -> None:
        self._logs, self._links, self._local_time = logs_root, links_root, local_time
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        """Logs that are being rotated, by path: a call that timed out continues."""

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call on log files; raises an `OperatingError`. Local disks have no use for a deadline."""
        match call:
            case FindLogs(limit_bytes=limit_bytes):
                return find_logs(str(self._logs), limit_bytes)
            case RotateLog():
                return self._rotate(call)
            case RestoreLog():
                return self._restore(call)
            case FindDeadLinks(limit=limit):
                return self._find_dead_links(limit)
            case RemoveDeadLink():
                return self._remove_dead_link(call)
            case _:
                raise TypeError(f"the port logfiles takes no {type(call).__name__}")

    # ------------------------------------------------------------ rotation

    def _rotate(self, call: RotateLog) -> LogRotated:
        place = place_of(str(self._logs), call.path)
        if call.max_files < 2:
            raise RejectedError(f"a log cannot be rotated into {call.max_files} files: 2 at least")
        with self._lock:
            if call.path in self._busy:
                raise ConflictError(f"the log {call.path} is being rotated already")
            self._busy.add(call.path)
        try:
            with log_folder(self._logs, place) as folder:
                return self._rotate_in(folder, place, call)
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no log {call.path}, or it was removed just now") from error
        except OSError as error:
            raise translate(error, f"could not rotate the log {call.path}") from error
        finally:
            with self._lock:
                self._busy.discard(call.path)

    def _rotate_in(self, folder: int, place: LogPlace, call: RotateLog) -> LogRotated:
        live = open_regular(folder, place.name, call.path)
        try:
            older = tidy(folder, place.name, call.max_files - 2)
            trouble = ""
            for name in older:
                if not name.endswith(".gz"):
                    trouble = compress_in_place(folder, name) or trouble
            name = self._free_name(folder, place.name)
            if call.keep_bytes:
                cut_off(folder, place.name, name, live, call)
                name += ".gz"
            else:
                os.rename(place.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(live)
        return LogRotated(rotated=f"{os.path.dirname(call.path)}/{name}", trouble=trouble)  # noqa: PTH120

    def _free_name(self, folder: int, live: str) -> str:
        """Return a name for the rotated file that sorts behind all others: a second has room for one, clocks are set back."""
        stamp = time.strftime("%Y%m%d-%H%M%S", self._local_time())
        taken = [age_of(live, name) for name in files_of(folder, live) if is_rotated(live, name)]
        newest, number = max(taken, default=("", 0))
        return f"{live}.{stamp}" if stamp > newest else f"{live}.{newest}-{number + 1}"

    def _restore(self, call: RestoreLog) -> Done:
        place = place_of(str(self._logs), call.path)
        rotated = call.rotated.removeprefix(call.path + ".")
        if rotated == call.rotated or ROTATED.fullmatch(rotated) is None:
            raise RejectedError(f"{call.rotated} is not a rotated file of the log {call.path}")
        name = f"{place.name}.{rotated}"
        try:
            with log_folder(self._logs, place) as folder:
                try:
                    # A rename would take the place of a file that the runtime made in the meantime.
                    os.link(name, place.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError:
                    return Done()
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError as error:
            raise NotFoundError(
                f"there is no rotated log {call.rotated} any more, or not its folder"
            ) from error
        except OSError as error:
            raise translate(error, f"could not take back the rotation of {call.path}") from error
        return Done()

    # ------------------------------------------------------------ links

    def _find_dead_links(self, limit: int) -> DeadLinks:
        try:
            found = sorted(self._dead_links(limit), key=lambda link: link.name)
        except OSError as error:
            raise translate(error, f"could not read the links to logs in {self._links}") from error
        return DeadLinks(links=tuple(found))

    def _dead_links(self, limit: int) -> Iterator[DeadLink]:
        try:
            entries = os.scandir(self._links)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                uid, target = self._where(entry) if entry.name.endswith(".log") else (None, "")
                if uid is not None and not os.path.lexists(target):
                    yield DeadLink(name=entry.name, target=target, uid=uid)
                    limit -= 1
                if limit <= 0:
                    return

    def _where(self, entry: os.DirEntry[str]) -> tuple[Uid | None, str]:
        """Return pod and target of a link to a container's log, no pod for anything else."""
        try:
            target = os.fspath(Path(entry.path).readlink()) if entry.is_symlink() else ""
            return place_of(str(self._logs), target).uid, target
        except (RejectedError, FileNotFoundError):
            return None, ""

    def _remove_dead_link(self, call: RemoveDeadLink) -> Done:
        check_link_name(call.name)
        path = self._links / call.name
        try:
            if os.fspath(path.readlink()) == call.target and not os.path.lexists(call.target):
                path.unlink()
        except FileNotFoundError:
            return Done()
        except OSError as error:
            raise translate(error, f"could not remove the link {path}") from error
        return Done()


# ---------------------------------------------------------------- scan


def find_logs(root: str, limit_bytes: int) -> LogsFound:
    """Scan the logs of all pods once. Raises an `OperatingError` when the root itself cannot be read."""
    logs: list[LogSeen] = []
    unreadable: list[str] = []
    try:
        pods = folders_in(root)
    except FileNotFoundError:
        return LogsFound()
    except OSError as error:
        raise translate(error, f"could not read the pods' logs in {root}") from error
    for pod in pods:
        uid = uid_of_log_folder(pod)
        if uid is None:
            continue
        try:
            for container in folders_in(f"{root}/{pod}"):
                logs += look_at(f"{root}/{pod}/{container}", uid, container, limit_bytes)
        except FileNotFoundError:
            # Removed during the scan.
            continue
        except OSError as error:
            unreadable.append(f"{error.filename or pod}: {error.strerror}")
    logs.sort(key=lambda log: log.path)
    return LogsFound(logs=tuple(logs), unreadable=tuple(sorted(unreadable)[:UNREADABLE_LIMIT]))


def folders_in(path: str) -> list[str]:
    """Return the names of the folders in a folder. Raises OSError."""
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def look_at(path: str, uid: Uid, container: str, limit_bytes: int) -> list[LogSeen]:
    """Return the live logs of one container that are too big, or the newest one when it is missing."""
    seen: list[LogSeen] = []
    newest, newest_lives, empty = -1, False, True
    with os.scandir(path) as entries:
        for entry in entries:
            empty = False
            attempt, is_log, rest = entry.name.partition(".log")
            if not (is_log and attempt.isascii() and attempt.isdigit()):
                continue
            lives = not rest
            number = int(attempt)
            if number > newest or (number == newest and lives):
                newest, newest_lives = number, lives
            if not lives:
                continue
            shown = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(shown.st_mode) and shown.st_size > limit_bytes:
                seen.append(LogSeen(uid=uid, container=container, path=entry.path, size_bytes=shown.st_size))
    if empty:
        seen.append(LogSeen(uid=uid, container=container, path=path, missing=True))
    elif newest >= 0 and not newest_lives:
        seen.append(LogSeen(uid=uid, container=container, path=f"{path}/{newest}.log", missing=True))
    return seen


# ---------------------------------------------------------------- rotating


def tidy(folder: int, live: str, keep: int) -> list[str]:
    """Remove leftovers and all but the newest `keep` rotated files of a log; return those that stay, oldest first."""
    names = files_of(folder, live)
    for name in names:
        if name.endswith(".tmp") or name + ".gz" in names:
            remove(folder, name)
    rotated = [name for name in names if not name.endswith(".tmp") and name + ".gz" not in names]
    rotated = sorted((n for n in rotated if is_rotated(live, n)), key=lambda name: age_of(live, name))
    stay = rotated[len(rotated) - keep :] if keep < len(rotated) else rotated
    for name in rotated[: len(rotated) - len(stay)]:
        remove(folder, name)
    return stay


def compress_in_place(folder: int, name: str) -> str:
    """Put a rotated file's compressed form in its place; return why that could not be, empty when it could.

    A full disk must not keep a log from being rotated: then the file stays uncompressed until the next time.
    """
    try:
        source = open_regular(folder, name, name)
    except (NotFoundError, ConflictError):
        # Removed just now, or a pipe or link: nothing to compress.
        return ""
    try:
        compress(folder, source, f"{name}.tmp", 0, os.fstat(source).st_size)
        os.rename(f"{name}.tmp", f"{name}.gz", src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        remove(folder, f"{name}.tmp")
        return f"could not compress {name}: {error.strerror}"
    finally:
        os.close(source)
    remove(folder, name)
    return ""


def compress(folder: int, source: int, name: str, start: int, end: int) -> None:
    """Write the bytes from `start` to `end` of an open file as a new gzip file of the same mode. Raises OSError."""
    with (
        os.fdopen(create_like(folder, name, source), "wb") as raw,
        gzip.GzipFile("", "wb", COMPRESSION, raw) as packed,
    ):
        for data in chunks(source, start, end):
            packed.write(data)


def cut_off(folder: int, live: str, rotated: str, source: int, call: RotateLog) -> None:
    """Compress all but the last lines of an ended container's log into `rotated` ``.gz``; those lines stay its log.

    Raises `ConflictError` while it is still written, OSError.
    """
    before = os.fstat(source)
    if time.time() - before.st_mtime < SETTLED_S:
        raise ConflictError(f"the log {call.path} was written a moment ago; it is rotated when it rests")
    cut = line_start(source, max(0, before.st_size - call.keep_bytes))
    packed, rest = f"{rotated}.gz.tmp", f"{live}.rest.tmp"
    try:
        compress(folder, source, packed, 0, cut)
        with os.fdopen(create_like(folder, rest, source), "wb") as file:
            for data in chunks(source, cut, before.st_size):
                file.write(data)
        check_resting(source, before.st_size, call.path)
        os.rename(packed, f"{rotated}.gz", src_dir_fd=folder, dst_dir_fd=folder)
        os.rename(rest, live, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        remove(folder, packed)
        remove(folder, rest)
        raise


def check_resting(file: int, size_bytes: int, path: str) -> None:
    """Raise `ConflictError` when an open file grew over a size."""
    if os.fstat(file).st_size != size_bytes:
        raise ConflictError(f"the log {path} is still being written; it is rotated when it rests")


def line_start(file: int, at: int) -> int:
    """Return where the first line at or after `at` begins; `at` itself when there is no line end for long."""
    if at == 0:
        return 0
    position = at - 1
    while position < at + LINE_SEARCH_BYTES and (data := os.pread(file, CHUNK_BYTES, position)):
        found = data.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(data)
    return at


def create_like(folder: int, name: str, source: int) -> int:
    """Make a new file with mode and owner of an open one and return it open for writing. Raises OSError."""
    remove(folder, name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        shown = os.fstat(source)
        if (shown.st_uid, shown.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(made, shown.st_uid, shown.st_gid)
        os.fchmod(made, stat.S_IMODE(shown.st_mode))
    except OSError:
        os.close(made)
        raise
    return made


def chunks(file: int, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of an open file from `start` to `end`."""
    while start < end and (data := os.pread(file, min(CHUNK_BYTES, end - start), start)):
        start += len(data)
        yield data
