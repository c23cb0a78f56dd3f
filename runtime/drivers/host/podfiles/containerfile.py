"""Files of a container: the pod's hosts file and the termination log.

A container writes into both, and a pod's author chooses names that appear in paths. So below ``pods`` and below a log
root nothing is opened through a symbolic link, only regular files are read or written, opening never blocks, and what
is read is bounded.
"""

import contextlib
import os
import stat
from pathlib import Path

from api.errors import ConflictError
from api.ports.call import Done
from api.ports.podfiles import (
    ENDING_LIMIT_BYTES,
    PrepareContainer,
    ReadEnding,
    TerminationMessage,
    check_folder_container,
    check_folder_uid,
    ending_file,
    log_tail,
    own_ending,
    own_log,
)
from runtime.drivers.host.logs.crilog import Joiner, Splitter
from runtime.drivers.host.oserror import translate

FOLDER_MODE = 0o750
HOSTS_MODE = 0o644
ENDING_MODE = 0o666
LOG_WINDOW_BYTES = 256 << 10
"""How much of a log is read for its last lines: runtimes write records of at most 16 KiB."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def prepare(pods: Path, call: PrepareContainer) -> Done:
    """Write what a container is made with; raises an `OperatingError`."""
    check_folder_uid(call.uid)
    check_folder_container(call.container, call.attempt)
    try:
        with contextlib.ExitStack() as opened:
            pod = _folder(opened, _root(opened, pods, make=True), call.uid, make=True)
            if call.hosts is not None:
                _write_in_place(pod, "etc-hosts", call.hosts.encode())
            if call.ending:
                all_of_pod = _folder(opened, pod, "containers", make=True)
                folder = _folder(opened, all_of_pod, call.container, make=True)
                _regular(opened, folder, ending_file(call.attempt), os.O_WRONLY | os.O_CREAT, ENDING_MODE)
    except OSError as error:
        what = f"could not write the files of container {call.container} of pod {call.uid} below {pods}"
        raise translate(error, what) from error
    return Done()


def read_ending(call: ReadEnding) -> TerminationMessage:
    """Read a container's termination message: its file, else the end of its log. An unreadable file is reported in the text."""
    check_folder_uid(call.uid)
    check_folder_container(call.container)
    if own_ending(call):
        try:
            found = _end_of(call.termination_log, 4, ENDING_LIMIT_BYTES)[0]
        except (OSError, ConflictError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            return TerminationMessage(
                message=f"Error on reading termination log {call.termination_log}: {why}"
            )
        if found:
            return TerminationMessage(message=found.decode(errors="replace"))
    if call.fall_back and own_log(call):
        with contextlib.suppress(OSError, ConflictError):
            # What cannot be read is no message; the container's end is published without one.
            window, whole = _end_of(call.log_path, 2, LOG_WINDOW_BYTES)
            return TerminationMessage(message=log_tail(_text(window, whole=whole)).decode(errors="replace"))
    return TerminationMessage()


def _end_of(path: str, below: int, limit: int) -> tuple[bytes, bool]:
    """Return the last bytes of a file, and whether that is all of it; a missing one is empty.

    The last `below` folders and the file are opened one by one without following links; what is above is the agent's.
    """
    parts = Path(path).parts
    root, inside = Path(*parts[: -below - 1]), parts[-below - 1 : -1]
    with contextlib.ExitStack() as opened:
        try:
            folder = _root(opened, root)
            for name in inside:
                folder = _folder(opened, folder, name)
            fd, size = _regular(opened, folder, parts[-1], os.O_RDONLY)
        except FileNotFoundError:
            return b"", True
        start = max(0, size - limit)
        return os.pread(fd, limit, start), start == 0


def _text(window: bytes, *, whole: bool) -> bytes:
    """Return the text of the records in a part of a log that begins anywhere, or with the file."""
    if not whole:
        window = window.partition(b"\n")[2]
    splitter, joiner = Splitter(), Joiner(timestamps=False)
    pieces: list[bytes] = []
    for records in (splitter.feed(window), splitter.end()):
        for record in records:
            pieces.extend(joiner.feed(record))
    pieces.extend(joiner.end())
    return b"".join(pieces)


def _write_in_place(folder: int, name: str, content: bytes) -> None:
    """Write `content` into a file in place: running containers have it mounted."""
    with contextlib.ExitStack() as opened:
        fd, size = _regular(opened, folder, name, os.O_RDWR | os.O_CREAT, HOSTS_MODE)
        if size == len(content) and os.pread(fd, size, 0) == content:
            return
        # Truncated afterwards, so that no reader finds the file empty in between.
        written = 0
        while written < len(content):
            written += os.pwrite(fd, content[written:], written)
        if size > len(content):
            os.ftruncate(fd, len(content))


def _regular(
    opened: contextlib.ExitStack, folder: int, name: str, flags: int, mode: int = 0
) -> tuple[int, int]:
    """Open a regular file in an open folder; return it and its size in bytes.

    One that may be made gets its mode whatever the umask.
    """
    fd = os.open(name, flags | _FILE, mode, dir_fd=folder)
    opened.callback(os.close, fd)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise ConflictError(f"{name} is not a regular file; see what is there")
    if flags & os.O_CREAT and stat.S_IMODE(found.st_mode) != mode:
        os.fchmod(fd, mode)
    return fd, found.st_size


def _root(opened: contextlib.ExitStack, path: Path, *, make: bool = False) -> int:
    """Open a folder of the agent's own; one that is missing can be made."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        if not make:
            raise
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        fd = os.open(path, flags)
    opened.callback(os.close, fd)
    return fd


def _folder(opened: contextlib.ExitStack, parent: int, name: str, *, make: bool = False) -> int:
    """Open a folder in an open one without following a link; one that is missing can be made."""
    try:
        fd = os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=parent)
        fd = os.open(name, _FOLDER, dir_fd=parent)
    opened.callback(os.close, fd)
    return fd
