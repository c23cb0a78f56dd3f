"""The one seam through which every delivery, operation, stream item, timer and reading of the wall clock passes.

Production runs without an interceptor and pays one comparison. `FaultInterceptor` breaks things as a
`api.faults.FaultPlan` says, counts what struck, and records every point that could have been struck.
"""

from collections.abc import Callable
from enum import Enum, auto
from fnmatch import fnmatchcase
from threading import RLock
from typing import Protocol

import msgspec

from api.errors import Failure, FailureKind
from api.faults import (
    AnyFault,
    CrashActor,
    CutStream,
    DelayMessage,
    DelayOperation,
    DropItem,
    DropMessage,
    DuplicateMessage,
    FailOperation,
    FaultPlan,
    HangOperation,
    JumpWallClock,
    KillProcess,
    When,
)
from api.ids import Instant, Path
from api.messages import Message


class FaultError(Exception):
    """Raised in an actor by a planned crash."""


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """How often a message is delivered (0: lost), and how much later."""

    copies: int = 1
    delay_s: float = 0.0


class Fate(Enum):
    """What becomes of an operation or a stream item at the seam."""

    PASS = auto()
    FAIL = auto()  # the operation's outcome is the failure given
    HANG = auto()  # nothing more happens until the operation's deadline
    DELAY = auto()  # the outcome comes later
    KILLED = auto()  # the process is gone; nothing more may happen
    DROP = auto()  # the item is lost
    CUT = auto()  # the stream ends here


class Struck(msgspec.Struct, frozen=True, kw_only=True):
    """The seam's verdict on one operation or item."""

    fate: Fate = Fate.PASS
    failure: Failure | None = None
    delay_s: float = 0.0


UNTOUCHED = Struck()
ONCE = Sending()


class Interceptor(Protocol):
    """Sees everything that crosses between an actor and what is not it. Methods may run on any thread."""

    def sending(self, path: Path, message: Message) -> Sending:
        """Judge a message sent to `path`; kernel messages never come here."""
        ...

    def delivering(self, path: Path, message: Message) -> None:
        """See a message, a kernel message too, as its receiver is about to handle it; raise to crash the receiver."""
        ...

    def crashing(self, path: Path, error: BaseException) -> None:
        """See that an incarnation dies of an exception: of a bug, or of what `delivering` raised."""
        ...

    def operating(self, path: Path, port: str, call: str, when: When) -> Struck:
        """Judge an operation just before its effect, or its outcome just after it."""
        ...

    def hearing(self, path: Path, stream: str, item: Message) -> Struck:
        """Judge an item of a stream."""
        ...

    def waking(self, path: Path, at: Instant) -> None:
        """See that an actor's alarm rings."""
        ...

    def reading_wall(self, path: Path) -> float:
        """Return by how many seconds the wall clock jumps as this actor reads it."""
        ...


