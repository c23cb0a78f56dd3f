"""Calls under way: each is a generator that yields what it asks for and is sent the answers, on whatever thread they come.

No thread is held while an answer is awaited, and the steps of one call never run side by side.
"""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from api.errors import CancelledOperationError, Failure, FailureKind, OperatingError, TimedOutError
from api.ids import Instant
from api.ports.port import Done, Undo

Answer = Callable[[Any, Failure | None], None]
T = TypeVar("T")
ERRORS: dict[FailureKind, type[OperatingError]] = {
    kind.kind: kind for kind in OperatingError.__subclasses__()
}


class Ask(Protocol):
    """Something that a call waits for."""

    def begin(self, left_s: float, answer: Answer) -> Undo:
        """Start it, to be over within `left_s` seconds; `answer` follows on any thread."""
        ...


Steps = Generator[Ask, Any, T]


def raised(failure: Failure) -> OperatingError:
    """Return the exception that says the same as `failure`."""
    return ERRORS[failure.kind](failure.message, reason=failure.reason)


class Together:
    """Several asks side by side; the answer is a list of results and `OperatingError`s, in their order."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self._asks = asks

    def begin(self, left_s: float, answer: Answer) -> Undo:
        """Start all of them; the answer comes when the last of theirs did."""
        results: list[Any] = [None] * len(self._asks)
        lock = threading.Lock()
        missing = len(self._asks)
        if not missing:
            answer(results, None)
            return nothing

        def taker(index: int) -> Answer:
            def take(result: Any, failure: Failure | None) -> None:
                nonlocal missing
                results[index] = result if failure is None else raised(failure)
                with lock:
                    missing -= 1
                    last = missing == 0
                if last:
                    answer(results, None)

            return take

        undos = [ask.begin(left_s, taker(index)) for index, ask in enumerate(self._asks)]

        def undo() -> None:
            for one in undos:
                one()

        return undo


class OpenCall:
    """One call: completed once, by its steps' result, their failure or its cancellation."""

    def __init__(
        self, steps: Steps[msgspec.Struct], deadline_s: float, done: Done, *, what: str, cancellable: bool
    ) -> None:
        self._steps = steps
        self._deadline_at: Instant = time.monotonic() + deadline_s
        self._done = done
        self._what = what
        self._cancellable = cancellable
        self._lock = threading.Lock()
        self._cancelled = False
        self._asked = 0
        self._undo: Undo = nothing

    def start(self) -> None:
        """Take the first step."""
        self._advance(None, None)

    def cancel(self) -> None:
        """Give up waiting, where that may be; the answer is still given, once."""
        with self._lock:
            if self._cancelled or not self._cancellable:
                return
            self._cancelled = True
            undo = self._undo
        undo()

    def _advance(self, result: Any, failure: Failure | None) -> None:
        """Send an answer in and begin what is asked for next."""
        over = Failure(
            kind=FailureKind.UNAVAILABLE, message=f"{self._what}: the driver failed: a bug, see the log"
        )
        outcome: msgspec.Struct | None = None
        ask: Ask | None = None
        try:
            with self._lock:
                cancelled = self._cancelled
            if cancelled:
                ask = self._steps.throw(CancelledOperationError(f"{self._what} was cancelled"))
            elif failure is not None:
                ask = self._steps.throw(raised(failure))
            else:
                ask = self._steps.send(result)
        except StopIteration as stop:
            outcome = stop.value
        except OperatingError as error:
            over = error.failure()
        finally:
            # Also after a bug: the caller gets its answer at once, not at the deadline.
            if ask is None:
                self._done(outcome, None if outcome is not None else over)
        if ask is not None:
            self._begin(ask)

    def _begin(self, ask: Ask) -> None:
        left_s = self._deadline_at - time.monotonic()
        if left_s <= 0:
            late = TimedOutError(f"{self._what}: timed out; its effect is unknown")
            self._advance(None, late.failure())
            return
        with self._lock:
            self._asked += 1
            number = self._asked
            self._undo = nothing
        undo = ask.begin(left_s, self._advance)
        with self._lock:
            if self._asked != number:
                # It was answered already, and the next thing is under way.
                return
            self._undo = undo
            cancelled = self._cancelled
        if cancelled:
            undo()


def start_call(
    steps: Steps[msgspec.Struct], deadline_s: float, done: Done, *, what: str, cancellable: bool
) -> Undo:
    """Take the first step of a call; what is returned gives up waiting for it, where that may be."""
    call = OpenCall(steps, deadline_s, done, what=what, cancellable=cancellable)
    call.start()
    return call.cancel


def nothing() -> None:
    """Take back what needs no taking back."""
