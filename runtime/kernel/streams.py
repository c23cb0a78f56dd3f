"""Streams: what never ends, fed to one incarnation through the intercept seam until it or the stream dies."""

from threading import Lock
from typing import Protocol

from api.errors import Failure, FailureKind, OperatingError
from api.ids import Path
from api.messages import Message
from api.messages.kernel import Heard, StreamEnded
from api.ports.port import Stream, Undo
from runtime.kernel.actor import Log
from runtime.kernel.intercept import Fate, Interceptor
from runtime.kernel.trace import report


class Listener(Protocol):
    """What a stream needs of the cell that listens."""

    @property
    def path(self) -> Path:
        """Return where the cell lives."""
        ...

    def accept_item(self, item: Heard) -> None:
        """Take one item; it may be conflated or, when the mailbox is full, dead-lettered."""
        ...

    def end_stream(self, stream: "Listening", ended: StreamEnded) -> None:
        """Take the end of a stream."""
        ...


class StreamHost(Protocol):
    """What a stream needs of the system."""

    interceptor: Interceptor | None
    log: Log

    @property
    def halted(self) -> bool:
        """Return whether the system is gone as after a kill."""
        ...


class Listening:
    """One open stream of one incarnation."""

    __slots__ = ("_cell", "_lock", "_open", "_stream", "_system", "_undo", "name")

    def __init__(self, system: StreamHost, cell: Listener, stream: Stream) -> None:
        self._system, self._cell, self._stream = system, cell, stream
        self.name = stream.name
        self._lock = Lock()
        self._open = True
        self._undo: Undo | None = None

    def begin(self) -> None:
        """Open the stream; one that cannot be opened ends at once, with the reason."""
        try:
            undo = self._stream.open(self._push, self._end)
        except OperatingError as error:
            self._end(error.failure())
            return
        except Exception as error:  # noqa: BLE001  # a driver's bug is its caller's failure, never the kernel's end
            report(
                self._system.log,
                "stream raised what no driver may raise",
                error,
                stream=self.name,
                path=self._cell.path,
            )
            said = f"stream {self.name}: the driver failed with {type(error).__name__}: a bug, see the log"
            self._end(Failure(kind=FailureKind.UNAVAILABLE, message=said))
            return
        with self._lock:
            self._undo = undo
            closed = not self._open
        if closed:
            undo()

    def _push(self, item: Message) -> None:
        if not self._open or self._system.halted:
            return
        seam = self._system.interceptor
        if seam is not None:
            struck = seam.hearing(self._cell.path, self.name, item)
            if struck.fate is Fate.CUT:
                self._end(struck.failure)
                self._take_back()
            if struck.fate is not Fate.PASS:
                return
        self._cell.accept_item(Heard(stream=self.name, item=item))

    def _end(self, failure: Failure | None) -> None:
        with self._lock:
            if not self._open or self._system.halted:
                return
            self._open = False
        self._cell.end_stream(self, StreamEnded(stream=self.name, failure=failure))

    def _take_back(self) -> None:
        with self._lock:
            undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def close(self) -> None:
        """Close the stream; nothing comes of it any more."""
        with self._lock:
            self._open = False
        self._take_back()
