"""One thread that waits for many descriptors at once: sockets, pidfds, timers, and work from other threads.

Everything that its user knows is touched on this thread only. With nothing due it sleeps in the kernel without a limit.
"""

import contextlib
import heapq
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from api.ids import Instant

LONGEST_WAIT_S = 3600.0
"""A selector waits at most some 24 days; a later instant is checked again then."""

After = Callable[[float, Callable[[], None]], None]
"""Has something done in so many seconds."""
OnBug = Callable[[str, Exception], None]
"""Is told which callback raised, and what."""


class HasDescriptor(Protocol):
    """Anything with a descriptor."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


Watched = HasDescriptor | int


def ignore_end() -> None:
    """Need nothing at a loop's end."""


class Loop:
    """The thread, which begins with the first work; who makes one stops it. `watch` and `forget` only on it, everything else from anywhere.

    A callback that raises ends it, and whoever waits is told by `ended`, called on the thread at every end. Where one
    callback's bug must not cost the others, `on_bug` is told instead, and only what raised is over: a descriptor whose
    callback raised is watched no more.
    """

    def __init__(
        self, name: str, ended: Callable[[], None] = ignore_end, *, on_bug: OnBug | None = None
    ) -> None:
        self._name, self._ended, self._on_bug = name, ended, on_bug
        self._submitted: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[Instant, int, Callable[[], None]]] = []
        self._number = 0
        self._lock = threading.Lock()
        self._open = True
        self._stopping = False
        # Had from the beginning: later there may be no descriptors left.
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], None]) -> bool:
        """Have `work` run on the thread; return False when the loop has ended."""
        with self._lock:
            if not self._open:
                return False
            self._submitted.append(work)
            os.eventfd_write(self._wake, 1)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return True

    def at(self, instant: Instant, then: Callable[[], None]) -> None:
        """Run `then` at monotonic `instant`; dropped when the loop ends before."""
        if threading.current_thread() is self._thread:
            self._number += 1
            heapq.heappush(self._timers, (instant, self._number, then))
        else:
            self.submit(lambda: self.at(instant, then))

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        """Run `then` in so many seconds; dropped when the loop ends before."""
        self.at(time.monotonic() + seconds, then)

    def watch(self, what: Watched, then: Callable[[int], None], *, writable: bool = False) -> None:
        """Call `then` with the selector's mask whenever `what` is readable (or writable, if asked)."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
        fd = descriptor(what)
        if fd in self._selector.get_map():
            self._selector.modify(fd, events, then)
        else:
            self._selector.register(fd, events, then)

    def forget(self, what: Watched) -> None:
        """Stop watching; it stays open."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(descriptor(what))

    def stop(self, patience_s: float) -> None:
        """End the thread after its current step; wait for that unless called on it."""
        with self._lock:
            thread = self._thread
            if thread is None and self._open:
                self._let_go()
            if thread is None:
                return
        self.submit(self._halt)
        if threading.current_thread() is not thread:
            thread.join(patience_s)

    def _let_go(self) -> None:
        self._open = False
        os.close(self._wake)
        self._selector.close()

    def _halt(self) -> None:
        self._stopping = True

    def _run(self) -> None:
        try:
            while not self._stopping:
                left_s = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
                timeout = None if left_s is None else min(left_s, LONGEST_WAIT_S)
                for key, mask in self._selector.select(timeout):
                    if key.fd in self._selector.get_map():
                        self._ready(key, mask)
                while self._timers and self._timers[0][0] <= time.monotonic():
                    self._call(heapq.heappop(self._timers)[2])
        finally:
            # Also after a bug: waiting callers get an error instead of waiting for ever.
            with self._lock:
                left = list(self._submitted)
                self._submitted.clear()
                self._let_go()
            self._ended()
            for work in left:
                self._call(work)

    def _woken(self, _: int) -> None:
        os.eventfd_read(self._wake)
        for _ in range(len(self._submitted)):
            self._call(self._submitted.popleft())

    def _ready(self, key: selectors.SelectorKey, mask: int) -> None:
        try:
            key.data(mask)
        except Exception as error:  # the thread is everybody's
            if self._on_bug is None:
                raise
            # It would be ready at once again, and raise again; unless the callback has put another in its place.
            if (now := self._selector.get_map().get(key.fd)) is not None and now.data is key.data:
                self.forget(key.fd)
            self._on_bug(named(key.data), error)

    def _call(self, then: Callable[[], None]) -> None:
        try:
            then()
        except Exception as error:  # the thread is everybody's
            if self._on_bug is None:
                raise
            self._on_bug(named(then), error)


def descriptor(what: Watched) -> int:
    """Return the descriptor of what is watched."""
    return what if isinstance(what, int) else what.fileno()


def named(callback: Callable[..., None]) -> str:
    """Return what a callback is called, for a line in the log."""
    return str(getattr(callback, "__qualname__", type(callback).__name__))
