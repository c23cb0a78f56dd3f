"""Operations: one call to a port each, from the actor that asked to the outcome that it gets.

An operation belongs to its cell, so it survives the death of an incarnation. It settles exactly once: by what the
port answers, by its deadline, or by being cancelled before it began. A later answer of the port is ignored.

```text
start --> [queued] --before the effect--> port --after the effect--> settle --> Outcome in the cell's control lane
             |                                                         ^
             +---- cancelled before it began, or deadline passed ------+
```

`runtime.kernel.offload` finds threads for calls that hold theirs.
"""

from collections.abc import Callable
from threading import Lock
from typing import Protocol

import msgspec

from api.errors import Failure, FailureKind, OperatingError
from api.faults import When
from api.ids import Instant, OpId, Path
from api.messages.kernel import Outcome
from api.ports.port import BlockingPort, Port, Timers, Undo
from api.shown.introspection import OperationRow
from runtime.kernel.actor import Log
from runtime.kernel.intercept import UNTOUCHED, Fate, Interceptor
from runtime.kernel.meter import OK, Meters
from runtime.kernel.trace import report


class Owner(Protocol):
    """What an operation needs of the cell that it belongs to."""

    @property
    def path(self) -> Path:
        """Return where the cell lives."""
        ...

    def settle(self, operation: "Operation", outcome: Outcome) -> None:
        """Deliver `outcome`, unless the operation has settled before."""
        ...


class OperationHost(Protocol):
    """What an operation needs of the system."""

    timers: Timers
    interceptor: Interceptor | None
    log: Log
    meters: Meters

    @property
    def halted(self) -> bool:
        """Return whether the system is gone as after a kill."""
        ...

    def after_effect(self, then: Callable[[], None]) -> None:
        """Call `then`, which settles an operation, as soon as the executor finds it due."""
        ...


