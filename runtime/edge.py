"""The edge: asking a port from outside the actor system, on a thread that may wait (the admin socket's, the main one)."""

import threading

import msgspec

from api.errors import Failure, FailureKind, OperatingError, TimedOutError, UnavailableError
from api.ports.port import BlockingPort, Port

KINDS: dict[FailureKind, type[OperatingError]] = {cls.kind: cls for cls in OperatingError.__subclasses__()}


def perform(port: Port | BlockingPort, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:
    """Make one call and wait for its result.

    Raises the `OperatingError` of the failure's kind; `TimedOutError` when nothing came in `deadline_s`.
    """
    if not hasattr(port, "begin"):
        return port.perform(call, deadline_s)
    ended = threading.Event()
    answer: list[tuple[msgspec.Struct | None, Failure | None]] = []

    def done(result: msgspec.Struct | None, failure: Failure | None) -> None:
        if not answer:
            answer.append((result, failure))
        ended.set()

    undo = port.begin(call, deadline_s, done)
    # The port keeps the deadline itself; the margin is for one that does not.
    if not ended.wait(deadline_s + 1.0):
        undo()
        raise TimedOutError(f"{port.name} did not answer {type(call).__name__} within {deadline_s:.0f} s")
    result, failure = answer[0]
    if failure is not None:
        raise KINDS.get(failure.kind, UnavailableError)(failure.message, reason=failure.reason)
    if result is None:
        raise UnavailableError(f"{port.name} answered {type(call).__name__} with nothing")
    return result
