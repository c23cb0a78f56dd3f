"""EventRecorder's decisions: pages of events in memory, copied to the ledger lazily, one write at a time.

What happened is for people: a crash of the agent may lose the last `WRITE_S` seconds of it, and no pod ever waits for it.
Pages of pods that are gone are kept for `KEEP_S`.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.events.page import joined, last_at, with_event
from actors.events.state import PAGE_LIMIT, SECTION, EventsState, PodEvents, PodEventsEntry
from actors.rules.nodeevent import NodeEvent, told
from api.decoding import ready
from api.ids import Instant, OpId, Uid, WallNs
from api.lifecycle import Action, Decision, Start
from api.messages.events import EventSeen, EventsMessage, KeepEvents, LedgerDamaged, ReleaseEvents
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.ports.ledger import Forget, RecallAll, RecalledAll, Remember, not_ours

LEDGER = "ledger"
DEADLINE_S = 30.0
RETRY_S = 10.0
WRITE_S = 10.0
"""At the most so often is one page written."""
CLAIM_S = 600.0
"""After so long the actor of every pod has said that it is there."""
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
) -> Decision[EventsState]:
    """Take in a message, then write what is due."""
    return plan(absorb(before, message, now, wall), now, wall, new_op)


def begin(
    state: EventsState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]
) -> Decision[EventsState]:
    """Begin an incarnation: ask what the ledger holds."""
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
            # Its page is due WRITE_S after its first change: no reason to look at all others before.
            state = replace(state, idle_until=min(state.idle_until, now + WRITE_S))
        case Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded():
            return state
        case _:
            state = replace(state, idle_until=float("-inf"))
    match message:
        case EventSeen():
            record = claimed(state, message.uid, message.namespace, message.pod)
            return changed(state, message.uid, record, with_event(record.page, message), now)
        case KeepEvents(uid=uid):
            record = claimed(state, uid, message.namespace, message.pod)
            return changed(state, uid, record, record.page, now)
        case ReleaseEvents(uid=uid):
            return released(state, uid, wall)
        case Outcome():
            return answered(state, message, now, wall)
        case _:
            assert_never(message)


def claimed(state: EventsState, uid: Uid, namespace: str, pod: str) -> PodEventsEntry:
    """Return the record of a pod that is there."""
    record = state.records.get(uid, PodEventsEntry(page=PodEvents(namespace=namespace, pod=pod)))
    page = replace(record.page, namespace=namespace, pod=pod, gone_at=None)
    return replace(record, claimed=True, page=page)


def changed(
    state: EventsState, uid: Uid, record: PodEventsEntry, page: PodEvents, now: Instant
) -> EventsState:
    """Return the state with another page of a pod; the first change after a write begins the wait for the next one."""
    clean = record.stored == record.page or not record.page.events
    tried_at = max(record.tried_at, now) if clean else record.tried_at
    return with_record(state, uid, replace(record, page=page, tried_at=tried_at))


def released(state: EventsState, uid: Uid, wall: WallNs) -> EventsState:
    """Return the state in which a pod is gone: the last word on it is written soon."""
    record = state.records.get(uid)
    if record is None:
        return state
    if record.stored is None and not record.page.events:
        return without_record(state, uid)
    page = replace(record.page, gone_at=wall)
    return with_record(state, uid, replace(record, page=page, claimed=False, tried_at=float("-inf")))


def damaged(state: EventsState, whys: Iterable[str], wall: WallNs) -> EventsState:
    """Take in that entries of the ledger which are about no single pod, or about what happened to one, were lost."""
    for why in whys:
        fact = NodeEvent(at=wall, reason="LedgerDamaged", message=why)
        state = replace(state, happenings=told(state.happenings, fact))
    return state


def answered(state: EventsState, outcome: Outcome, now: Instant, wall: WallNs) -> EventsState:
    """Take in what the ledger holds, or that a write ended; one that failed is due again later."""
    if outcome.op == state.recalling:
        state = replace(state, recalling=None)
        if isinstance(outcome.result, RecalledAll):
            return recalled(state, outcome.result, now, wall)
        return replace(state, retry_at=now + RETRY_S)
    if outcome.op != state.writing:
        return state
    uid, page = state.written, state.writes
    state = replace(state, writing=None, writes=None)
    record = state.records.get(uid)
    if outcome.failure is not None or record is None:
        return state
    if page is None and record.page.gone_at is not None:
        return without_record(state, uid)
    return with_record(state, uid, replace(record, stored=page))


def recalled(state: EventsState, found: RecalledAll, now: Instant, wall: WallNs) -> EventsState:
    """Take in the pages of the last life of the agent, under what was seen in this one."""
    state = damaged(state, (why for _, why in found.damaged), wall)
    for key, data in found.entries:
        uid, page = Uid(key), decoded(data)
        if page is None:
            state = damaged(state, (not_ours(SECTION, key),), wall)
            continue
        record = state.records.get(uid)
        if record is None:
            state = with_record(state, uid, PodEventsEntry(page=page, stored=page))
        else:
            both = joined(page, record.page)
            state = with_record(state, uid, replace(record, page=both, stored=page, tried_at=now))
    return replace(state, recalled=True)


def decoded(data: bytes) -> PodEvents | None:
    """Return a page of the ledger, None for one of an unknown shape."""
    try:
        return msgspec.msgpack.decode(data, type=ready(PodEvents))
    except msgspec.DecodeError:
        return None


# ---------------------------------------------------------------- plan


def plan(state: EventsState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]) -> Decision[EventsState]:
    """Recall first, then write the page that waited longest, if it waited long enough."""
    if not state.recalled:
        return recall(state, now, new_op)
    if now < state.idle_until and state.writing is None:
        return Decision(state=state, wake_at=state.idle_until if state.idle_until < NEVER else None)
    if state.writing is not None:
        return Decision(state=state)
    state = in_line(state, now, wall)
    if not state.line:
        state = settled(state, now, wall)
        dirty = sorted(
            (due_at(record), uid) for uid, record in state.records.items() if is_dirty(record, wall)
        )
        first = dirty[0][0] if dirty else NEVER
        state = replace(state, line=tuple(uid for due, uid in dirty if due <= now))
    if not state.line:
        wakes = [at for at in (settle_at(state), expiry(state, now, wall)) if at is not None]
        idle_until = min([first, *wakes])
        wake_at = idle_until if idle_until < NEVER else None
        return Decision(state=replace(state, idle_until=idle_until), wake_at=wake_at)
    uid, *left = state.line
    record = state.records[uid]
    op, outdated = new_op(), is_outdated(record, wall)
    call = Forget(section=SECTION, key=uid) if outdated else write(uid, record.page)
    state = with_record(state, uid, replace(record, tried_at=now))
    writes = None if outdated else record.page
    state = replace(state, writing=op, written=uid, writes=writes, line=tuple(left))
    return Decision(state=state, actions=(Start(op=op, port=LEDGER, call=call, deadline_s=DEADLINE_S),))


def in_line(state: EventsState, now: Instant, wall: WallNs) -> EventsState:
    """Return the state without those at the head of the line whose pages need no write any more, or not yet."""
    for place, uid in enumerate(state.line):
        record = state.records.get(uid)
        if record is not None and is_dirty(record, wall) and due_at(record) <= now:
            return replace(state, line=state.line[place:])
    return replace(state, line=())


def recall(state: EventsState, now: Instant, new_op: Callable[[], OpId]) -> Decision[EventsState]:
    """Ask the ledger what it holds, again after a while if it did not answer."""
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
    """Give up the pages that no pod claimed, once; and the oldest ones of pods that are gone where there are too many."""
    if not state.settled and now >= state.begun_at + CLAIM_S:
        for uid, record in state.records.items():
            if not record.claimed and record.page.gone_at is None:
                page = replace(record.page, gone_at=wall)
                state = with_record(state, uid, replace(record, page=page))
        state = replace(state, settled=True)
    for uid, record in tuple(state.records.items()):
        if record.stored is None and is_outdated(record, wall):
            state = without_record(state, uid)
    gone = sorted(
        (record.page.gone_at, uid) for uid, record in state.records.items() if record.page.gone_at is not None
    )
    for _, uid in gone[: max(0, len(gone) - PAGE_LIMIT)]:
        record = state.records[uid]
        if not is_outdated(record, wall):
            page = replace(record.page, gone_at=wall - KEEP_S * NS, events=())
            state = with_record(state, uid, replace(record, page=page, tried_at=float("-inf")))
    return state


def is_dirty(record: PodEventsEntry, wall: WallNs) -> bool:
    """Tell whether the ledger has to be told of a page: pages without events are not worth a file."""
    if is_outdated(record, wall):
        return True
    return record.page != record.stored and bool(record.page.events)


def is_outdated(record: PodEventsEntry, wall: WallNs) -> bool:
    """Tell whether a pod has been gone for so long that its events are to be forgotten."""
    gone_at = record.page.gone_at
    return gone_at is not None and wall - gone_at >= KEEP_S * NS


def due_at(record: PodEventsEntry) -> Instant:
    """Return when a page that changed is to be written."""
    return record.tried_at + WRITE_S


def settle_at(state: EventsState) -> Instant | None:
    """Return when unclaimed pages are given up, None when that was done."""
    return None if state.settled else state.begun_at + CLAIM_S


def expiry(state: EventsState, now: Instant, wall: WallNs) -> Instant | None:
    """Return when the next page of a pod that is gone is to be forgotten."""
    left = [
        (record.page.gone_at + KEEP_S * NS - wall) / NS
        for record in state.records.values()
        if record.page.gone_at is not None and not is_outdated(record, wall)
    ]
    return now + max(0.0, min(left)) if left else None


def write(uid: Uid, page: PodEvents) -> Remember:
    """Return the call that writes a page."""
    return Remember(section=SECTION, key=uid, data=msgspec.msgpack.encode(page))


def unwritten(state: EventsState, wall: WallNs) -> tuple[Remember, ...]:
    """Return the calls that write everything that is not written, the newest first: for an orderly end."""
    if not state.recalled:
        return ()
    dirty = (
        (uid, record)
        for uid, record in state.records.items()
        if is_dirty(record, wall) and not is_outdated(record, wall)
    )
    newest_first = sorted(dirty, key=lambda pair: (-last_at(pair[1].page), pair[0]))
    return tuple(write(uid, record.page) for uid, record in newest_first)


def with_record(state: EventsState, uid: Uid, record: PodEventsEntry) -> EventsState:
    """Return the state with this record in place of the pod's last."""
    return replace(state, records={**state.records, uid: record})


def without_record(state: EventsState, uid: Uid) -> EventsState:
    """Return the state that knows nothing of a pod."""
    return replace(state, records={known: record for known, record in state.records.items() if known != uid})
