"""Threads for calls that hold theirs: one at a time for short calls, as many as the bound allows for long ones.

A port says which of its calls are short: a few files read or written. A row of those is done soonest by one thread:
several take the interpreter's lock from each other at every system call, which doubles what each of them costs. So the
thread goes on with what waits, and another one helps it only when no call was begun for `PATIENCE_S`: then the call under
way hangs, or takes long after all.

The bound is per port and class of call, so that a hundred blocking stops never starve a listing; all threads are
daemons, so that a hung call never holds up an exit.
"""

import time
from collections import deque
from threading import Condition, Lock, Thread

from runtime.kernel.operations import Operation

DEFAULT_BOUND = 16
"""Calls of one class on one blocking port that run at the same time, unless the port's `bounds` say otherwise."""
PATIENCE_S = 0.25
"""How long a short call waits for the thread that is at work before another one takes it."""
IDLE_THREAD_S = 10.0
"""How long a thread waits for the next call before it ends."""


class Lane:
    """The calls of one class on one blocking port: those that wait, and the threads that carry them out.

    ```text
    a thread that ended a call ------ takes the next one at once, or waits
    a thread that waits ------------- takes one when no thread is at work, or none began one for `patience_s`
    calls wait, and no thread does -- a further one is made, up to the bound
    ```
    """

    __slots__ = (
        "_begun_at",
        "_bound",
        "_busy",
        "_idle",
        "_name",
        "_patience_s",
        "_ready",
        "_threads",
        "_waiting",
        "_watched",
    )

    def __init__(self, name: str, bound: int, patience_s: float = 0.0) -> None:
        self._name, self._bound, self._patience_s = name, bound, patience_s
        self._ready = Condition(Lock())
        self._waiting: deque[Operation] = deque()
        self._threads = self._idle = self._busy = 0
        self._begun_at = float("-inf")
        """When a call was begun last."""
        self._watched = False
        """One thread waits for what waits, or is about to."""

    @property
    def threads(self) -> int:
        """Return how many threads there are now."""
        return self._threads

    def submit(self, operation: Operation) -> None:
        """Carry out `operation` in order, as soon as the bound allows."""
        with self._ready:
            self._waiting.append(operation)
            grows = self._watch()
        if grows:
            self._grow()

    def _watch(self) -> bool:
        """Have one thread wait for the calls that wait; return whether it must be made first. Under the lock."""
        if self._watched:
            return False
        grows = not self._idle
        if grows and self._threads >= self._bound:
            return False
        self._watched = True
        if grows:
            self._threads += 1
        else:
            self._ready.notify()
        return grows

    def _grow(self) -> None:
        """Make the thread that was promised. Raises RuntimeError when the machine has none to give and none is there."""
        try:
            Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:
            with self._ready:
                self._threads -= 1
                self._watched = False
                alone = not self._threads
            if alone:
                raise
            # Those that are there go on, and the next call asks for one again.

    def _next(self, *, goes_on: bool) -> Operation | None:
        """Wait for a call and take it; None when there was none for long. `goes_on`: this thread has just ended one."""
        with self._ready:
            self._busy -= goes_on
            while True:
                while self._waiting and self._waiting[0].settled:
                    self._waiting.popleft()
                stalled_at = self._begun_at + self._patience_s
                now = time.monotonic()
                if self._waiting and (goes_on or not self._busy or now >= stalled_at):
                    break
                calm = not self._waiting
                if calm:
                    self._watched = False
                self._idle += 1
                notified = self._ready.wait(IDLE_THREAD_S if calm else stalled_at - now)
                self._idle -= 1
                goes_on = False
                if calm and not notified and not self._waiting:
                    self._threads -= 1
                    return None
            operation = self._waiting.popleft()
            self._busy += 1
            self._begun_at = now
            self._watched = self._watched and goes_on
            grows = bool(self._waiting) and self._watch()
        if grows:
            self._grow()
        return operation

    def _work(self) -> None:
        operation = self._next(goes_on=False)
        while operation is not None:
            operation.carry_out()
            # A waiting thread must not keep the last call and its result alive.
            del operation
            operation = self._next(goes_on=True)


class Offload:
    """Threads for blocking ports, bounded per port and class of call."""

    def __init__(self, bound: int = DEFAULT_BOUND) -> None:
        self._bound = bound
        self._lock = Lock()
        self._lanes: dict[tuple[str, str], Lane] = {}

    @property
    def threads(self) -> int:
        """Return how many threads there are now."""
        with self._lock:
            return sum(lane.threads for lane in self._lanes.values())

    def submit(self, operation: Operation) -> None:
        """Carry out `operation` on a daemon thread, as soon as its bound allows."""
        key = (operation.port.name, operation.call_name)
        with self._lock:
            lane = self._lanes.get(key)
            if lane is None:
                bounds = getattr(operation.port, "bounds", None) or {}
                bound = int(bounds.get(operation.call_name, self._bound))
                patience_s = (
                    PATIENCE_S if operation.call_name in getattr(operation.port, "short", ()) else 0.0
                )
                lane = self._lanes[key] = Lane(f"{key[0]}.{key[1]}", bound, patience_s)
        lane.submit(operation)
