"""Reads OOM kills from ``/dev/kmsg``: the stream ``kernel.ooms``.

A record is ``<priority>,<number>,<microseconds>,<flags>;<text>``. Reading begins at the end: what was logged before is
no news. Only records of the kernel itself count: any process that may write to the file could fake one.
"""

import os
from collections.abc import Callable
from io import FileIO

from api.errors import Failure, FailureKind
from api.messages import Message
from api.ports.ooms import Search, follow
from api.ports.port import Undo
from runtime.drivers.host.kernel.kernelevent import KernelEvents
from runtime.drivers.host.oserror import translate
from runtime.net.loop import Loop

KMSG = "/dev/kmsg"
RECORD_BYTES = 1 << 13
"""More than the kernel puts into one record."""
AT_ONCE = 1000
"""Records that are read before other streams run."""
FACILITY_BITS = 3


class KernelLog:
    """The stream ``kernel.ooms``. `path` is the kernel's log."""

    name = "kernel.ooms"

    def __init__(self, events: KernelEvents, path: str = KMSG) -> None:
        self._events, self._path = events, path

    def open(self, push: Callable[[Message], None], ended: Callable[[Failure | None], None]) -> Undo:
        """Begin to feed `push` with what is logged from now on. Raises `OperatingError` where it may not be read."""
        try:
            reader = KernelLogReader(self._path, push)
        except OSError as error:
            raise translate(error, f"could not open the kernel's log {self._path}") from error
        return self._events.add(reader, ended)


class KernelLogReader:
    """One open log. `begin` and all that follows on the thread of the kernel's events."""

    def __init__(self, path: str, push: Callable[[Message], None]) -> None:
        self._path, self._push = path, push
        self._file = FileIO(path, opener=_opener)
        self._file.seek(0, os.SEEK_END)
        self._search: Search | None = None
        self._loop: Loop | None = None
        self._fail: Callable[[Failure], None] = lambda _failure: None

    def begin(self, loop: Loop, fail: Callable[[Failure], None]) -> None:
        """Wait for records."""
        self._loop, self._fail = loop, fail
        try:
            loop.watch(self._file, self._readable)
        except OSError as error:
            # Containers have other things in its place, such as /dev/null.
            said = translate(error, f"{self._path} is no log of the kernel, it cannot be waited for")
            fail(said.failure())

    def close(self) -> None:
        """Close the log."""
        if self._loop is not None:
            self._loop.forget(self._file)
        self._file.close()

    def _readable(self, _mask: int) -> None:
        for _ in range(AT_ONCE):
            try:
                record = self._file.read(RECORD_BYTES)
            except BrokenPipeError:
                # Records were overwritten before they were read: what was searched for may be among them.
                self._search = None
                continue
            except OSError as error:
                said = translate(error, f"could not read the kernel's log {self._path}")
                self._fail(said.failure())
                return
            if record is None:
                return
            if not record:
                self._fail(Failure(kind=FailureKind.UNAVAILABLE, message=f"{self._path} came to an end"))
                return
            line = kernel_line(record)
            if line:
                self._search, kill = follow(self._search, line)
                if kill is not None:
                    self._push(kill)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def kernel_line(record: bytes) -> str:
    """Return the text of a record that the kernel itself logged, empty for any other."""
    head, found, text = record.partition(b";")
    priority = head.partition(b",")[0]
    if not found or not priority.isdigit() or int(priority) >> FACILITY_BITS:
        return ""
    # Lines after the first are properties of a device.
    return text.partition(b"\n")[0].decode(errors="replace")
