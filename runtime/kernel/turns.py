"""Cells that wait for a thread, first come, first served; the threads that have none sleep here.

A thread that runs a cell takes the next one as soon as its handler returns. So what a handler tells rouses nobody: under
one interpreter lock the other thread could only wait for it, and waking it costs more than most handlers take. Whatever
comes from elsewhere rouses a sleeper, since nobody may be awake. A handler that holds its thread is found by the
watchdog, which has the thread `resign`: what it told then, and tells from then on, is taken by others.

All steps are single operations on a deque, a list and a set, which the interpreter does as a whole.
"""

from collections import deque
from contextlib import suppress
from threading import Lock, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.kernel.cell import Cell


class Turns:
    """The queue between those who tell and the threads that run cells."""

    __slots__ = ("_crew", "_sleepers", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Cell | None] = deque()
        """In the order of their turns; None tells the thread that takes it to end."""
        self._sleepers: list[Lock] = []
        self._crew: set[int] = set()
        """Threads that come for the next cell by themselves, by `get_ident`."""

    def put(self, cell: "Cell | None") -> None:
        """Queue `cell`, and see that a thread takes it."""
        self.waiting.append(cell)
        if self._sleepers and get_ident() not in self._crew:
            self._rouse()

    def take(self) -> "Cell | None":
        """Return who is next; wait while nobody is."""
        waiting = self.waiting
        while True:
            try:
                return waiting.popleft()
            except IndexError:
                self._sleep()

    def _sleep(self) -> None:
        bell = Lock()
        bell.acquire()
        self._sleepers.append(bell)
        # Who put a cell before that saw nobody asleep: it must be looked for once more.
        if not self.waiting:
            bell.acquire()
        else:
            with suppress(ValueError):  # somebody roused us already
                self._sleepers.remove(bell)

    def enlist(self) -> None:
        """Count the calling thread among those that come for the next cell by themselves."""
        self._crew.add(get_ident())

    def resign(self, thread: int | None) -> None:
        """Count `thread` no longer among those that come by themselves, and see that what waits is taken."""
        self._crew.discard(thread or 0)
        if self.waiting:
            self._rouse()

    def _rouse(self) -> None:
        with suppress(IndexError):  # all are awake
            self._sleepers.pop().release()
