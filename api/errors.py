"""Operating errors: the few kinds of failure, each defined by what the receiver is to do about it.

Drivers translate every foreign exception into one of these at their boundary. Failure crosses actors as the
data type `Failure`; the exception classes exist for code that calls a driver directly.
"""

from enum import StrEnum

import msgspec


class FailureKind(StrEnum):
    """What to do about a failure."""

    UNAVAILABLE = "Unavailable"  # retry with back-off
    TIMED_OUT = "TimedOut"  # outcome unknown: inspect first
    EXHAUSTED = "Exhausted"  # shed load
    NOT_FOUND = "NotFound"  # done, or create again
    ALREADY_EXISTS = "AlreadyExists"  # adopt
    CONFLICT = "Conflict"  # read again
    REJECTED = "Rejected"  # publish, wait for a new spec
    DENIED = "Denied"  # publish, retry slowly
    CANCELLED = "Cancelled"  # we asked for it


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure as data.

    `message` names what failed, where, why and what the user can do. `reason` is the CamelCase word to publish,
    empty when the receiver chooses it.
    """

    kind: FailureKind
    message: str
    reason: str = ""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"{self.kind}: {self.message}"


class OperatingError(Exception):
    """A failure that is part of normal operation; each subclass is one kind."""

    kind: FailureKind = FailureKind.UNAVAILABLE

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason

    def failure(self) -> Failure:
        """Return the same failure as data."""
        return Failure(kind=self.kind, message=str(self), reason=self.reason)


class UnavailableError(OperatingError):
    """Retry with back-off."""

    kind = FailureKind.UNAVAILABLE


class TimedOutError(OperatingError):
    """The outcome is unknown: inspect first, then decide."""

    kind = FailureKind.TIMED_OUT


class ExhaustedError(OperatingError):
    """A limit is reached: shed load."""

    kind = FailureKind.EXHAUSTED


class NotFoundError(OperatingError):
    """Not there: done when stopping or removing, else create again."""

    kind = FailureKind.NOT_FOUND


class AlreadyExistsError(OperatingError):
    """It is there already: adopt it."""

    kind = FailureKind.ALREADY_EXISTS


class ConflictError(OperatingError):
    """Somebody else changed it: read again."""

    kind = FailureKind.CONFLICT


class RejectedError(OperatingError):
    """The request itself is wrong: publish, wait for a new spec."""

    kind = FailureKind.REJECTED


class DeniedError(OperatingError):
    """Not permitted: publish, retry slowly."""

    kind = FailureKind.DENIED


class CancelledOperationError(OperatingError):
    """We asked for it to end."""

    kind = FailureKind.CANCELLED
