"""What happened to virtual pods, and whether it broke a rule that no agent may break.

The world writes one row for each thing that happens; `violations` reads them. The rows grow without bound: they
live as long as one simulation.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from api.ids import Instant, Uid


class Happening(StrEnum):
    """What happened."""

    SANDBOX_STARTED = "sandbox-started"
    SANDBOX_STOPPED = "sandbox-stopped"
    SANDBOX_REMOVED = "sandbox-removed"
    CREATED = "created"
    STARTED = "started"
    TERM_SENT = "term-sent"
    EXITED = "exited"
    EXIT_SHOWN = "exit-shown"  # a result with the exit code reached the agent's callback
    REMOVED = "removed"
    EXECUTED = "executed"


class Cause(StrEnum):
    """Who made it happen."""

    AGENT = "agent"
    ITSELF = "itself"
    WORLD = "world"


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, at a monotonic instant of the world."""

    at: Instant
    what: Happening
    uid: Uid
    cause: Cause = Cause.AGENT
    sandbox_id: str = ""
    container_id: str = ""
    name: str = ""
    attempt: int = 0
    exit_code: int | None = None
    running: bool = False
    """The container ran at that moment: only a removal says so."""


def violations(rows: Iterable[HistoryRow]) -> tuple[str, ...]:
    """Return one sentence for each broken rule, in the order in which they were broken.

    The rules: never two live sandboxes of one UID; never two live containers of one name in a pod; no (name,
    attempt) of a pod started twice; the agent removes no running container, and none whose exit it was never shown.
    """
    return tuple(_check(rows))


def _check(rows: Iterable[HistoryRow]) -> Iterator[str]:  # noqa: C901  # one case per happening
    sandboxes: dict[Uid, set[str]] = {}
    running: dict[tuple[Uid, str], set[str]] = {}
    started: set[tuple[Uid, str, int]] = set()
    exited: set[str] = set()
    shown: set[str] = set()
    for row in rows:
        where = f"at {row.at:.3f} pod {row.uid}"
        match row.what:
            case Happening.SANDBOX_STARTED:
                live = sandboxes.setdefault(row.uid, set())
                live.add(row.sandbox_id)
                if len(live) > 1:
                    yield f"{where}: two live sandboxes: {', '.join(sorted(live))}"
            case Happening.SANDBOX_STOPPED | Happening.SANDBOX_REMOVED:
                sandboxes.get(row.uid, set()).discard(row.sandbox_id)
            case Happening.STARTED:
                key = (row.uid, row.name, row.attempt)
                if key in started:
                    yield f"{where}: container {row.name} attempt {row.attempt} started twice"
                started.add(key)
                alive = running.setdefault((row.uid, row.name), set())
                alive.add(row.container_id)
                if len(alive) > 1:
                    yield f"{where}: container {row.name} runs twice: {', '.join(sorted(alive))}"
            case Happening.EXITED:
                running.get((row.uid, row.name), set()).discard(row.container_id)
                exited.add(row.container_id)
            case Happening.EXIT_SHOWN:
                shown.add(row.container_id)
            case Happening.REMOVED if row.cause is Cause.AGENT:
                if row.running:
                    yield f"{where}: running container {row.name} ({row.container_id}) was removed"
                elif row.container_id in exited and row.container_id not in shown:
                    yield f"{where}: container {row.name} ({row.container_id}) was removed before its exit was seen"
            case _:
                pass
