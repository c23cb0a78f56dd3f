"""Faults as data: what the intercept seam can break, before or after the effect.

A plan of faults is printed with a seed and repeats it. Each fault strikes matches number ``after`` to
``after + times - 1`` (counted from 0) of what it selects.
"""

from enum import StrEnum

import msgspec


class When(StrEnum):
    """On which side of the effect an operation is broken."""

    BEFORE = "before"
    AFTER = "after"


class Fault(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What all faults have: which matches they strike."""

    after: int = 0
    times: int = 1


class CrashActor(Fault, frozen=True, kw_only=True):
    """Raise in the receiver as it handles a message."""

    path: str
    """Glob over actor paths."""
    message: str = "*"
    """Glob over message class names."""


class DropMessage(Fault, frozen=True, kw_only=True):
    """Lose a message between actors (never a kernel message)."""

    path: str
    message: str = "*"


class DelayMessage(Fault, frozen=True, kw_only=True):
    """Deliver a message later."""

    path: str
    message: str = "*"
    delay_s: float = 1.0


class DuplicateMessage(Fault, frozen=True, kw_only=True):
    """Deliver a message twice."""

    path: str
    message: str = "*"


class FailOperation(Fault, frozen=True, kw_only=True):
    """Make a call fail, before its effect or after it happened."""

    port: str
    call: str = "*"
    """Glob over call class names."""
    when: When = When.BEFORE
    kind: str = "Unavailable"
    """A name of `api.errors.FailureKind`."""


class HangOperation(Fault, frozen=True, kw_only=True):
    """Never complete a call (its deadline does), before its effect or after it."""

    port: str
    call: str = "*"
    when: When = When.BEFORE


class DelayOperation(Fault, frozen=True, kw_only=True):
    """Complete a call later than the port did."""

    port: str
    call: str = "*"
    delay_s: float = 1.0


class CutStream(Fault, frozen=True, kw_only=True):
    """End a stream at its n-th item."""

    stream: str


class DropItem(Fault, frozen=True, kw_only=True):
    """Lose an item of a stream."""

    stream: str


class JumpWallClock(Fault, frozen=True, kw_only=True):
    """Move the wall clock at the n-th reading of it by an actor."""

    by_s: float


class KillProcess(Fault, frozen=True, kw_only=True):
    """Kill the whole agent (SIGKILL) at a call, before its effect or after it."""

    port: str
    call: str = "*"
    when: When = When.BEFORE


AnyFault = (
    CrashActor
    | DropMessage
    | DelayMessage
    | DuplicateMessage
    | FailOperation
    | HangOperation
    | DelayOperation
    | CutStream
    | DropItem
    | JumpWallClock
    | KillProcess
)


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A list of faults, in the order in which they are looked at; the first that strikes wins."""

    faults: tuple[AnyFault, ...] = ()
