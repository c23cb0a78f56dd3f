"""Answers of what a sink of statuses calls."""

from api.errors import Failure
from api.messages.kernel import Outcome
from api.ports.call import Done


def answer(op, call, at, kind=None):
    """Return the answer to a call by its class name: done, or this kind of failure."""
    failure = Failure(kind=kind, message="it cannot be written") if kind else None
    result = None if kind else Done()
    return Outcome(op=op, call=call, result=result, failure=failure, started_at=at, ended_at=at)
