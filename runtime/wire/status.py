"""gRPC's status codes in our words: what the receiver of a failure is to do."""

from api.errors import Failure, FailureKind

UNIMPLEMENTED = "Unimplemented"
"""The reason of a failure that says: this server does not know the call."""
BROKEN = "Unanswered"
"""The reason of a failure that came from the connection, not from the server's own mind."""

KINDS = {
    "CANCELLED": FailureKind.CANCELLED,
    "UNKNOWN": FailureKind.UNAVAILABLE,
    "INVALID_ARGUMENT": FailureKind.REJECTED,
    "DEADLINE_EXCEEDED": FailureKind.TIMED_OUT,
    "NOT_FOUND": FailureKind.NOT_FOUND,
    "ALREADY_EXISTS": FailureKind.ALREADY_EXISTS,
    "PERMISSION_DENIED": FailureKind.DENIED,
    "RESOURCE_EXHAUSTED": FailureKind.EXHAUSTED,
    "FAILED_PRECONDITION": FailureKind.CONFLICT,
    "ABORTED": FailureKind.CONFLICT,
    "OUT_OF_RANGE": FailureKind.REJECTED,
    "UNIMPLEMENTED": FailureKind.REJECTED,
    "INTERNAL": FailureKind.UNAVAILABLE,
    "UNAVAILABLE": FailureKind.UNAVAILABLE,
    "DATA_LOSS": FailureKind.UNAVAILABLE,
    "UNAUTHENTICATED": FailureKind.DENIED,
}
"""By the name of the code. UNKNOWN is how runtimes return most of their own failures, so it is worth another try."""


def failure_of(code: str, details: str, *, what: str, where: str) -> Failure:
    """Return the failure of a call: `what` was asked `where`, the server answered `code` with `details`."""
    kind = KINDS.get(code, FailureKind.UNAVAILABLE)
    said = " ".join(details.split())
    match code:
        case "DEADLINE_EXCEEDED":
            return Failure(
                kind=kind,
                message=f"{what}: not answered in time over {where}: the server behind it hangs or is overloaded; what the call did is unknown",
            )
        case "CANCELLED":
            return Failure(kind=kind, message=f"{what}: cancelled")
        case "UNIMPLEMENTED":
            return Failure(
                kind=kind, message=f"{what}: the server on {where} does not offer this", reason=UNIMPLEMENTED
            )
        case _:
            return Failure(kind=kind, message=f"{what}: {said or code.lower().replace('_', ' ')}")
