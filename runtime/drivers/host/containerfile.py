"""Files around a container: the pod's hosts file and the file that takes a container's last words.

A container writes into both, and a pod's author chooses names that appear in paths. So below ``pods`` and below a log
root nothing is opened through a symbolic link, only regular files are read or written, opening never blocks, and what
is read is bounded.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from api.errors import ConflictError
from api.host import (
    ENDING_LIMIT_BYTES,
    Done,
    Ending,
    PrepareContainer,
    ReadEnding,
    check_folder_container,
    check_folder_uid,
    ending_file,
    log_tail,
    own_ending,
    own_log,
)
from runtime.drivers.host.crilog import Joiner, Splitter
from runtime.drivers.host.oserror import translate

FOLDER_MODE = 0o750
HOSTS_MODE = 0o644
ENDING_MODE = 0o666
LOG_WINDOW_BYTES = 256 << 10
"""How much of a log is read for its last lines: runtimes write records of at most 16 KiB."""
HOSTS_LIMIT_BYTES = 1 << 20

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def prepare(pods: Path, call: PrepareContainer) -> Done:
    """Write what a container is made with; raises an `OperatingError`."""
    check_folder_uid(call.uid)
    check_folder_container(call.container, call.attempt)
    try:
        pods.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        with _folders(pods, (call.uid,), make=True) as pod:
            if call.hosts is not None:
                _write_in_place(pod, "etc-hosts", call.hosts.encode())
        if call.ending:
            with _folders(pods, (call.uid, "containers", call.container), make=True) as folder:
                fd = _regular(folder, ending_file(call.attempt), os.O_WRONLY | os.O_CREAT, ENDING_MODE)
                os.close(fd)
    except OSError as error:
        what = f"could not write the files of container {call.container} of pod {call.uid} below {pods}"
        raise translate(error, what) from error
    return Done()


def read_ending(call: ReadEnding) -> Ending:
    """Read a container's last words: its file, else the end of its log. A file that cannot be read says so itself."""
    check_folder_uid(call.uid)
    check_folder_container(call.container)
    if own_ending(call):
        try:
            found = _end_of(call.termination_log, 4, ENDING_LIMIT_BYTES)[0]
        except (OSError, ConflictError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            return Ending(message=f"Error on reading termination log {call.termination_log}: {why}")
        if found:
            return Ending(message=found.decode(errors="replace"))
    if call.fall_back and own_log(call):
        with contextlib.suppress(OSError, ConflictError):
            # What cannot be read is no message; the container's end is published without one.
            window, whole = _end_of(call.log_path, 2, LOG_WINDOW_BYTES)
            return Ending(message=log_tail(_text(window, whole=whole)).decode(errors="replace"))
    return Ending()


def _end_of(path: str, below: int, limit: int) -> tuple[bytes, bool]:
    """Return the last bytes of a file, and whether that is all of it; a missing one is empty.

    The last `below` folders and the file are opened one by one without following links; what is above is the agent's.
    """
    parts = Path(path).parts
    root, inside = Path(*parts[: -below - 1]), parts[-below - 1 : -1]
    try:
        with _folders(root, inside) as folder:
            fd = _regular(folder, parts[-1], os.O_RDONLY)
    except FileNotFoundError:
        return b"", True
    try:
        start = max(0, os.fstat(fd).st_size - limit)
        return os.pread(fd, limit, start), start == 0
    finally:
        os.close(fd)


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
    """Make a file hold `content`, keeping the file itself: running containers have it mounted."""
    fd = _regular(folder, name, os.O_RDWR | os.O_CREAT, HOSTS_MODE)
    try:
        if os.pread(fd, HOSTS_LIMIT_BYTES, 0) == content:
            return
        # Cut afterwards, so that nobody finds the file empty in between.
        written = 0
        while written < len(content):
            written += os.pwrite(fd, content[written:], written)
        os.ftruncate(fd, len(content))
    finally:
        os.close(fd)


def _regular(folder: int, name: str, flags: int, mode: int = 0) -> int:
    """Open a regular file in an open folder and, when it may be made, give it its mode whatever the umask."""
    fd = os.open(name, flags | _FILE, mode, dir_fd=folder)
    found = os.fstat(fd).st_mode
    if not stat.S_ISREG(found):
        os.close(fd)
        raise ConflictError(f"{name} is not a regular file; see what is there")
    if flags & os.O_CREAT and stat.S_IMODE(found) != mode:
        os.fchmod(fd, mode)
    return fd


@contextlib.contextmanager
def _folders(root: Path, names: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
    """Open folders below `root` one by one without following links, and give the last; missing ones can be made."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            if make:
                _make(fd, name)
            below = os.open(name, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _make(parent: int, name: str) -> None:
    try:
        os.mkdir(name, FOLDER_MODE, dir_fd=parent)
    except FileExistsError:
        return
    # The umask of who started us took part in the mode.
    os.chmod(name, FOLDER_MODE, dir_fd=parent)
