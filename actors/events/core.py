"""EventRecorder's decisions: event records in memory, copied to the ledger lazily, one write at a time.

What happened is for people: a crash of the agent may lose the last `WRITE_S` seconds of it, and no pod ever waits for it.
Records of removed pods are kept for `KEEP_S`.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.events.record import joined, last_at, with_event
from actors.events.state import RECORD_LIMIT, SECTION, EventsState, PodEvents, PodEventsEntry, last_row
from actors.rules.nodeevent import NodeEvent, with_node_event, with_node_events_sent
from api.decoding import ready
from api.ids import Instant, OpId, Path, Uid, WallNs
from api.lifecycle import Action, Decision, Start, Tell
from api.messages.apievents import EventRecorded
from api.messages.events import EventSeen, EventsMessage, KeepEvents, LedgerDamaged, ReleaseEvents
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.ports.ledger import Forget, RecallAll, RecalledAll, Remember, not_ours

LEDGER = "ledger"
DEADLINE_S = 30.0
RETRY_S = 10.0
WRITE_S = 10.0
"""Minimum time between two writes of one record."""
CLAIM_S = 600.0
"""By then the actor of every pod has claimed its record."""
NS = 1_000_000_000
NEVER = float("inf")
KEEP_S = 3600
"""So long the events of a pod that is gone are kept."""


def decide(
    before: EventsState,
    message: EventsMessage | KernelMessage,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
    followers: tuple[Path, ...] = (),
) -> Decision[EventsState]:
    """Take in a message, send its event as it is counted now to the followers, then write what is due."""
    state = absorb(before, message, now, wall)
    decision = plan(state, now, wall, new_op)
    if isinstance(message, EventSeen) and followers:
        news = EventRecorded(event=last_row(state, message.uid))
        tells = tuple(Tell(to=path, message=news) for path in followers)
        decision = replace(decision, actions=(*decision.actions, *tells))
    return with_node_events_sent(decision, before, decision.state, followers)


def begin(
    state: EventsState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]
) -> Decision[EventsState]:
    """Begin an incarnation: recall the ledger's section."""
    return plan(replace(state, begun_at=now), now, wall, new_op)


# ---------------------------------------------------------------- absorb


def absorb(
    state: EventsState, message: EventsMessage | KernelMessage, now: Instant, wall: WallNs
) -> EventsState:
    """Return what is known after `message`."""
    match message:
        case LedgerDamaged(whys=whys):
            return damaged(state, whys, wall)
        case EventSeen() | KeepEvents():
            # Its record is due WRITE_S after its first change: no reason to check all others before.
            state = replace(state, idle_until=min(state.idle_until, now + WRITE_S))
        case Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded():
            return state
        case _:
            state = replace(state, idle_until=float("-inf"))
    match message:
        case EventSeen():
            entry = claimed(state, message.uid, message.namespace, message.pod)
            return changed(state, message.uid, entry, with_event(entry.record, message), now)
        case KeepEvents(uid=uid):
            entry = claimed(state, uid, message.namespace, message.pod)
            return changed(state, uid, entry, entry.record, now)
        case ReleaseEvents(uid=uid):
            return released(state, uid, wall)
        case Outcome():
            return answered(state, message, now, wall)
        case _:
            assert_never(message)


def claimed(state: EventsState, uid: Uid, namespace: str, pod: str) -> PodEventsEntry:
    """Return the record of a pod that is there."""
    entry = state.entries.get(uid, PodEventsEntry(record=PodEvents(namespace=namespace, pod=pod)))
    record = replace(entry.record, namespace=namespace, pod=pod, gone_at=None)
    return replace(entry, claimed=True, record=record)


def changed(
    state: EventsState, uid: Uid, entry: PodEventsEntry, record: PodEvents, now: Instant
) -> EventsState:
    """Return the state with a pod's new record; the first change after a write starts the wait for the next one."""
    clean = entry.stored == entry.record or not entry.record.events
    tried_at = max(entry.tried_at, now) if clean else entry.tried_at
    return with_entry(state, uid, replace(entry, record=record, tried_at=tried_at))


