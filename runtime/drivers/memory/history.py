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
    """The container ran at that moment; only in removals."""


def violations(rows: Iterable[HistoryRow]) -> tuple[str, ...]:
    """Return one sentence for each rule of `Referee` that was broken, in the order in which they were broken."""
    referee = Referee()
    return tuple(sentence for row in rows for sentence in referee.judge(row))


class Referee:
    """Judges one row after the other.

    The rules: never two live sandboxes of one UID; never two live containers of one name in a pod; no (name,
    attempt) of a pod started twice; the agent removes no running container, and none whose exit it was never shown.
    A pod of which the agent removed the last sandbox starts again: a manifest that comes back has its old UID.
    """

    def __init__(self) -> None:
        self._sandboxes: dict[Uid, set[str]] = {}
        self._records: dict[Uid, set[str]] = {}
        self._running: dict[tuple[Uid, str], set[str]] = {}
        self._started: set[tuple[Uid, str, int]] = set()
        self._lost: set[tuple[Uid, str, int]] = set()
        self._anew = False
        """An agent began after the one that was there at the first row."""
        self._met: set[Uid] = set()
        """The pods that the agent has inspected, in its current life."""
        self._known: set[tuple[Uid, str, int]] = set()
        """The numbers that it has given or was shown in that life."""
        self._exited: set[str] = set()
        self._shown: set[str] = set()

    def judge(self, row: HistoryRow) -> Iterator[str]:  # noqa: C901  # one case per happening
        """Yield a sentence for each rule that this row breaks; rows come in their order."""
        where = f"at {row.at:.3f} pod {row.uid}"
        match row.what:
            case Happening.SANDBOX_STARTED:
                self._records.setdefault(row.uid, set()).add(row.sandbox_id)
                live = self._sandboxes.setdefault(row.uid, set())
                live.add(row.sandbox_id)
                if len(live) > 1:
                    yield f"{where}: two live sandboxes: {', '.join(sorted(live))}"
            case Happening.SANDBOX_STOPPED:
                self._sandboxes.get(row.uid, set()).discard(row.sandbox_id)
            case Happening.SANDBOX_REMOVED:
                self._sandboxes.get(row.uid, set()).discard(row.sandbox_id)
                records = self._records.get(row.uid, set())
                records.discard(row.sandbox_id)
                if not records and row.cause is Cause.AGENT:
                    self.forget(row.uid)
            case Happening.CREATED:
                self._excuse((row.uid, row.name, row.attempt))
            case Happening.STARTED:
                yield from self._start(row, where)
            case Happening.EXITED:
                self._running.get((row.uid, row.name), set()).discard(row.container_id)
                self._exited.add(row.container_id)
            case Happening.EXIT_SHOWN:
                self._shown.add(row.container_id)
            case Happening.REMOVED if row.cause is Cause.WORLD:
                # The newest record also proves earlier attempts, whose records may be gone for long.
                self._lost.update((row.uid, row.name, attempt) for attempt in range(row.attempt + 1))
                # A process that the runtime had lost track of has no end: it goes with its record.
                self._running.get((row.uid, row.name), set()).discard(row.container_id)
            case Happening.REMOVED if row.cause is Cause.AGENT:
                if row.running:
                    yield f"{where}: running container {row.name} ({row.container_id}) was removed"
                elif row.container_id in self._exited and row.container_id not in self._shown:
                    yield f"{where}: container {row.name} ({row.container_id}) was removed before its exit was seen"
            case _:
                pass

    def forget(self, uid: Uid) -> None:
        """Start the history of a pod again: the agent has forgotten its restart counts too."""
        self._started = {key for key in self._started if key[0] != uid}

    def agent_began(self) -> None:
        """Excuse a new agent for numbers whose records the world removed: its predecessor may have died before it wrote them.

        A number is written with the status, after the start; a container that was removed by hand and an
        agent killed in between leave it nowhere but in the name of a log file.
        """
        self._anew = True
        self._met.clear()
        self._known.clear()

    def owner_began(self, uid: Uid) -> None:
        """Excuse a pod's new owner in the same way: the status of a pod that does not run yet is written some time later."""
        self._anew = True
        self._met.discard(uid)
        self._known = {key for key in self._known if key[0] != uid}

    def agent_saw(self, uid: Uid, newest: Iterable[tuple[str, int]]) -> None:
        """Require of the agent the numbers that an inspection of the pod showed: the `newest` of each name, and those before.

        Not the moment of the inspection counts, but its result: a container may go while the answer is on its way.
        """
        self._met.add(uid)
        self._known.update((uid, name, attempt) for name, last in newest for attempt in range(last + 1))

    def _excuse(self, key: tuple[Uid, str, int]) -> None:
        """Allow a number again that was only in records which went before this agent saw them."""
        if key in self._lost and key not in self._known:
            self._lost.discard(key)
            self._started.discard(key)

    def _start(self, row: HistoryRow, where: str) -> Iterator[str]:
        key = (row.uid, row.name, row.attempt)
        if key in self._started:
            yield f"{where}: container {row.name} attempt {row.attempt} started twice"
        self._started.add(key)
        if not self._anew or row.uid in self._met:
            self._known.add(key)
        alive = self._running.setdefault((row.uid, row.name), set())
        alive.add(row.container_id)
        if len(alive) > 1:
            yield f"{where}: container {row.name} runs twice: {', '.join(sorted(alive))}"
