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
    NoLedger,
    Reading,
    Readings,
    RecallPending,
    Remembering,
    Stored,
    Unwritten,
    Write,
    change_readings,
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
        ledger=RecallPending() if remembers else NoLedger(),
        readings=Readings(next_at=now),
    )
    return plan(state, now, new_op)


def decide(state: FileState, message: KernelMessage, now: Instant, new_op: NewOp) -> Decision[FileState]:
    """Take in one message and choose what is next."""
    after = absorb(state, message, now)
    if after.files is not state.files:
        after = change_readings(after, confirm_at=first_confirmation(after.files))
    is_other = after.files is not state.files or (after.found is None) is not (state.found is None)
    if is_other and isinstance(after.ledger, Remembering):
        after = replace(after, ledger=replace(after.ledger, unwritten=None))
    return plan(after, now, new_op)


def absorb(state: FileState, message: KernelMessage, now: Instant) -> FileState:
    """Return what is known after a message."""
    match message:
        case Heard(item=FileSettled(path=path)):
            announced = state.readings.announced
            at = bisect_left(announced, path)
            if announced[at : at + 1] != (path,):
                announced = (*announced[:at], path, *announced[at:])
            state = replace(state, subscription=state.subscription.works())
            return change_readings(state, announced=announced, next_at=now)
        case StreamEnded(failure=failure):
            # Only a change that was announced shows that the stream works: most folders change seldom.
            ended = state.subscription.ended(failure, now, LISTEN_RETRY, steady_s=NEVER)
            return replace(state, subscription=ended)
        case Outcome():
            return absorb_outcome(state, message, now)
        case Restarted(path=path) if path == state.config and state.found is not None:
            return replace(state, found=replace(state.found, sent=False))
        case Alarm() | Heard() | Restarted() | ChildDied():
            return state
        case _:
            assert_never(message)


def absorb_outcome(state: FileState, outcome: Outcome, now: Instant) -> FileState:
    """Return the state after a call ended. An outcome of an earlier incarnation is ignored."""
    reading = state.readings.inflight
    if reading is not None and outcome.op == reading.op:
        return absorb_reading(state, reading, outcome, now)
    match state.ledger:
        case RecallPending(op=op) if op == outcome.op:
            return absorb_memory(state, outcome)
        case Remembering() as ledger:
            return replace(state, ledger=absorb_write(ledger, outcome, now + state.period_s))
        case NoLedger() | RecallPending():
            return state
        case _:
            assert_never(state.ledger)


def absorb_write(ledger: Remembering, outcome: Outcome, again_at: Instant) -> Remembering:
    """Return the ledger's side after a write ended; after a failed one the next is made at `again_at`."""
    write = next((write for write in ledger.writes if write.op == outcome.op), None)
    if write is None:
        return ledger
    ledger = replace(ledger, writes=tuple(other for other in ledger.writes if other is not write))
    if outcome.failure is not None:
        return replace(ledger, write_at=again_at, unwritten=None)
    stored = ledger.stored
    at = bisect_left(stored, write.path, key=lambda one: one.path)
    after = at + 1 if at < len(stored) and stored[at].path == write.path else at
    fresh = (write.stored,) if write.stored else ()
    return replace(ledger, stored=(*stored[:at], *fresh, *stored[after:]))


def absorb_memory(state: FileState, outcome: Outcome) -> FileState:
    """Take in what the ledger remembers; without it, files that are broken now have no previous pod."""
    if not isinstance(outcome.result, RecalledAll):
        why = outcome.failure.message if outcome.failure else "no answer"
        problem = f"what files said before the agent started is not known ({why}): a broken file has no previous pod"
        return replace(state, ledger=Remembering(problem=problem))
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
    by_path = tuple(sorted(stored, key=lambda one: one.path))
    return replace(state, files=files, ledger=Remembering(problem=problem, lost=tuple(lost), stored=by_path))


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
    state = change_readings(state, inflight=None)
    announced = tuple(sorted({*state.readings.announced, *reading.announced}))
    if not isinstance(outcome.result, ManifestListing):
        failures = state.readings.failures + 1
        policy = RetryPolicy(base_s=RETRY_FIRST_S, limit_s=state.period_s)
        return change_readings(
            keep_all(state),
            announced=announced,
            failure=outcome.failure,
            failures=failures,
            next_at=now + policy.wait_s(failures),
        )
    doubt = doubt_of(state, outcome.result, reading, now)
    if doubt is not None:
        before = f", and was {state.found.place}" if state.found is not None and state.found.place else ""
        failure = Failure(
            kind=FailureKind.UNAVAILABLE,
            message=f"{state.path} is {doubt.digest} now{before}: the next reading decides",
        )
        return change_readings(
            keep_all(state), announced=announced, failure=failure, doubt=doubt, next_at=doubt.due_at
        )
    state = take_listing(state, outcome.result, reading, now)
    return change_readings(state, next_at=now if state.readings.announced else now + state.period_s)


