"""Rows that are read one after the other, each with its own deadline: one that hangs costs no other.

A system call that hangs cannot be interrupted. Its thread is left to it, the rest continues on another one, and as long
as it hangs the same row is refused at once: there is never more than one thread in the same hole.
"""

import time
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Generic, TypeVar

from api.errors import ExhaustedError, OperatingError, TimedOutError

R = TypeVar("R")
HUNG_LIMIT = 32
"""Threads that may hang at once; past it nothing is begun that could hang too."""


class RowReader(Generic[R]):
    """Reads rows one after the other. `name` is the name of its threads; a read raises an `OperatingError`."""

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._changed = Condition()
        self._hung: dict[str, float] = {}

    @property
    def hung(self) -> tuple[str, ...]:
        """Return the rows that hang now, ascending."""
        with self._changed:
            return tuple(sorted(self._hung))

    def run(
        self, jobs: Sequence[tuple[str, Callable[[], R]]], row_s: float, all_s: float
    ) -> list[R | OperatingError]:
        """Carry out `jobs` (a name and what to do), each within `row_s`, all within `all_s`; one result for each."""
        results: list[R | OperatingError | None] = [None] * len(jobs)
        until = self._clock() + all_s
        at = 0
        while at < len(jobs):
            at = self._go_on(jobs, results, at, row_s, until)
            if self._clock() >= until:
                break
        late = TimedOutError(f"not read: the rows before it took all of {all_s:g} s")
        return [late if result is None else result for result in results]

    def _go_on(
        self,
        jobs: Sequence[tuple[str, Callable[[], R]]],
        results: list[R | OperatingError | None],
        start: int,
        row_s: float,
        until: float,
    ) -> int:
        """Read from `start` on, on a thread of its own, until all are read or one hangs; return where to continue."""
        changed, clock = self._changed, self._clock
        position, begun_at, alive = start, clock(), True

        def work() -> None:
            nonlocal position, begun_at
            while True:
                with changed:
                    if not alive or position >= len(jobs):
                        changed.notify_all()
                        return
                    name, read = jobs[position]
                    since = self._hung.get(name)
                    full = since is None and len(self._hung) >= HUNG_LIMIT
                    begun_at = clock()
                result = self._read(read, since, full=full)
                with changed:
                    if not alive:
                        # The caller has continued without this row, which no longer counts as hanging.
                        self._hung.pop(name, None)
                        return
                    results[position] = result
                    position += 1

        thread = Thread(target=work, name=self._name, daemon=True)
        thread.start()
        with changed:
            while position < len(jobs):
                now = clock()
                over = min(begun_at + row_s, until) - now
                if over <= 0:
                    alive = False
                    name = jobs[position][0]
                    self._hung[name] = begun_at
                    results[position] = TimedOutError(f"hangs for {now - begun_at:.1f} s now")
                    return position + 1
                changed.wait(over)
        return position

    def _read(self, read: Callable[[], R], since: float | None, *, full: bool) -> R | OperatingError:
        if since is not None:
            return TimedOutError(f"still hangs, for {self._clock() - since:.0f} s now")
        if full:
            return ExhaustedError(f"not read: {HUNG_LIMIT} other rows hang")
        try:
            return read()
        except OperatingError as error:
            return error