def released(state: EventsState, uid: Uid, wall: WallNs) -> EventsState:
    """Return the state in which a pod is gone: the last word on it is written soon."""
    entry = state.entries.get(uid)
    if entry is None:
        return state
    if entry.stored is None and not entry.record.events:
        return without_record(state, uid)
    record = replace(entry.record, gone_at=wall)
    return with_entry(state, uid, replace(entry, record=record, claimed=False, tried_at=float("-inf")))


def damaged(state: EventsState, whys: Iterable[str], wall: WallNs) -> EventsState:
    """Take in that entries of the ledger which are about no single pod, or about what happened to one, were lost."""
    for why in whys:
        fact = NodeEvent(at=wall, reason="LedgerDamaged", message=why)
        state = replace(state, node_events=with_node_event(state.node_events, fact))
    return state


def answered(state: EventsState, outcome: Outcome, now: Instant, wall: WallNs) -> EventsState:
    """Absorb the recalled records or the end of a write; a failed write is due again later."""
    if outcome.op == state.recalling:
        state = replace(state, recalling=None)
        if isinstance(outcome.result, RecalledAll):
            return recalled(state, outcome.result, now, wall)
        return replace(state, retry_at=now + RETRY_S)
    if outcome.op != state.writing:
        return state
    uid, record = state.written, state.writes
    state = replace(state, writing=None, writes=None)
    entry = state.entries.get(uid)
    if outcome.failure is not None or entry is None:
        return state
    if record is None and entry.record.gone_at is not None:
        return without_record(state, uid)
    return with_entry(state, uid, replace(entry, stored=record))


def recalled(state: EventsState, found: RecalledAll, now: Instant, wall: WallNs) -> EventsState:
    """Absorb the records of the previous life of the agent; newer events follow them."""
    state = damaged(state, (why for _, why in found.damaged), wall)
    for key, data in found.entries:
        uid, record = Uid(key), decoded(data)
        if record is None:
            state = damaged(state, (not_ours(SECTION, key),), wall)
            continue
        entry = state.entries.get(uid)
        if entry is None:
            state = with_entry(state, uid, PodEventsEntry(record=record, stored=record))
        else:
            both = joined(record, entry.record)
            state = with_entry(state, uid, replace(entry, record=both, stored=record, tried_at=now))
    return replace(state, recalled=True)


def decoded(data: bytes) -> PodEvents | None:
    """Return a decoded record, None for one of an unknown shape."""
    try:
        return msgspec.msgpack.decode(data, type=ready(PodEvents))
    except msgspec.DecodeError:
        return None


# ---------------------------------------------------------------- plan


def plan(state: EventsState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]) -> Decision[EventsState]:
    """Recall first, then write the record that has waited longest, if it has waited long enough."""
    if not state.recalled:
        return recall(state, now, new_op)
    if now < state.idle_until and state.writing is None:
        return Decision(state=state, wake_at=state.idle_until if state.idle_until < NEVER else None)
    if state.writing is not None:
        return Decision(state=state)
    state = in_line(state, now, wall)
    if not state.line:
        state = settled(state, now, wall)
        dirty = sorted((due_at(entry), uid) for uid, entry in state.entries.items() if is_dirty(entry, wall))
        first = dirty[0][0] if dirty else NEVER
        state = replace(state, line=tuple(uid for due, uid in dirty if due <= now))
    if not state.line:
        wakes = [at for at in (settle_at(state), expiry(state, now, wall)) if at is not None]
        idle_until = min([first, *wakes])
        wake_at = idle_until if idle_until < NEVER else None
        return Decision(state=replace(state, idle_until=idle_until), wake_at=wake_at)
    uid, *left = state.line
    entry = state.entries[uid]
    op, outdated = new_op(), is_outdated(entry, wall)
    call = Forget(section=SECTION, key=uid) if outdated else write(uid, entry.record)
    state = with_entry(state, uid, replace(entry, tried_at=now))
    writes = None if outdated else entry.record
    state = replace(state, writing=op, written=uid, writes=writes, line=tuple(left))
    return Decision(state=state, actions=(Start(op=op, port=LEDGER, call=call, deadline_s=DEADLINE_S),))


def in_line(state: EventsState, now: Instant, wall: WallNs) -> EventsState:
    """Return the state without entries at the head of the queue that need no write any more, or not yet."""
    for place, uid in enumerate(state.line):
        entry = state.entries.get(uid)
        if entry is not None and is_dirty(entry, wall) and due_at(entry) <= now:
            return replace(state, line=state.line[place:])
    return replace(state, line=())