class FaultInterceptor:
    """Breaks things as a plan says. `on_kill` must end the whole agent: SIGKILL, or the simulation's `halt`."""

    def __init__(self, plan: FaultPlan, on_kill: Callable[[], None]) -> None:
        for fault in plan.faults:
            if isinstance(fault, FailOperation):
                FailureKind(fault.kind)  # A misspelt kind is found now and not in the middle of an operation.
        self.plan = plan
        self._on_kill = on_kill
        self._lock = RLock()
        self._matches = [0] * len(plan.faults)
        self._strikes = [0] * len(plan.faults)
        self._points: dict[tuple[str, str, When], int] = {}
        self.unplanned: list[tuple[Path, str]] = []
        """Which incarnations died of an exception that no fault of the plan raised, and of what."""

    @property
    def struck(self) -> tuple[tuple[AnyFault, int], ...]:
        """Return each fault of the plan with how often it struck."""
        return tuple(zip(self.plan.faults, self._strikes, strict=True))

    @property
    def points(self) -> tuple[tuple[str, str, When, int], ...]:
        """Return every point of an operation seen so far: port, call, side, how often."""
        with self._lock:
            return tuple(sorted((port, call, when, n) for (port, call, when), n in self._points.items()))

    def _strike(self, selects: Callable[[AnyFault], bool]) -> AnyFault | None:
        """Count the match on every fault that selects it; return the first that strikes now."""
        first = None
        with self._lock:
            for index, fault in enumerate(self.plan.faults):
                if not selects(fault):
                    continue
                match = self._matches[index]
                self._matches[index] += 1
                if first is None and fault.after <= match < fault.after + fault.times:
                    self._strikes[index] += 1
                    first = fault
        return first

    def sending(self, path: Path, message: Message) -> Sending:
        """Lose, delay or duplicate a message between actors."""
        name = type(message).__name__
        match self._strike(
            lambda fault: (
                isinstance(fault, DropMessage | DelayMessage | DuplicateMessage)
                and fnmatchcase(path, fault.path)
                and fnmatchcase(name, fault.message)
            )
        ):
            case DropMessage():
                return Sending(copies=0)
            case DelayMessage(delay_s=delay_s):
                return Sending(delay_s=delay_s)
            case DuplicateMessage():
                return Sending(copies=2)
            case _:
                return ONCE

    def delivering(self, path: Path, message: Message) -> None:
        """Crash a receiver."""
        name = type(message).__name__
        fault = self._strike(
            lambda fault: (
                isinstance(fault, CrashActor)
                and fnmatchcase(path, fault.path)
                and fnmatchcase(name, fault.message)
            )
        )
        if fault is not None:
            raise FaultError(f"planned crash of {path} on {name}")

    def crashing(self, path: Path, error: BaseException) -> None:
        """Keep a death that was not planned."""
        if not isinstance(error, FaultError):
            self.unplanned.append((path, f"{type(error).__name__}: {error}"))

    def operating(self, path: Path, port: str, call: str, when: When) -> Struck:
        """Fail, hang, delay or kill at an operation, and record the point."""
        with self._lock:
            point = (port, call, when)
            self._points[point] = self._points.get(point, 0) + 1

        def selects(fault: AnyFault) -> bool:
            match fault:
                case FailOperation() | HangOperation() | KillProcess():
                    side = fault.when
                case DelayOperation():
                    side = When.AFTER
                case _:
                    return False
            return side is when and fnmatchcase(port, fault.port) and fnmatchcase(call, fault.call)

        match self._strike(selects):
            case FailOperation(kind=kind):
                said = f"{port} {call} for {path}: planned failure {when} the effect"
                return Struck(fate=Fate.FAIL, failure=Failure(kind=FailureKind(kind), message=said))
            case HangOperation():
                return Struck(fate=Fate.HANG)
            case DelayOperation(delay_s=delay_s):
                return Struck(fate=Fate.DELAY, delay_s=delay_s)
            case KillProcess():
                self._on_kill()
                return Struck(fate=Fate.KILLED)
            case _:
                return UNTOUCHED

    def hearing(self, path: Path, stream: str, item: Message) -> Struck:  # noqa: ARG002  # faults name streams only
        """Lose an item or end its stream."""
        match self._strike(
            lambda fault: isinstance(fault, CutStream | DropItem) and fnmatchcase(stream, fault.stream)
        ):
            case CutStream():
                said = f"stream {stream}: planned cut"
                return Struck(fate=Fate.CUT, failure=Failure(kind=FailureKind.UNAVAILABLE, message=said))
            case DropItem():
                return Struck(fate=Fate.DROP)
            case _:
                return UNTOUCHED

    def waking(self, path: Path, at: Instant) -> None:
        """Let every alarm ring."""

    def reading_wall(self, path: Path) -> float:  # noqa: ARG002  # all actors read one wall clock
        """Jump the wall clock."""
        fault = self._strike(lambda fault: isinstance(fault, JumpWallClock))
        return fault.by_s if isinstance(fault, JumpWallClock) else 0.0
