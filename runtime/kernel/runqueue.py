"""The run queue: cells that wait for a thread, first in, first out, and the threads that sleep because none waits.

A thread that runs a cell takes the next one as soon as its handler returns, so what a handler sends wakes no other
thread: under one interpreter lock that one could only wait for it, and waking it costs more than most handlers take.
What comes from elsewhere wakes a sleeping thread, since all may be asleep. A handler that holds its thread is found by
the watchdog, which has the thread `leave`: what it sent, and sends from then on, is taken by others.

Each step is one operation on a deque, a list or a set, which the interpreter does as a whole.
"""

from collections import deque
from contextlib import suppress
from threading import Lock, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.kernel.cell import Cell


class RunQueue:
    """The queue between those who send and the threads that run cells."""

    __slots__ = ("_runners", "_sleeping", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Cell | None] = deque()
        """In the order in which they came; None ends the thread that takes it."""
        self._sleeping: list[Lock] = []
        """One lock for each thread that sleeps; its release wakes the thread."""
        self._runners: set[int] = set()
        """Threads that come for the next cell by themselves, by `get_ident`."""

    def put(self, cell: "Cell | None") -> None:
        """Queue `cell`, and see that a thread takes it."""
        self.waiting.append(cell)
        if self._sleeping and get_ident() not in self._runners:
            self._wake_one()

    def take(self) -> "Cell | None":
        """Return the next cell; sleep while there is none."""
        while True:
            try:
                return self.waiting.popleft()
            except IndexError:
                self._sleep()

    def _sleep(self) -> None:
        alarm = Lock()
        alarm.acquire()
        self._sleeping.append(alarm)
        # Who put a cell before that saw no thread asleep: check once more.
        if not self.waiting:
            alarm.acquire()
        else:
            with suppress(ValueError):  # another thread woke this one already
                self._sleeping.remove(alarm)

    def join(self) -> None:
        """Count the calling thread among those that come for the next cell by themselves."""
        self._runners.add(get_ident())

    def leave(self, thread: int) -> None:
        """Count `thread` no longer among those that come by themselves, and see that what waits is taken."""
        self._runners.discard(thread)
        if self.waiting:
            self._wake_one()

    def _wake_one(self) -> None:
        with suppress(IndexError):  # all are awake
            self._sleeping.pop().release()
