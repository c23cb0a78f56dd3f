"""One thread that waits for notifications of the kernel, shared by all such streams; it starts with the first."""

import threading
from collections.abc import Callable
from typing import Protocol

from api.errors import Failure, FailureKind
from api.ports.port import Undo
from runtime.net.loop import Loop

PATIENCE_S = 1.0


class KernelStream(Protocol):
    """One open stream. All methods on the thread, or once that has ended."""

    def begin(self, loop: Loop, fail: Callable[[Failure], None]) -> None:
        """Begin to wait; `fail` is called once when the source ends, before or after `close`."""
        ...

    def close(self) -> None:
        """Let go of every descriptor; called once."""
        ...


class KernelEvents:
    """Owner of the thread. `add` and `close` from anywhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Loop | None = None
        self._open: dict[KernelStream, Callable[[Failure | None], None]] = {}

    def add(self, source: KernelStream, ended: Callable[[Failure | None], None]) -> Undo:
        """Wait on `source`; `ended` is called when it ends by itself. The returned function closes it."""
        with self._lock:
            loop = self._loop
            if loop is None:
                loop = self._loop = Loop("kernel-events", lambda: self._ended(loop))
            self._open[source] = ended
        if not loop.submit(lambda: self._begin(loop, source)):
            self._fail(source, lost())
        return lambda: self._undo(loop, source)

    def close(self) -> None:
        """End the thread, and with it every stream, without a word."""
        with self._lock:
            loop, self._loop = self._loop, None
            self._open, closing = {}, self._open
        if loop is None:
            return
        for source in closing:
            if not loop.submit(source.close):
                source.close()
        loop.stop(PATIENCE_S)

    def _begin(self, loop: Loop, source: KernelStream) -> None:
        if source in self._open:
            source.begin(loop, lambda failure: self._fail(source, failure))

    def _undo(self, loop: Loop, source: KernelStream) -> None:
        with self._lock:
            known = self._open.pop(source, None)
        if known is not None and not loop.submit(source.close):
            source.close()

    def _fail(self, source: KernelStream, failure: Failure) -> None:
        with self._lock:
            ended = self._open.pop(source, None)
        if ended is not None:
            source.close()
            ended(failure)

    def _ended(self, loop: Loop | None) -> None:
        """End all streams when the thread ends, which without `close` only a bug does; the next stream starts a new one."""
        with self._lock:
            if self._loop is not loop:
                return
            self._loop = None
            left = list(self._open)
        for source in left:
            self._fail(source, lost())


def lost() -> Failure:
    """Report the end of the thread."""
    return Failure(
        kind=FailureKind.UNAVAILABLE, message="the thread that hears the kernel ended: a bug, see the log"
    )
