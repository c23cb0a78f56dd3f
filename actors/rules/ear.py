"""How a stream of hints is listened to: again and again, with growing pauses while it can not be had."""

import msgspec
from msgspec.structs import replace

from actors.rules.retry import RetryPolicy
from api.errors import Failure
from api.ids import Instant

RETRY = RetryPolicy(base_s=1.0, limit_s=300.0)
STEADY_S = 60.0
"""A stream that was open for so long was well: what ends it then is news."""


class Ear(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a stream is open, and if not why, and when it is tried again."""

    is_open: bool = False
    since: Instant = 0.0
    """Of being open or not."""
    retry_at: Instant = float("-inf")
    failures: int = 0
    """In a row."""
    why: str = ""
    """Why it was not to be had the last time; empty when it always was."""


def is_due(ear: Ear, now: Instant) -> bool:
    """Tell whether to listen now."""
    return not ear.is_open and now >= ear.retry_at


def listening(ear: Ear, now: Instant) -> Ear:
    """Return the ear of who has begun to listen."""
    return replace(ear, is_open=True, since=now)


def deaf(ear: Ear, failure: Failure | None, now: Instant) -> Ear:
    """Return the ear of who hears nothing any more."""
    failures = 1 if now - ear.since >= STEADY_S else ear.failures + 1
    why = failure.message if failure is not None else "it was closed"
    return Ear(since=now, retry_at=now + RETRY.wait_s(failures), failures=failures, why=why)


def wakes(ear: Ear) -> tuple[Instant, ...]:
    """Return when to look again."""
    return () if ear.is_open else (ear.retry_at,)


def fell_deaf(before: Ear, after: Ear) -> bool:
    """Tell whether it is news that nothing is heard: the same reason again is none."""
    return bool(after.why) and not after.is_open and after.why != before.why
