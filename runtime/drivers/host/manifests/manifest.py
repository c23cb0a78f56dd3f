"""Reads manifest files: the port ``manifests``, a folder (not recursive) or one file at a time.

What is cheap is kept cheap: a file whose inode, size and times are as before is not opened, one whose bytes are as
before is not parsed. What could hang or harm is left unopened: pipes, devices, sockets, large files. Whether a file is
YAML or JSON is decided by content, never by name.
"""

import errno
import hashlib
import os
import stat
import threading
import time

import msgspec

from api.errors import DeniedError, OperatingError, RejectedError, TimedOutError, UnavailableError
from api.manifestname import why_ignored
from api.ports.manifests import MANIFEST_LIMIT_BYTES, ManifestFile, ManifestListing, Problem, ReadManifests
from runtime.drivers.host.manifests.yamltext import read_document

RACY_NS = 2_000_000_000
"""A file changed less than this before it was read may change again without its times showing it."""
IGNORED_LIMIT = 100
CHUNK_BYTES = 1 << 18

Stamp = tuple[int, int, int, int, int]
"""Device, inode, size, mtime and ctime in nanoseconds."""


class CachedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of a file, and whether its stamp alone proves it unchanged."""

    stamp: Stamp
    settled: bool
    file: ManifestFile


class VanishedError(Exception):
    """The file was removed while the folder was read."""


class FileManifests:
    """The port ``manifests``. Calls may run side by side; they share what they know of unchanged files."""

    name = "manifests"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, dict[str, CachedFile]] = {}

    def perform(self, call: msgspec.Struct, deadline_s: float) -> ManifestListing:
        """Read the path of a `ReadManifests`.

        A missing path is an empty listing, which says when the path leads through what is no folder. Raises `DeniedError` or `UnavailableError` when the folder cannot be
        read, `RejectedError` for what is neither folder nor file, `TimedOutError` past the deadline.
        """
        if not isinstance(call, ReadManifests):
            raise RejectedError(f"the manifest reader has no call {type(call).__name__}")
        path = os.path.abspath(call.path)  # noqa: PTH100  symbolic links stay as the user wrote them
        ends_at = time.monotonic() + deadline_s
        with self._lock:
            known = self._kept.get(path, {})
        try:
            names, ignored, place = candidates(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            self._keep(path, {})
            place = "below a path that is no folder" if isinstance(error, NotADirectoryError) else ""
            return ManifestListing(missing=True, place=place)
        except OSError as error:
            raise unreadable(path, error) from error
        read: dict[str, CachedFile] = {}
        for name in names:
            if time.monotonic() > ends_at:
                raise TimedOutError(f"reading the manifests in {path} took longer than {deadline_s:g} s")
            file = name if name == path else os.path.join(path, name)  # noqa: PTH118  names are texts here
            try:
                read[file] = read_file(file, known.get(file), shown_name(file))
            except VanishedError:
                continue
        self._keep(path, read)
        files = tuple(kept.file for kept in read.values())
        return ManifestListing(files=files, ignored=ignored, place=place)

    def _keep(self, path: str, read: dict[str, CachedFile]) -> None:
        with self._lock:
            self._kept[path] = read


def candidates(path: str) -> tuple[list[str], tuple[Problem, ...], str]:
    """Return the names of the manifests at `path`, sorted, what is ignored, and what the path is. Raises OSError.

    A path that is a file is taken whatever its name: it was named on purpose.
    """
    shown = os.stat(path)  # noqa: PTH116
    if stat.S_ISREG(shown.st_mode):
        return [path], (), place_of("file", shown)
    if not stat.S_ISDIR(shown.st_mode):
        raise RejectedError(f"{path} is {kind(shown.st_mode)}; a manifest path is a folder or a file")
    names: list[str] = []
    ignored: list[Problem] = []
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        place = place_of("folder", os.fstat(folder))
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                why = why_ignored(entry.name) or why_no_file(entry)
                if why:
                    ignored.append(Problem(where=shown_name(entry.name), message=f"ignored: {why}"))
                else:
                    names.append(entry.name)
    finally:
        os.close(folder)
    if len(ignored) > IGNORED_LIMIT:
        more = len(ignored) - IGNORED_LIMIT
        ignored = [*ignored[:IGNORED_LIMIT], Problem(where=path, message=f"ignored: {more} more files")]
    return names, tuple(ignored), place


def place_of(what: str, shown: os.stat_result) -> str:
    """Describe the path and its file system."""
    return f"a {what} on device {os.major(shown.st_dev)}:{os.minor(shown.st_dev)}"


def why_no_file(entry: os.DirEntry[str]) -> str:
    """Return what an entry or its target is instead of a regular file, empty for one and for what cannot be checked."""
    try:
        if entry.is_file():
            return ""
        mode = entry.stat().st_mode
    except OSError:
        return ""
    if stat.S_ISDIR(mode):
        return "it is a folder; only the manifest folder itself is read"
    return f"it is {kind(mode)}; a manifest is a regular file"


def read_file(path: str, known: CachedFile | None, shown_as: str) -> CachedFile:
    """Read one file, as little of it as its stamp and bytes allow; problems call it `shown_as`. Raises `VanishedError`."""
    try:
        shown = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(shown.st_mode):
            return refused(path, shown_as, f"is {kind(shown.st_mode)}; a manifest is a regular file", shown)
        if known is not None and known.settled and known.stamp == stamp_of(shown):
            return known
        return read_open(path, known, shown_as)
    except FileNotFoundError as error:
        if not os.path.islink(path):  # noqa: PTH114
            raise VanishedError(path) from error
        return refused(path, shown_as, "is a symbolic link to nothing", None)
    except OSError as error:
        return refused(path, shown_as, str(unreadable("it", error)), None)


def read_open(path: str, known: CachedFile | None, shown_as: str) -> CachedFile:
    """Open and read one file. Raises OSError."""
    # The file may have been replaced since the check: opening a pipe must not block and a terminal must not
    # become ours, so the open file is checked again.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        opened = os.fstat(descriptor)
        if not stat.S_ISREG(opened.st_mode):
            return refused(path, shown_as, f"is {kind(opened.st_mode)}; a manifest is a regular file", opened)
        content = b"" if opened.st_size > MANIFEST_LIMIT_BYTES else read_bytes(descriptor)
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    size = max(opened.st_size, len(content))
    if size > MANIFEST_LIMIT_BYTES:
        limit = MANIFEST_LIMIT_BYTES >> 20
        return refused(
            path,
            shown_as,
            f"has {size} bytes; a manifest over {limit} MiB is not read: keep large data in files of its own",
            opened,
        )
    digest = hashlib.sha256(content).hexdigest()
    settled = stamp_of(after) == stamp_of(opened) and (
        time.time_ns() - max(after.st_mtime_ns, after.st_ctime_ns) > RACY_NS
    )
    if known is not None and known.file.digest == digest:
        return CachedFile(stamp=stamp_of(opened), settled=settled, file=known.file)
    document = read_document(content, shown_as)
    file = ManifestFile(path=path, digest=digest, document=document.json, problems=document.problems)
    return CachedFile(stamp=stamp_of(opened), settled=settled, file=file)


def read_bytes(descriptor: int) -> bytes:
    """Read to the end, or to just over the limit. Raises OSError."""
    parts: list[bytes] = []
    left = MANIFEST_LIMIT_BYTES + 1
    while left > 0:
        part = os.read(descriptor, min(left, CHUNK_BYTES))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def refused(path: str, shown_as: str, why: str, shown: os.stat_result | None) -> CachedFile:
    """Return the row of a file that is not read; its digest is that of its name, its size and the reason."""
    size = shown.st_size if shown else 0
    digest = hashlib.sha256(f"{path}\0{size}\0{why}".encode("utf-8", "surrogateescape")).hexdigest()
    problem = Problem(where=shown_as, message=why)
    file = ManifestFile(path=path, digest=digest, problems=(problem,))
    return CachedFile(stamp=stamp_of(shown) if shown else (0, 0, 0, 0, 0), settled=False, file=file)


def stamp_of(shown: os.stat_result) -> Stamp:
    """Return what changes when a file does."""
    return shown.st_dev, shown.st_ino, shown.st_size, shown.st_mtime_ns, shown.st_ctime_ns


def shown_name(path: str) -> str:
    """Return a path's last part as text that can be printed."""
    name = os.path.basename(path)  # noqa: PTH119
    return name.encode("utf-8", "backslashreplace").decode()


def kind(mode: int) -> str:
    """Name what kind of thing a path is."""
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((words for test, words in kinds if test(mode)), "no regular file")


def unreadable(what: str, error: OSError) -> OperatingError:
    """Translate an error of the file system."""
    why = os.strerror(error.errno) if error.errno else type(error).__name__
    if error.errno in (errno.EACCES, errno.EPERM):
        return DeniedError(f"{what} cannot be read: {why}; let the agent's user read it")
    return UnavailableError(f"{what} cannot be read: {why}")
