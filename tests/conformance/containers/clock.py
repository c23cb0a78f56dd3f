"""Clocks for the memory driver: one where time passes, one where the suite makes it pass."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable

from api.ids import Instant, WallNs
from api.ports.port import Undo


class RealClock:
    """Monotonic time, with one daemon thread that calls what is due."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._heap: list[tuple[Instant, int, Callable[[], None]]] = []
        self._gone: set[int] = set()
        self._numbers = itertools.count()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="suite-clock", daemon=True)
        self._thread.start()

    def now(self) -> Instant:
        return time.monotonic()

    def wall(self) -> WallNs:
        return time.time_ns()

    def call_at(self, at: Instant, then: Callable[[], None]) -> Undo:
        with self._condition:
            number = next(self._numbers)
            heapq.heappush(self._heap, (at, number, then))
            self._condition.notify()

        def undo() -> None:
            with self._condition:
                self._gone.add(number)

        return undo

    def let_pass(self, at_most_s: float) -> None:
        threading.Event().wait(min(0.002, at_most_s))

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join(timeout=5)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._closed and (not self._heap or self._heap[0][0] > self.now()):
                    self._condition.wait(self._heap[0][0] - self.now() if self._heap else None)
                if self._closed:
                    return
                _, number, then = heapq.heappop(self._heap)
                if number in self._gone:
                    continue
            then()


class VirtualClock:
    """Time that passes only in `let_pass`, one due call at a time."""

    def __init__(self) -> None:
        self._now = 0.0
        self._heap: list[tuple[Instant, int, Callable[[], None]]] = []
        self._gone: set[int] = set()
        self._numbers = itertools.count()

    def now(self) -> Instant:
        return self._now

    def wall(self) -> WallNs:
        return 1_700_000_000_000_000_000 + round(self._now * 1e9)

    def call_at(self, at: Instant, then: Callable[[], None]) -> Undo:
        number = next(self._numbers)
        heapq.heappush(self._heap, (at, number, then))
        return lambda: self._gone.add(number)

    def let_pass(self, at_most_s: float) -> None:
        step_s = min(at_most_s, 0.02)
        if not self._heap or self._heap[0][0] > self._now + step_s:
            self._now += step_s
            return
        at, number, then = heapq.heappop(self._heap)
        if number not in self._gone:
            self._now = max(self._now, at)
            then()

    def close(self) -> None:
        pass
