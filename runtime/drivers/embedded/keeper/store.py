"""Records on disk: one JSON file per sandbox, replaced as a whole.

Owned by the keeper while it lives, by the driver afterwards. Environment values are never written.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os

from runtime.drivers.embedded.keeper.frame import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
NAME = "record.json"
CRASH = "crash.txt"
"""What ended a keeper."""
TROUBLE = "trouble.txt"
"""The last error that a keeper did not expect and lived through."""
SOCKET = "keeper.sock"
SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of reading for lack of a resource: the record itself may be fine."""


class DamagedRecordError(Exception):
    """A record is there and cannot be read."""


def write(directory: str, record: dict[str, Any], *, durable: bool) -> None:
    """Replace the record in `directory`; with `durable` also through a power failure. Raises OSError."""
    path = os.path.join(directory, NAME)  # noqa: PTH118 pathlib would cost every keeper memory
    data = encode({"version": VERSION} | record).encode()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path + ".new", flags, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(path + ".new", path)  # noqa: PTH105


def write_down(directory: str, name: str) -> None:
    """Write the current error to a file: no other process reports it."""
    import traceback  # noqa: PLC0415 only a bug needs it

    with contextlib.suppress(OSError), open(os.path.join(directory, name), "w") as file:  # noqa: PTH118, PTH123
        traceback.print_exc(file=file)


def read(directory: str) -> dict[str, Any] | None:
    """Return the record in `directory`, None when there is none.

    Raises DamagedError when it cannot be understood, and OSError when this process lacks what it takes to read it.
    """
    path = os.path.join(directory, NAME)  # noqa: PTH118
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            record = json.loads(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno in SHORTAGE:
            raise
        raise DamagedRecordError(f"{path}: {error}") from None
    if not isinstance(record, dict) or record.get("version") != VERSION:
        raise DamagedRecordError(f"{path}: not a record of version {VERSION}")
    return record