class Operation:
    """One call on its way. Its methods may be called on any thread."""

    __slots__ = (
        "_answered",
        "_begun",
        "_cancel_wanted",
        "_lock",
        "_owner",
        "_system",
        "_timer",
        "_undo",
        "asked_at",
        "call",
        "call_name",
        "deadline_at",
        "op",
        "port",
        "settled",
        "started_at",
    )

    def __init__(
        self,
        system: OperationHost,
        owner: Owner,
        *,
        op: OpId,
        port: Port | BlockingPort,
        call: msgspec.Struct,
        deadline_s: float,
    ) -> None:
        self._system, self._owner = system, owner
        self.op, self.port, self.call, self.call_name = op, port, call, type(call).__name__
        self.asked_at = self.started_at = system.timers.now()
        self.deadline_at = self.asked_at + deadline_s
        self.settled = False
        self._lock = Lock()
        self._begun = self._answered = self._cancel_wanted = False
        self._undo: Undo | None = None
        self._timer: Undo | None = None

    def arm(self) -> None:
        """Let the deadline run. Only now, because it may be over at once and the owner must know the operation."""
        self._timer = self._system.timers.call_at(self.deadline_at, self._expire)
        if self.settled:
            self._timer()

    @property
    def blocking(self) -> bool:
        """Return whether the call holds its thread."""
        return not hasattr(self.port, "begin")

    def row(self, now: Instant) -> OperationRow:
        """Return what people see of it."""
        return OperationRow(
            op=self.op,
            port=self.port.name,
            call=self.call_name,
            age_s=now - self.asked_at,
            deadline_in_s=self.deadline_at - now,
        )

    def carry_out(self) -> None:
        """Make the call, unless that is no longer wanted; a blocking port holds the calling thread."""
        with self._lock:
            if self.settled or self._begun or self._system.halted:
                return
            self._begun = True
        self.started_at = self._system.timers.now()
        seam = self._system.interceptor
        if seam is not None:
            struck = seam.operating(self._owner.path, self.port.name, self.call_name, When.BEFORE)
            if struck.fate is Fate.FAIL:
                self._system.after_effect(lambda: self._settle(None, struck.failure))
            if struck.fate is not Fate.PASS or self._system.halted:
                return
        remaining_s = self.deadline_at - self.started_at
        try:
            if hasattr(self.port, "begin"):
                self._keep_undo(self.port.begin(self.call, remaining_s, self._answer))
            else:
                self._answer(self.port.perform(self.call, remaining_s), None)
        except OperatingError as error:
            self._answer(None, error.failure())
        except Exception as error:  # noqa: BLE001  # a driver's bug is its caller's failure, never the kernel's end
            self._answer(None, self._driver_bug(error))

    def _driver_bug(self, error: Exception) -> Failure:
        where = f"{self.port.name} {self.call_name}"
        report(
            self._system.log,
            "driver raised what no driver may raise",
            error,
            port=self.port.name,
            call=self.call_name,
            path=self._owner.path,
        )
        said = f"{where}: the driver failed with {type(error).__name__}: a bug, see the log; it will be tried again"
        return Failure(kind=FailureKind.UNAVAILABLE, message=said)

    def _keep_undo(self, undo: Undo) -> None:
        with self._lock:
            self._undo = undo
            late = self._cancel_wanted and not self._answered
        if late:
            undo()

    def _answer(self, result: msgspec.Struct | None, failure: Failure | None) -> None:
        """Take the port's answer; only its first counts."""
        with self._lock:
            if self._answered or self._system.halted:
                return
            self._answered = True
        if result is None and failure is None:
            said = f"{self.port.name} {self.call_name}: the driver gave neither a result nor a failure: a bug"
            failure = Failure(kind=FailureKind.UNAVAILABLE, message=said)
        elif failure is not None:
            result = None
        ended_at = self._system.timers.now()
        seam = self._system.interceptor
        struck = UNTOUCHED
        if seam is not None:
            struck = seam.operating(self._owner.path, self.port.name, self.call_name, When.AFTER)
        match struck.fate:
            case Fate.HANG | Fate.KILLED:
                return
            case Fate.FAIL:
                result, failure = None, struck.failure
            case Fate.DELAY:
                self._system.timers.call_at(
                    ended_at + struck.delay_s, lambda: self._settle(result, failure, ended_at)
                )
                return
            case _:
                pass
        self._system.after_effect(lambda: self._settle(result, failure, ended_at))

    def _settle(
        self, result: msgspec.Struct | None, failure: Failure | None, ended_at: Instant | None = None
    ) -> None:
        with self._lock:
            if self.settled or self._system.halted:
                return
            self.settled = True
        if self._timer is not None:
            self._timer()
        outcome = Outcome(
            op=self.op,
            call=self.call_name,
            result=result,
            failure=failure,
            started_at=self.started_at,
            ended_at=self._system.timers.now() if ended_at is None else ended_at,
        )
        took_s = max(0.0, outcome.ended_at - self.asked_at)
        ending = OK if failure is None else failure.kind.value
        self._system.meters.settled(self.port.name, self.call_name, ending, took_s)
        self._owner.settle(self, outcome)

    def _expire(self) -> None:
        if self.settled or self._system.halted:
            return
        limit_s = self.deadline_at - self.asked_at
        what = (
            "not answered" if self._begun else "not even begun, its bound is taken up by calls of its kind,"
        )
        said = f"{self.port.name} {self.call_name}: {what} within {limit_s:g} s; what it did is unknown"
        self._settle(None, Failure(kind=FailureKind.TIMED_OUT, message=said))
        self._undo_call()

    def cancel(self) -> None:
        """Cancel: settle at once if it has not begun, else ask the port, whose answer is still waited for."""
        with self._lock:
            begun = self._begun
            if not begun:
                # A thread that would carry it out finds it begun and leaves it alone.
                self._begun = True
        if begun:
            self._undo_call()
        else:
            said = f"{self.port.name} {self.call_name}: cancelled before it began"
            self._settle(None, Failure(kind=FailureKind.CANCELLED, message=said))

    def _undo_call(self) -> None:
        with self._lock:
            self._cancel_wanted = True
            undo = None if self._answered else self._undo
        if undo is not None:
            try:
                undo()
            except Exception as error:  # noqa: BLE001  # the outcome is still awaited, and its deadline runs
                report(self._system.log, "driver failed to take a call back", error, port=self.port.name)

    def abandon(self) -> None:
        """Forget the operation: its actor is gone. It does not begin any more; what has begun runs to its end."""
        with self._lock:
            self.settled = True
        if self._timer is not None:
            self._timer()
