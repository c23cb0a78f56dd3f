"""Decides when to read the manifest path, what to send to the merge, and what to store of it.

```text
RecallAll -> ReadManifests at once, then every period, at each FileSettled, and to confirm what only a reading showed
                  |
                  v
          listing.py: accepted content -> PodsSeen (the whole list) to the merge -> Remember / Forget file contents
```

The state is this source's alone; what must outlive it is in the ledger's section `manifests`: the last right content
of each file, so that a file that breaks while the agent is down keeps its pod too.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.rules.retry import RetryPolicy
from actors.sources.file.listing import doubt_of, full_name, keep_all, origin_of, resolve, take_listing
from actors.sources.file.state import (
    SECTION,
    FileEntry,
    FileState,
    Good,
    Memo,
    Reading,
    Stored,
    Unwritten,
    Write,
    memo_key,
)
from actors.sources.manifest import FILE, read_pod
from api import paths
from api.decoding import ready
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId, Path
from api.lifecycle import Action, Decision, Listen, Start, Tell
from api.messages.events import LedgerDamaged
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.podconfig import PodsSeen
from api.messages.source import ReadNow, SourceMessage
from api.ports.ledger import Forget, RecallAll, RecalledAll, Remember, not_ours
from api.ports.manifests import FileSettled, ManifestListing, ReadManifests

PERIOD_S = 20.0
READ_DEADLINE_S = 10.0
LEDGER_DEADLINE_S = 5.0
RETRY_FIRST_S = 1.0
LISTEN_RETRY = RetryPolicy(base_s=1.0, limit_s=60.0)
WRITES_AT_ONCE = 4
NEVER = float("inf")

MANIFESTS = "manifests"
LEDGER = "ledger"
CHANGES = "manifests.changes"

NewOp = Callable[[], OpId]


def begin(
    path: str,
    node_name: str,
    config: Path,
    now: Instant,
    new_op: NewOp,
    *,
    period_s: float = PERIOD_S,
    remembers: bool = True,
) -> Decision[FileState]:
    """Begin an incarnation. `remembers`: there is a ledger."""
    state = FileState(
        path=path,
        node_name=node_name,
        config=config,
        period_s=period_s,
        remembers=remembers,
        recalled=not remembers,
        read_at=now,
        write_at=now,
    )
    return plan(state, now, new_op)


def decide(
    state: FileState, message: SourceMessage | KernelMessage, now: Instant, new_op: NewOp
) -> Decision[FileState]:
    """Take in one message and choose what is next."""
    after = absorb(state, message, now)
    if after.files is not state.files or after.listed is not state.listed:
        after = replace(after, unwritten=None, confirm_at=first_confirmation(after.files))
    return plan(after, now, new_op)


def absorb(state: FileState, message: SourceMessage | KernelMessage, now: Instant) -> FileState:
    """Return what is known after a message."""
    match message:
        case ReadNow():
            return replace(state, read_at=now)
        case Heard(item=FileSettled(path=path)):
            announced = state.announced
            at = bisect_left(announced, path)
            if announced[at : at + 1] != (path,):
                announced = (*announced[:at], path, *announced[at:])
            return replace(state, announced=announced, read_at=now, subscription=state.subscription.works())
        case StreamEnded(failure=failure):
            # Only a change that was announced shows that the stream works: most folders change seldom.
            ended = state.subscription.ended(failure, now, LISTEN_RETRY, steady_s=NEVER)
            return replace(state, subscription=ended)
        case Outcome():
            return absorb_outcome(state, message, now)
        case Restarted(path=path) if path == state.config:
            return replace(state, sent=False)
        case Alarm() | Heard() | Restarted() | ChildDied():
            return state
        case _:
            assert_never(message)


def absorb_outcome(state: FileState, outcome: Outcome, now: Instant) -> FileState:
    """Return the state after a call ended. An outcome of an earlier incarnation is ignored."""
    if outcome.op == state.recalling:
        return absorb_memory(state, outcome)
    if state.reading is not None and outcome.op == state.reading.op:
        return absorb_reading(state, state.reading, outcome, now)
    write = next((write for write in state.writes if write.op == outcome.op), None)
    if write is None:
        return state
    state = replace(state, writes=tuple(other for other in state.writes if other is not write))
    if outcome.failure is not None:
        return replace(state, write_at=now + state.period_s, unwritten=None)
    stored = state.stored
    at = bisect_left(stored, write.path, key=lambda one: one.path)
    after = at + 1 if at < len(stored) and stored[at].path == write.path else at
    fresh = (write.stored,) if write.stored else ()
    return replace(state, stored=(*stored[:at], *fresh, *stored[after:]))


def absorb_memory(state: FileState, outcome: Outcome) -> FileState:
    """Take in what the ledger remembers; without it, files that are broken now have no previous pod."""
    state = replace(state, recalling=None, recalled=True)
    if not isinstance(outcome.result, RecalledAll):
        why = outcome.failure.message if outcome.failure else "no answer"
        problem = f"what files said before the agent started is not known ({why}): a broken file has no previous pod"
        return replace(state, recall_problem=problem)
    entries, stored = [], []
    lost = [why for _, why in outcome.result.damaged]
    for key, data in outcome.result.entries:
        try:
            memo = msgspec.json.decode(data, type=ready(Memo))
        except msgspec.DecodeError:
            lost.append(not_ours(SECTION, key))
            continue
        stored.append(Stored(path=memo.path, digest=memo.digest, holds=memo.holds))
        entries.append(remembered(state, memo))
    files, _ = resolve(entries)
    problem = f"{len(lost)} remembered manifests were damaged and set aside" if lost else ""
    return replace(
        state,
        files=files,
        stored=tuple(sorted(stored, key=lambda one: one.path)),
        recall_problem=problem,
        lost=tuple(lost),
    )


def remembered(state: FileState, memo: Memo) -> FileEntry:
    """Return a file with its last valid content. Its current content is still to be read."""
    read = read_pod(memo.document, origin_of(state, memo.path))
    if read.pod is None:
        return FileEntry(path=memo.path)
    good = Good(digest=memo.digest, document=memo.document, pod=read.pod)
    held = full_name(read.pod) if memo.holds else ""
    return FileEntry(path=memo.path, good=good, held=held)


def absorb_reading(state: FileState, reading: Reading, outcome: Outcome, now: Instant) -> FileState:
    """Take in a reading; a failed one keeps everything, also which files settled before it."""
    state = replace(state, reading=None)
    announced = tuple(sorted({*state.announced, *reading.announced}))
    if not isinstance(outcome.result, ManifestListing):
        failures = state.failures + 1
        policy = RetryPolicy(base_s=RETRY_FIRST_S, limit_s=state.period_s)
        return replace(
            keep_all(state),
            announced=announced,
            failure=outcome.failure,
            failures=failures,
            read_at=now + policy.wait_s(failures),
        )
    doubt = doubt_of(state, outcome.result, reading, now)
    if doubt is not None:
        before = f", and was {state.place}" if state.place else ""
        failure = Failure(
            kind=FailureKind.UNAVAILABLE,
            message=f"{state.path} is {doubt.digest} now{before}: the next reading decides",
        )
        return replace(
            keep_all(state), announced=announced, failure=failure, doubt=doubt, read_at=doubt.due_at
        )
    state = take_listing(state, outcome.result, reading, now)
    return replace(state, read_at=now if state.announced else now + state.period_s)


def plan(state: FileState, now: Instant, new_op: NewOp) -> Decision[FileState]:
    """Choose what is next: listen before reading, so that nothing falls between the two."""
    actions: list[Action] = []
    if state.subscription.is_due(now):
        actions.append(Listen(stream=CHANGES))
        # Changes before the subscription were not announced.
        subscription = state.subscription.opened(now)
        state = replace(state, subscription=subscription, read_at=min(state.read_at, now))
    if not state.recalled:
        if state.recalling is None:
            op = new_op()
            actions.append(call(op, LEDGER, RecallAll(section=SECTION), LEDGER_DEADLINE_S))
            state = replace(state, recalling=op)
    elif state.reading is None and now >= next_reading(state):
        op = new_op()
        actions.append(call(op, MANIFESTS, ReadManifests(path=state.path), READ_DEADLINE_S))
        reading = Reading(op=op, started_at=now, announced=state.announced)
        state = replace(state, reading=reading, announced=())
    if state.listed and not state.sent:
        actions.append(Tell(to=state.config, message=PodsSeen(source=FILE, pods=state.pods)))
        state = replace(state, sent=True)
    if state.lost:
        actions.append(Tell(to=paths.EVENTS, message=LedgerDamaged(section=SECTION, whys=state.lost)))
        state = replace(state, lost=())
    wanted = wanted_writes(state) if state.unwritten is None else state.unwritten
    state = replace(state, unwritten=wanted)
    if wanted and now >= state.write_at:
        state, writes = start_writes(state, wanted, new_op)
        actions += writes
    return Decision(state=state, actions=tuple(actions), wake_at=wake_at(state, bool(wanted), now))


def call(op: OpId, port: str, what: msgspec.Struct, deadline_s: float) -> Start:
    """Return the action that starts a call."""
    return Start(op=op, port=port, call=what, deadline_s=deadline_s)


def next_reading(state: FileState) -> Instant:
    """Return when the next reading is due: its period, or what waits to be confirmed."""
    if state.failure is not None:
        return state.read_at
    return min(state.read_at, state.confirm_at)


def first_confirmation(files: tuple[FileEntry, ...]) -> Instant:
    """Return when the first change that waits to be confirmed is due, infinity when none waits."""
    return min((entry.pending.due_at for entry in files if entry.pending), default=NEVER)


def wake_at(state: FileState, writes_wanted: bool, now: Instant) -> Instant | None:
    """Return the latest time of the next decision."""
    times = [*state.subscription.wakes()]
    if state.recalled and state.reading is None:
        times.append(next_reading(state))
    if writes_wanted and not state.writes and state.write_at > now:
        times.append(state.write_at)
    return min(times, default=None)


def wanted_writes(state: FileState) -> tuple[Unwritten, ...]:
    """Return the ledger writes that are missing when those in flight are done."""
    if not state.remembers or not state.listed:
        return ()
    stored = {one.path: one for one in state.stored}
    for write in state.writes:
        stored.pop(write.path, None)
        if write.stored is not None:
            stored[write.path] = write.stored
    wanted: list[Unwritten] = []
    for entry in state.files:
        old = stored.pop(entry.path, None)
        if entry.good is None:
            continue
        new = Stored(path=entry.path, digest=entry.good.digest, holds=bool(entry.held))
        if old != new:
            memo = Memo(path=new.path, digest=new.digest, document=entry.good.document, holds=new.holds)
            wanted.append((entry.path, memo))
    wanted += [(path, None) for path in stored]
    return tuple(wanted)


def start_writes(
    state: FileState, wanted: tuple[Unwritten, ...], new_op: NewOp
) -> tuple[FileState, tuple[Action, ...]]:
    """Start as many of the writes as may be under way at once; one of a file waits for the one before it."""
    busy = {write.path for write in state.writes}
    room = WRITES_AT_ONCE - len(state.writes)
    writes: list[Write] = []
    actions: list[Action] = []
    held: list[Unwritten] = []
    passed = 0
    for path, memo in wanted:
        if len(writes) >= room:
            break
        passed += 1
        if path in busy:
            held.append((path, memo))
            continue
        op = new_op()
        key = memo_key(path)
        if memo is None:
            actions.append(call(op, LEDGER, Forget(section=SECTION, key=key), LEDGER_DEADLINE_S))
            writes.append(Write(op=op, path=path, stored=None))
        else:
            data = msgspec.json.encode(memo)
            actions.append(call(op, LEDGER, Remember(section=SECTION, key=key, data=data), LEDGER_DEADLINE_S))
            stored = Stored(path=path, digest=memo.digest, holds=memo.holds)
            writes.append(Write(op=op, path=path, stored=stored))
    after = replace(state, writes=(*state.writes, *writes), unwritten=(*held, *wanted[passed:]))
    return after, tuple(actions)