def recall(state: EventsState, now: Instant, new_op: Callable[[], OpId]) -> Decision[EventsState]:
    """Recall the ledger's section, again after a while if it did not answer."""
    if state.recalling is not None:
        return Decision(state=state)
    if now < state.retry_at:
        return Decision(state=state, wake_at=state.retry_at)
    op = new_op()
    actions: tuple[Action, ...] = (
        Start(op=op, port=LEDGER, call=RecallAll(section=SECTION), deadline_s=DEADLINE_S),
    )
    return Decision(state=replace(state, recalling=op), actions=actions)


def settled(state: EventsState, now: Instant, wall: WallNs) -> EventsState:
    """Drop unclaimed records, once; and the oldest records of removed pods where there are too many."""
    if not state.settled and now >= state.begun_at + CLAIM_S:
        for uid, entry in state.entries.items():
            if not entry.claimed and entry.record.gone_at is None:
                record = replace(entry.record, gone_at=wall)
                state = with_entry(state, uid, replace(entry, record=record))
        state = replace(state, settled=True)
    for uid, entry in tuple(state.entries.items()):
        if entry.stored is None and is_outdated(entry, wall):
            state = without_record(state, uid)
    gone = sorted(
        (entry.record.gone_at, uid)
        for uid, entry in state.entries.items()
        if entry.record.gone_at is not None
    )
    for _, uid in gone[: max(0, len(gone) - RECORD_LIMIT)]:
        entry = state.entries[uid]
        if not is_outdated(entry, wall):
            record = replace(entry.record, gone_at=wall - KEEP_S * NS, events=())
            state = with_entry(state, uid, replace(entry, record=record, tried_at=float("-inf")))
    return state


def is_dirty(entry: PodEventsEntry, wall: WallNs) -> bool:
    """Return whether a record must be written: a record without events is not worth a file."""
    if is_outdated(entry, wall):
        return True
    return entry.record != entry.stored and bool(entry.record.events)


def is_outdated(entry: PodEventsEntry, wall: WallNs) -> bool:
    """Return whether a pod has been gone for so long that its events are dropped."""
    gone_at = entry.record.gone_at
    return gone_at is not None and wall - gone_at >= KEEP_S * NS


def due_at(entry: PodEventsEntry) -> Instant:
    """Return when a changed record is due to be written."""
    return entry.tried_at + WRITE_S


def settle_at(state: EventsState) -> Instant | None:
    """Return when unclaimed records are dropped, None when that is done."""
    return None if state.settled else state.begun_at + CLAIM_S


def expiry(state: EventsState, now: Instant, wall: WallNs) -> Instant | None:
    """Return when the next record of a removed pod is dropped."""
    left = [
        (entry.record.gone_at + KEEP_S * NS - wall) / NS
        for entry in state.entries.values()
        if entry.record.gone_at is not None and not is_outdated(entry, wall)
    ]
    return now + max(0.0, min(left)) if left else None


def write(uid: Uid, record: PodEvents) -> Remember:
    """Return the call that writes a record."""
    return Remember(section=SECTION, key=uid, data=msgspec.msgpack.encode(record))


def unwritten(state: EventsState, wall: WallNs) -> tuple[Remember, ...]:
    """Return the calls that write everything that is not written, the newest first: for an orderly end."""
    if not state.recalled:
        return ()
    dirty = (
        (uid, entry)
        for uid, entry in state.entries.items()
        if is_dirty(entry, wall) and not is_outdated(entry, wall)
    )
    newest_first = sorted(dirty, key=lambda pair: (-last_at(pair[1].record), pair[0]))
    return tuple(write(uid, entry.record) for uid, entry in newest_first)


def with_entry(state: EventsState, uid: Uid, entry: PodEventsEntry) -> EventsState:
    """Return the state with this record in place of the pod's last."""
    return replace(state, entries={**state.entries, uid: entry})


def without_record(state: EventsState, uid: Uid) -> EventsState:
    """Return the state that knows nothing of a pod."""
    return replace(state, entries={known: entry for known, entry in state.entries.items() if known != uid})
