"""A container's log folder by descriptor: no name in it, and none on the way to it, is ever followed as a link.

A container may own its log folder (a host path volume): rotating or removing there as root must not be led
elsewhere.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from api.errors import ConflictError, NotFoundError
from api.ports.logs import ROTATED, LogPlace

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@contextlib.contextmanager
def log_folder(root: Path, place: LogPlace) -> Iterator[int]:
    """Open the folder of a container's logs; its descriptor ends with the context. Raises OSError."""
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in (place.folder, place.container):
            below = os.open(part, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = below
        yield opened
    finally:
        os.close(opened)


def files_of(folder: int, name: str) -> list[str]:
    """Return the names of a log's other files, which start with ``<name>.``, ascending."""
    return sorted(entry for entry in os.listdir(folder) if entry.startswith(name + "."))


def remove(folder: int, name: str) -> None:
    """Remove a file; a missing one is fine. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def open_regular(folder: int, name: str, shown: str) -> int:
    """Open a regular file for reading. Raises `NotFoundError`, `ConflictError` for anything else, or OSError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        opened = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        raise NotFoundError(f"there is no log {shown}") from None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise ConflictError(f"the log {shown} is not a regular file; it is left as it is") from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise ConflictError(f"the log {shown} is not a regular file; it is left as it is")
    return opened


def is_rotated(live: str, name: str) -> bool:
    """Return whether a file is a rotated one of a log, compressed or not."""
    return ROTATED.fullmatch(name.removeprefix(live + ".").removesuffix(".gz")) is not None


def age_of(live: str, name: str) -> tuple[str, int]:
    """Return what rotated files of a log are sorted by: when, and which one of that second."""
    day, time_of_day, number = (*name.removeprefix(live + ".").removesuffix(".gz").split("-"), "0")[:3]
    return f"{day}-{time_of_day}", int(number)
