"""Real time: one thread that sleeps until the next alarm is due."""

import heapq
import time
from collections.abc import Callable
from threading import Condition, Lock, Thread

from api.ids import Instant, WallNs
from api.ports.port import Undo
from runtime.kernel.actor import Log
from runtime.kernel.trace import report


class Timer:
    """One alarm; `then` is None when it was cancelled or has rung."""

    __slots__ = ("at", "number", "owner", "then")

    def __init__(self, owner: "ThreadTimers", at: Instant, number: int, then: Callable[[], None]) -> None:
        self.owner, self.at, self.number = owner, at, number
        self.then: Callable[[], None] | None = then

    def __lt__(self, other: "Timer") -> bool:
        return (self.at, self.number) < (other.at, other.number)

    def __call__(self) -> None:
        """Cancel the alarm."""
        if self.then is not None:
            self.then = None
            self.owner.forget()


class ThreadTimers:
    """The real clocks, and alarms on one daemon thread that starts with the first alarm."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._changed = Condition(Lock())
        self._heap: list[Timer] = []
        self._number = 0
        self._forgotten = 0
        self._wall_offset_ns = 0
        self._thread: Thread | None = None
        self._closed = False

    now = staticmethod(time.monotonic)

    def wall(self) -> WallNs:
        """Return the wall clock in nanoseconds, with the jumps that faults made."""
        return time.time_ns() + self._wall_offset_ns

    def jump_wall(self, by_s: float) -> None:
        """Move the wall clock as this system sees it."""
        self._wall_offset_ns += round(by_s * 1e9)

    def call_at(self, at: Instant, then: Callable[[], None]) -> Undo:
        """Call `then` at or soon after `at`, on the timer thread; it must not hold it."""
        with self._changed:
            self._number += 1
            timer = Timer(self, at, self._number, then)
            if self._closed:
                return timer
            heapq.heappush(self._heap, timer)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="kernel.timers", daemon=True)
                self._thread.start()
            elif self._heap[0] is timer:
                self._changed.notify()
        return timer

    def forget(self) -> None:
        """Count a cancelled timer; when most were cancelled, drop them, so that memory follows what is wanted."""
        with self._changed:
            self._forgotten += 1
            if self._forgotten > 64 + len(self._heap) // 2:
                self._heap = [timer for timer in self._heap if timer.then is not None]
                heapq.heapify(self._heap)
                self._forgotten = 0

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next alarm that is due; None when closed."""
        with self._changed:
            while not self._closed:
                while self._heap and self._heap[0].then is None:
                    heapq.heappop(self._heap)
                    self._forgotten = max(0, self._forgotten - 1)
                if not self._heap:
                    self._changed.wait()
                    continue
                wait_s = self._heap[0].at - self.now()
                if wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                timer = heapq.heappop(self._heap)
                then, timer.then = timer.then, None
                if then is not None:
                    return then
        return None

    def _work(self) -> None:
        while True:
            then = self._next()
            if then is None:
                return
            try:
                then()
            except Exception as error:  # noqa: BLE001  # one caller's mistake must not cost all others their alarms
                report(self._log, "timer raised", error)

    def close(self) -> None:
        """End the thread; no alarm rings any more."""
        with self._changed:
            self._closed = True
            self._heap = []
            self._changed.notify()
