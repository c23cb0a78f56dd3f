"""What the file source knows: one frozen state, and the rows that people see of it."""

import hashlib

import msgspec
from msgspec.structs import replace

from actors.rules.subscription import Subscription
from api.errors import Failure
from api.ids import Instant, OpId, Path
from api.kube.objects.pod import Pod
from api.ports.manifests import Problem
from api.shown.introspection import SourceRow

SECTION = "manifests"
"""Ledger section of `Memo`, owned by the file source: the last valid content of each file."""


class Good(msgspec.Struct, frozen=True, kw_only=True):
    """The last valid content of a file."""

    digest: str
    document: bytes
    pod: Pod

    def __repr__(self) -> str:
        return f"Good(digest={self.digest!r}, pod={self.pod.metadata.name!r})"


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A change that only a reading showed: it counts when a reading from `due_at` on shows the same."""

    digest: str
    """Empty: the file is gone. For the path itself: its place."""
    due_at: Instant


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest file and what became of it."""

    path: str
    digest: str = ""
    """Of the content that was last taken in, right or wrong; empty for none."""
    good: Good | None = None
    held: str = ""
    """Full name of its pod while that is one of those that the source wants."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    pending: Pending | None = None
    rival: str = ""
    """Another file with a pod of the same name or UID."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A reading in flight."""

    op: OpId
    started_at: Instant
    announced: tuple[str, ...] = ()
    """Files that settled before it began: what it shows of them counts at once."""


class Memo(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger entry of one file."""

    path: str
    digest: str
    document: bytes
    holds: bool

    def __repr__(self) -> str:
        return f"Memo(path={self.path!r}, digest={self.digest!r}, holds={self.holds!r})"


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger entry of one file, without the content."""

    path: str
    digest: str
    holds: bool


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger call in flight; `stored` is the entry after it, None for none."""

    op: OpId
    path: str
    stored: Stored | None


Unwritten = tuple[str, Memo | None]
"""A file and its new ledger entry, None for none."""


class NoLedger(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The source remembers nothing."""


class RecallPending(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The ledger is to say what files said before the agent started; nothing is read before."""

    op: OpId | None = None
    """None: to be asked."""


class Remembering(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The ledger has answered, well or not; what changes is written to it."""

    problem: str = ""
    """What of it could not be read."""
    lost: tuple[str, ...] = ()
    """Unreadable entries, to be reported as events of the node."""
    stored: tuple[Stored, ...] = ()
    unwritten: tuple[Unwritten, ...] | None = None
    """Ledger writes to do, in order; None: to be computed again."""
    writes: tuple[Write, ...] = ()
    write_at: Instant = float("-inf")
    """No write before this: one failed."""


Ledger = NoLedger | RecallPending | Remembering


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the last complete reading showed beside files."""

    pods: tuple[Pod, ...] = ()
    """What the source wants: the good pods without rivals, in the order of their files."""
    ignored: tuple[Problem, ...] = ()
    missing: bool = False
    place: str = ""
    """Where the path was when something was there last."""
    sent: bool = False
    """The merge was sent the pods."""


class Readings(msgspec.Struct, frozen=True, kw_only=True):
    """The reading in flight, and when the next one is due."""

    inflight: Reading | None = None
    announced: tuple[str, ...] = ()
    """Files that settled since the last one began."""
    next_at: Instant = 0.0
    confirm_at: Instant = float("inf")
    """When the first change of a file that waits to be confirmed is due."""
    failure: Failure | None = None
    """Why the last one failed."""
    failures: int = 0
    doubt: Pending | None = None
    """That the last one found another place there."""


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """All that the file source knows. `files` are sorted by path."""

    path: str
    node_name: str
    config: Path
    period_s: float
    ledger: Ledger
    files: tuple[FileEntry, ...] = ()
    found: Found | None = None
    """None before one reading was complete: before that nothing is sent."""
    readings: Readings = Readings()
    subscription: Subscription = Subscription()
    """To changes."""

    @property
    def recall_problem(self) -> str:
        """Return what of the ledger could not be read, empty for nothing."""
        return self.ledger.problem if isinstance(self.ledger, Remembering) else ""


def change_readings(state: FileState, **changes: object) -> FileState:
    """Return the state with these changes of its readings."""
    return replace(state, readings=replace(state.readings, **changes))


def memo_key(path: str) -> str:
    """Return the ledger key of a file: a path may contain characters that a key may not."""
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def rows(state: FileState) -> tuple[SourceRow, ...]:
    """Return what became of the manifest path, each file in it, and what was ignored and why."""
    top = path_row(state)
    ignored = tuple(
        SourceRow(source="file", where=problem.where, status="ignored", problems=(problem.message,))
        for problem in (state.found.ignored if state.found is not None else ())
    )
    return (*((top,) if top else ()), *(file_row(entry) for entry in state.files), *ignored)


def path_row(state: FileState) -> SourceRow | None:
    """Return the row of the manifest path itself, None when it has no problem."""
    said = []
    status = "accepted"
    found, failure = state.found, state.readings.failure
    if failure is not None:
        status = "unreachable"
        kept = "; the pods of the last reading are kept" if found is not None else ""
        said.append(f"{failure.message}{kept}")
    elif found is None:
        status = "waiting"
        said.append("not read yet")
    elif found.missing:
        status = "waiting"
        said.append("does not exist, which is as good as an empty folder; it is read as soon as it does")
    if state.subscription.why and not state.subscription.is_open:
        said.append(f"{state.subscription.why}; changes are found by looking every {state.period_s:g} s")
    if state.recall_problem:
        said.append(state.recall_problem)
    if not said and not state.files and not (found is not None and found.ignored):
        said.append("holds no manifest")
    return SourceRow(source="file", where=state.path, status=status, problems=tuple(said)) if said else None


def file_row(entry: FileEntry) -> SourceRow:
    """Return the row of one file."""
    pod = f"{entry.good.pod.metadata.namespace}/{entry.good.pod.metadata.name}" if entry.good else ""
    said = tuple(f"{problem.where}: {problem.message}" for problem in (*entry.problems, *entry.warnings))
    status = "accepted"
    if entry.pending is not None:
        status = "waiting"
        what = "is gone" if not entry.pending.digest else "changed"
        said = (f"{what}; taken in when the next reading shows the same", *said)
    elif entry.problems:
        status = "broken"
        if entry.good is not None:
            said = (*said, "its previous pod is kept until the file is fixed or removed")
    if entry.rival:
        # Both files are flagged: one name for two pods is never intended.
        status = "duplicate"
        which = "this one is kept" if entry.held else "this one is not run"
        said = (
            *said,
            f"the pod {pod} (or its UID) is also in {entry.rival}: {which}; remove or rename one of them",
        )
    return SourceRow(source="file", where=entry.path, status=status, pod=pod, problems=said)


def sources_of_rows(state: FileState) -> tuple[object, ...]:
    """Return what rows are made from."""
    found = state.found
    of_reading = (found.ignored, found.missing) if found is not None else ()
    return (state.files, state.readings.failure, state.subscription, state.recall_problem, *of_reading)


def changed_rows(before: FileState, after: FileState) -> tuple[SourceRow, ...]:
    """Return the rows that changed, once one reading was complete."""
    if after.found is None:
        return ()
    if before.found is None:
        return rows(after)
    pairs = zip(sources_of_rows(before), sources_of_rows(after), strict=True)
    if all(one is other for one, other in pairs):
        return ()
    known = set(rows(before))
    return tuple(row for row in rows(after) if row not in known)
