"""Calls under way on a world in memory: each takes the time that is drawn for it, and ends at its deadline at the latest.

All ports of one world share these: one lock, one source of chance, one order in which things happen. Callbacks are called
outside the lock, on whatever thread made them due.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from api.errors import Failure, FailureKind, OperatingError
from api.ports.port import Done, Timers, Undo


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long the runtime takes, each as (least, most) seconds; drawn from the world's seed."""

    effect_s: tuple[float, float] = (0.0, 0.0)
    pull_s: tuple[float, float] = (0.0, 0.0)
    """Until an image is fetched that is not held; instead of `effect_s`."""
    reply_s: tuple[float, float] = (0.0, 0.0)
    event_s: tuple[float, float] = (0.0, 0.0)


class Named(Protocol):
    """A call of any port."""

    def brief(self) -> str:
        """Return one line for traces."""
        ...


class MemoryCall:
    """A call in flight; `done` is called at most once."""

    def __init__(self, call: Named, done: Done) -> None:
        self.call = call
        self.done: Done | None = done
        self.cancelled = False
        self.undo: list[Undo] = []


Effect = Callable[[MemoryCall], msgspec.Struct | None]
"""Makes a call's effect happen and returns its answer, None for one that follows later. Raises an `OperatingError`."""


class MemoryCalls:
    """The calls under way, and the turns of the lock in which things happen.

    With no `Latency` an effect and its `done` happen within `begin`. A call that was cancelled or timed out before its
    effect happens all the same (the request had been sent), except for what only waits.
    """

    def __init__(self, timers: Timers, *, seed: int, latency: Latency) -> None:
        self.latency = latency
        self.on_answer: Callable[[msgspec.Struct | None], None] = lambda _result: None
        """Is shown each result right before the agent is."""
        self._timers = timers
        self._random = random.Random(seed)  # noqa: S311  # a simulation repeats its seed
        self.lock = threading.RLock()
        self._turning = False
        self._due: list[Callable[[], None]] = []
        self._pending: dict[MemoryCall, None] = {}

    def begin(
        self,
        call: Named,
        deadline_s: float,
        done: Done,
        effect: Effect,
        *,
        takes_s: tuple[float, float],
        waits: bool,
    ) -> Undo:
        """Have `effect` happen after a time drawn from `takes_s`; `waits`: not if the call is cancelled before."""
        with self.turn():
            pending = MemoryCall(call, done)
            self._pending[pending] = None
            self.later(pending, deadline_s, lambda: self._give_up(pending, deadline_s))
            self.after(takes_s, lambda: self._carry_out(pending, effect, waits=waits))
        return self.guarded(lambda: self._cancel(pending))

    def reply(self, pending: MemoryCall, result: msgspec.Struct | None, failure: Failure | None) -> None:
        """Answer a call, after a drawn time; only the first answer counts."""
        if pending.done is None:
            return
        self.after(self.latency.reply_s, lambda: self._settle(pending, result, failure))

    def forget(self) -> None:
        """Forget the agent, which was killed: no callback reaches it any more. What it asked for goes on."""
        with self.turn():
            for pending in self._pending:
                pending.done = None
            self._pending.clear()

    def _carry_out(self, pending: MemoryCall, effect: Effect, *, waits: bool) -> None:
        if pending.cancelled and waits:
            return
        try:
            result = effect(pending)
        except OperatingError as error:
            self.reply(pending, None, error.failure())
        else:
            if result is not None:
                self.reply(pending, result, None)

    def _settle(self, pending: MemoryCall, result: msgspec.Struct | None, failure: Failure | None) -> None:
        done, pending.done = pending.done, None
        self._pending.pop(pending, None)
        for undo in pending.undo:
            undo()
        if done is None:
            return
        self.on_answer(result)
        self.soon(lambda: done(result, failure))

    def _cancel(self, pending: MemoryCall) -> None:
        if pending.done is not None:
            pending.cancelled = True
            message = f"{pending.call.brief()} was cancelled; it may have happened"
            self._settle(pending, None, Failure(kind=FailureKind.CANCELLED, message=message))

    def _give_up(self, pending: MemoryCall, deadline_s: float) -> None:
        message = (
            f"{pending.call.brief()} did not end within {deadline_s:g} s; it may have happened: look first"
        )
        self._settle(pending, None, Failure(kind=FailureKind.TIMED_OUT, message=message))

    # ------------------------------------------------------------ turns and timers

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock, then call what became due, without it."""
        with self.lock:
            outermost = not self._turning
            self._turning = True
            try:
                yield
            finally:
                due: list[Callable[[], None]] = []
                if outermost:
                    self._turning = False
                    due, self._due = self._due, due
        for callback in due:
            callback()

    def guarded(self, then: Callable[[], None]) -> Callable[[], None]:
        """Return `then` in a turn of its own."""

        def turn() -> None:
            with self.turn():
                then()

        return turn

    def soon(self, callback: Callable[[], None]) -> None:
        """Call `callback` when this turn is over, outside the lock."""
        self._due.append(callback)

    def after(self, between_s: tuple[float, float], then: Callable[[], None]) -> None:
        """Have `then` happen after a drawn time, at once where that is none."""
        delay_s = self._random.uniform(*between_s) if between_s[1] > 0 else 0.0
        if delay_s <= 0:
            then()
        else:
            self._timers.call_at(self._timers.now() + delay_s, self.guarded(then))

    def later(self, pending: MemoryCall, delay_s: float, then: Callable[[], None]) -> None:
        """Have `then` happen in so many seconds, unless the call was answered before."""
        pending.undo.append(self._timers.call_at(self._timers.now() + delay_s, self.guarded(then)))