def plan(state: FileState, now: Instant, new_op: NewOp) -> Decision[FileState]:
    """Choose what is next: listen before reading, so that nothing falls between the two."""
    actions: list[Action] = []
    if state.subscription.is_due(now):
        actions.append(Listen(stream=CHANGES))
        # Changes before the subscription were not announced.
        subscription = state.subscription.opened(now)
        state = replace(state, subscription=subscription)
        state = change_readings(state, next_at=min(state.readings.next_at, now))
    if isinstance(state.ledger, RecallPending):
        if state.ledger.op is None:
            op = new_op()
            actions.append(call(op, LEDGER, RecallAll(section=SECTION), LEDGER_DEADLINE_S))
            state = replace(state, ledger=RecallPending(op=op))
    elif state.readings.inflight is None and now >= next_reading(state):
        op = new_op()
        actions.append(call(op, MANIFESTS, ReadManifests(path=state.path), READ_DEADLINE_S))
        reading = Reading(op=op, started_at=now, announced=state.readings.announced)
        state = change_readings(state, inflight=reading, announced=())
    if state.found is not None and not state.found.sent:
        actions.append(Tell(to=state.config, message=PodsSeen(source=FILE, pods=state.found.pods)))
        state = replace(state, found=replace(state.found, sent=True))
    if isinstance(state.ledger, Remembering):
        ledger, writing = plan_writes(state, state.ledger, now, new_op)
        state = replace(state, ledger=ledger)
        actions += writing
    return Decision(state=state, actions=tuple(actions), wake_at=wake_at(state, now))


def plan_writes(
    state: FileState, ledger: Remembering, now: Instant, new_op: NewOp
) -> tuple[Remembering, tuple[Action, ...]]:
    """Report what the ledger lost, and start the writes that are due."""
    actions: tuple[Action, ...] = ()
    if ledger.lost:
        actions = (Tell(to=paths.EVENTS, message=LedgerDamaged(section=SECTION, whys=ledger.lost)),)
        ledger = replace(ledger, lost=())
    wanted = wanted_writes(state, ledger) if ledger.unwritten is None else ledger.unwritten
    if not wanted or now < ledger.write_at:
        return replace(ledger, unwritten=wanted), actions
    ledger, writes = start_writes(ledger, wanted, new_op)
    return ledger, (*actions, *writes)


def call(op: OpId, port: str, what: msgspec.Struct, deadline_s: float) -> Start:
    """Return the action that starts a call."""
    return Start(op=op, port=port, call=what, deadline_s=deadline_s)


def next_reading(state: FileState) -> Instant:
    """Return when the next reading is due: its period, or what waits to be confirmed."""
    if state.readings.failure is not None:
        return state.readings.next_at
    return min(state.readings.next_at, state.readings.confirm_at)


def first_confirmation(files: tuple[FileEntry, ...]) -> Instant:
    """Return when the first change that waits to be confirmed is due, infinity when none waits."""
    return min((entry.pending.due_at for entry in files if entry.pending), default=NEVER)


def wake_at(state: FileState, now: Instant) -> Instant | None:
    """Return the latest time of the next decision."""
    times = [*state.subscription.wakes()]
    ledger = state.ledger
    if not isinstance(ledger, RecallPending) and state.readings.inflight is None:
        times.append(next_reading(state))
    if isinstance(ledger, Remembering) and ledger.unwritten and not ledger.writes and ledger.write_at > now:
        times.append(ledger.write_at)
    return min(times, default=None)


def wanted_writes(state: FileState, ledger: Remembering) -> tuple[Unwritten, ...]:
    """Return the ledger writes that are missing when those in flight are done."""
    if state.found is None:
        return ()
    stored = {one.path: one for one in ledger.stored}
    for write in ledger.writes:
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
    ledger: Remembering, wanted: tuple[Unwritten, ...], new_op: NewOp
) -> tuple[Remembering, tuple[Action, ...]]:
    """Start as many of the writes as may be under way at once; one of a file waits for the one before it."""
    busy = {write.path for write in ledger.writes}
    room = WRITES_AT_ONCE - len(ledger.writes)
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
    after = replace(ledger, writes=(*ledger.writes, *writes), unwritten=(*held, *wanted[passed:]))
    return after, tuple(actions)
