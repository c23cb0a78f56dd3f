"""One thread that waits for many descriptors at once: sockets, timers, and work from other threads.

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


class Watched(Protocol):
    """Anything with a descriptor."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


class Loop:
    """The poller thread. `submit` may be called from anywhere, everything else only on the thread itself."""

    def __init__(self, name: str, ended: Callable[[], None]) -> None:
        self._name = name
        self._ended = ended
        self._selector = selectors.DefaultSelector()
        self._submitted: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[Instant, int, Callable[[], None]]] = []
        self._number = 0
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._open = True
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, work: Callable[[], None]) -> bool:
        """Have `work` run on the thread; return False when the loop has ended."""
        with self._lock:
            if not self._open:
                return False
            self._submitted.append(work)
            os.eventfd_write(self._wake, 1)
        return True

    def at(self, instant: Instant, then: Callable[[], None]) -> None:
        """Run `then` at monotonic `instant`."""
        self._number += 1
        heapq.heappush(self._timers, (instant, self._number, then))

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        """Run `then` in so many seconds."""
        self.at(time.monotonic() + seconds, then)

    def watch(self, what: Watched, then: Callable[[int], None], *, writable: bool = False) -> None:
        """Call `then` with the selector's mask whenever `what` is readable (or writable, if asked)."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
        if what.fileno() in self._selector.get_map():
            self._selector.modify(what.fileno(), events, then)
        else:
            self._selector.register(what.fileno(), events, then)

    def forget(self, what: Watched) -> None:
        """Stop watching."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(what.fileno())

    def stop(self, patience_s: float) -> None:
        """End the thread after its current step; wait for that unless called on it."""
        self.submit(self._halt)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(patience_s)

    def _halt(self) -> None:
        self._stopping = True

    def _run(self) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        try:
            while not self._stopping:
                left_s = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
                timeout = None if left_s is None else min(left_s, LONGEST_WAIT_S)
                for key, mask in self._selector.select(timeout):
                    if key.fd in self._selector.get_map():
                        key.data(mask)
                while self._timers and self._timers[0][0] <= time.monotonic():
                    heapq.heappop(self._timers)[2]()
        finally:
            # Also after a bug: waiting callers get an error instead of waiting for ever.
            with self._lock:
                self._open = False
                left = list(self._submitted)
                self._submitted.clear()
                os.close(self._wake)
            self._selector.close()
            self._ended()
            for work in left:
                work()

    def _woken(self, _: int) -> None:
        os.eventfd_read(self._wake)
        for _ in range(len(self._submitted)):
            self._submitted.popleft()()
