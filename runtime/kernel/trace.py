"""What the kernel keeps for people: the last deliveries of each actor, and the last dead letters.

Texts are rendered when the delivery happens and cut, so that memory is bounded: a trace keeps nothing large, and no
value that a message must not show. Rings become shorter as actors become many.
"""

import traceback
from collections import deque
from threading import Lock
from typing import Any

from api.ids import Instant, Path
from api.messages import Message
from api.shown.introspection import DeadLetterRow, TraceRow
from runtime.kernel.actor import Log

RING_DEPTH = 16
TRACE_LIMIT_BYTES = 8 * 1024 * 1024
TEXT_LIMIT = 160
ENTRY_LIMIT_BYTES = 72 + 2 * 24 + 2 * (64 + TEXT_LIMIT)
"""A tuple of four, two floats and two strings: what one entry of a ring can cost at most."""

Entry = tuple[Instant, float, str, str]
"""When, how long, the message, what came of it."""


def cut(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return `text` in one line of at most `limit` characters."""
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return text.replace("\n", " ") if "\n" in text else text


def brief(message: Any) -> str:
    """Return the message's own line; what is no message, or fails to give a line, is named by its class."""
    try:
        return cut(message.brief())
    except Exception as error:  # noqa: BLE001  # a faulty brief must not cost the actor that merely got the message
        name = type(message).__name__
        return f"{name} (its brief() raised {type(error).__name__})" if isinstance(message, Message) else name


def report(log: Log, text: str, error: BaseException, **facts: object) -> None:
    """Log a bug with the place where it is."""
    log.error(text, **facts, traceback="".join(traceback.format_exception(error)))


class Ring(list[Entry]):
    """The last deliveries of one actor, oldest first. Only the thread that runs the actor adds to it."""

    __slots__ = ()

    def add(self, entry: Entry, depth: int) -> None:
        """Keep `entry`, and drop what is older than the last `depth`."""
        self.append(entry)
        if len(self) > depth:
            del self[0]

    def trim(self, depth: int) -> None:
        """Drop what is older than the last `depth`."""
        if len(self) > depth:
            del self[:-depth]

    def rows(self, path: Path, limit: int) -> tuple[TraceRow, ...]:
        """Return the last `limit` deliveries, oldest first."""
        last = self[-limit:] if limit > 0 else []
        return tuple(
            TraceRow(at=at, path=path, message=message, outcome=outcome, took_s=took_s)
            for at, took_s, message, outcome in last
        )


def ring_depth(actors: int) -> int:
    """Return how many deliveries each of so many actors may keep within the limit for all."""
    return max(1, min(RING_DEPTH, TRACE_LIMIT_BYTES // (ENTRY_LIMIT_BYTES * max(1, actors))))


class DeadLetters:
    """The last messages that no actor handled; each kind is logged the first, tenth, hundredth ... time."""

    def __init__(self, log: Log, keep: int = 256) -> None:
        self._log = log
        self._kept: deque[DeadLetterRow] = deque(maxlen=keep)
        self._counts: dict[tuple[Path, str], int] = {}
        self._reasons: dict[str, int] = {}
        self._lock = Lock()
        self.total = 0

    def bury(self, at: Instant, to: Path, message: object, reason: str) -> None:
        """Keep `message` with the reason why no actor handles it."""
        row = DeadLetterRow(at=at, to=to, message=brief(message), reason=reason)
        with self._lock:
            self.total += 1
            self._reasons[reason] = self._reasons.get(reason, 0) + 1
            self._kept.append(row)
            key = (to, reason)
            if key not in self._counts and len(self._counts) >= 1024:
                self._counts.clear()
            count = self._counts[key] = self._counts.get(key, 0) + 1
        if str(count).rstrip("0") == "1":
            self._log.warning("dead letter", to=to, message=row.message, reason=reason, count=count)

    def by_reason(self) -> tuple[tuple[str, int], ...]:
        """Return how many there were of each reason."""
        with self._lock:
            return tuple(sorted(self._reasons.items()))

    def rows(self) -> tuple[DeadLetterRow, ...]:
        """Return the last dead letters, oldest first."""
        with self._lock:
            return tuple(self._kept)
