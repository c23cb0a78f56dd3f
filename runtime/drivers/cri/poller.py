"""One thread for what has no callback of its own: pidfds and instants. It starts with the first of them.

Every container's exit is heard on it. So a callback with a bug costs what it would have told, which the next listing finds
out, and never the thread.
"""

import heapq
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

from api.ids import Instant

After = Callable[[float, Callable[[], None]], None]
"""Has something done in so many seconds."""
OnBug = Callable[[str, Exception], None]
"""Is told which callback raised, and what."""


class Poller:
    """Runs work, alarms and descriptors' callbacks one after the other. `submit` and `after` may be called anywhere."""

    def __init__(self, name: str, on_bug: OnBug) -> None:
        self._name, self._on_bug = name, on_bug
        self._lock = threading.Lock()
        self._submitted: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[Instant, int, Callable[[], None]]] = []
        self._number = 0
        self._watched: dict[int, Callable[[], None]] = {}
        self._epoll: select.epoll | None = None
        self._wake = -1
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` on the thread; dropped after `close`."""
        with self._lock:
            if self._closed:
                return
            self._submitted.append(work)
            if self._thread is None:
                self._epoll = select.epoll()
                self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                self._epoll.register(self._wake, select.EPOLLIN)
                self._thread = threading.Thread(
                    target=self._run, args=(self._epoll,), name=self._name, daemon=True
                )
                self._thread.start()
            else:
                os.eventfd_write(self._wake, 1)

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        """Run `then` on the thread in so many seconds."""
        at = time.monotonic() + seconds

        def add() -> None:
            self._number += 1
            heapq.heappush(self._timers, (at, self._number, then))

        self.submit(add)

    def watch(self, fd: int, then: Callable[[], None]) -> None:
        """Call `then` when `fd` is readable, once; it stays open until it is forgotten. On the thread only."""
        assert self._epoll is not None
        self._watched[fd] = then
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLONESHOT)

    def forget(self, fd: int) -> None:
        """Stop watching `fd` and close it. On the thread only."""
        assert self._epoll is not None
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)
            os.close(fd)

    def close(self, patience_s: float = 2.0) -> None:
        """End the thread and close every descriptor that it watches."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            thread = self._thread
            if thread is not None:
                os.eventfd_write(self._wake, 1)
        if thread is not None and thread is not threading.current_thread():
            thread.join(patience_s)

    def _run(self, epoll: select.epoll) -> None:
        try:
            while not self._closed:
                self._work()
                left_s = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
                for fd, _ in epoll.poll(left_s):
                    if fd == self._wake:
                        os.eventfd_read(fd)
                    elif fd in self._watched:
                        self._call(self._watched[fd])
                while self._timers and self._timers[0][0] <= time.monotonic():
                    self._call(heapq.heappop(self._timers)[2])
        finally:
            with self._lock:
                self._closed = True
                os.close(self._wake)
            for fd in list(self._watched):
                self.forget(fd)
            epoll.close()

    def _work(self) -> None:
        for _ in range(len(self._submitted)):
            self._call(self._submitted.popleft())

    def _call(self, then: Callable[[], None]) -> None:
        try:
            then()
        except Exception as error:  # noqa: BLE001  # the thread is everybody's
            self._on_bug(then.__qualname__, error)
