"""ApiEventWriter's decisions: the API server gets the newest count of each event, and no object crowds out the others.

```text
EventRecorded ──▶ tokens of its object ──▶ waiting ──▶ POST ─ AlreadyExists ─▶ PATCH count, lastTimestamp, message
                   └─ none: not written                 └────── NotFound ◀────────┘
```

The name of an event's object follows from the event (`rules/eventobject.py`), so that this actor may forget which objects it made: a
new incarnation, and a new life of the agent, go on counting in the same object.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar, assert_never

import msgspec
from msgspec.structs import replace

from actors.apievents.state import ApiEventState, Bucket, EventWrite, ObjectKey
from actors.rules.eventobject import event_name, event_object
from actors.rules.retry import Retry, RetryPolicy
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId
from api.kube.scheme import SCHEME
from api.lifecycle import Decision, Start
from api.messages.apievents import ApiEventsMessage, EventRecorded
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.ports.kube import CreateObject, KubeBody, ObjectPath, PatchObject
from api.shown.introspection import EventRow

KUBE = "kube"
DEADLINE_S = 30.0
OBJECT_BURST = 25
OBJECT_REFILL_S = 300.0
"""Limits of the spam filter of client-go: tokens of one object, and the time for one more."""
KNOWN_LIMIT = 4096
WAITING_LIMIT = 1000
ATTEMPTS = 12
"""For one event, where it may be that very event which the server fails at."""
RETRY = RetryPolicy(base_s=10.0, limit_s=10.0)
RETRIED = (FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT)

K = TypeVar("K")
V = TypeVar("V")


def decide(
    before: ApiEventState,
    message: ApiEventsMessage | KernelMessage,
    now: Instant,
    new_op: Callable[[], OpId],
) -> Decision[ApiEventState]:
    """Take in a message and write what waits."""
    return plan(absorb(before, message, now), now, new_op)


def absorb(state: ApiEventState, message: ApiEventsMessage | KernelMessage, now: Instant) -> ApiEventState:
    """Return what is known after `message`."""
    match message:
        case EventRecorded(event=event):
            return absorb_event(state, event, now)
        case Outcome(op=op) if state.write is not None and op == state.write.op:
            return absorb_outcome(replace(state, write=None), state.write, message, now)
        case Outcome(op=op):
            return replace(state, inherited=tuple(one for one in state.inherited if one != op))
        case Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded():
            return state
        case _:
            assert_never(message)


def absorb_event(state: ApiEventState, event: EventRow, now: Instant) -> ApiEventState:
    """Take in an event, unless its object had too many."""
    key: ObjectKey = (event.uid, f"{event.namespace}/{event.pod}", event.type)
    bucket = state.objects.get(key, Bucket(tokens=OBJECT_BURST, at=now))
    bucket = bucket.grown(now, 1 / OBJECT_REFILL_S, OBJECT_BURST)
    if bucket.tokens < 1:
        dropped = replace(state.dropped, spam=state.dropped.spam + 1)
        return replace(state, objects=used(state.objects, key, bucket), dropped=dropped)
    spent = replace(bucket, tokens=bucket.tokens - 1)
    state = replace(state, objects=used(state.objects, key, spent))
    name = event_name(event)
    if name not in state.waiting and len(state.waiting) >= WAITING_LIMIT:
        return replace(state, dropped=replace(state.dropped, overflow=state.dropped.overflow + 1))
    return replace(state, waiting={**state.waiting, name: event})


def absorb_outcome(state: ApiEventState, write: EventWrite, outcome: Outcome, now: Instant) -> ApiEventState:
    """Take in that a request ended."""
    failure = outcome.failure
    if failure is None:
        state = replace(state, on_server=used(state.on_server, write.name, None), written=state.written + 1)
        return done(state, write)
    if write.creates and failure.kind is FailureKind.ALREADY_EXISTS:
        return replace(state, on_server=used(state.on_server, write.name, None), failure=None)
    if not write.creates and failure.kind is FailureKind.NOT_FOUND:
        return replace(state, on_server=lacking(state.on_server, write.name), failure=None)
    state = replace(state, failure=failure)
    tried = state.retry.failures + 1
    if is_away(failure) or (failure.kind in RETRIED and tried < ATTEMPTS):
        return replace(state, retry=state.retry.after(now, RETRY))
    refused = replace(state.dropped, refused=state.dropped.refused + 1)
    return replace(without(state, write), dropped=refused, retry=Retry())


def is_away(failure: Failure) -> bool:
    """Return whether no event can be written now: the server cannot be reached, does not know us, or is too busy.

    What it answers has a reason. No answer in time may be about this very event, as when a webhook hangs.
    """
    if failure.kind is FailureKind.TIMED_OUT:
        return False
    return failure.reason in ("", "Unauthorized", "TooManyRequests")


def done(state: ApiEventState, write: EventWrite) -> ApiEventState:
    """Return the state after a write that succeeded."""
    return replace(without(state, write), retry=Retry(), failure=None)


def without(state: ApiEventState, write: EventWrite) -> ApiEventState:
    """Return the state in which this event does not wait any more, unless it was counted meanwhile."""
    if state.waiting.get(write.name) != write.event:
        return state
    return replace(state, waiting=lacking(state.waiting, write.name))


def lacking(known: Mapping[K, V], key: K) -> Mapping[K, V]:
    """Return the mapping without this key, which it has."""
    fewer = dict(known)
    del fewer[key]
    return fewer


def used(known: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """Return the mapping with this key last, without its first one if there are too many."""
    fresh = dict(known)
    fresh.pop(key, None)
    fresh[key] = value
    if len(fresh) > KNOWN_LIMIT:
        del fresh[next(iter(fresh))]
    return fresh


def plan(state: ApiEventState, now: Instant, new_op: Callable[[], OpId]) -> Decision[ApiEventState]:
    """Write the event that has waited longest."""
    if state.write is not None or state.inherited or not state.waiting:
        return Decision(state=state)
    if now < state.retry.at:
        return Decision(state=state, wake_at=state.retry.at)
    limits = state.settings
    if limits.qps > 0:
        burst = max(1, limits.burst)
        bucket = (state.all or Bucket(tokens=burst, at=now)).grown(now, limits.qps, burst)
        if bucket.tokens < 1:
            return Decision(state=replace(state, all=bucket), wake_at=now + (1 - bucket.tokens) / limits.qps)
        state = replace(state, all=replace(bucket, tokens=bucket.tokens - 1))
    name, event = next(iter(state.waiting.items()))
    creates = name not in state.on_server
    op = new_op()
    write = EventWrite(op=op, name=name, event=event, creates=creates)
    call = request(event, creates=creates)
    return Decision(
        state=replace(state, write=write),
        actions=(Start(op=op, port=KUBE, call=call, deadline_s=DEADLINE_S),),
    )


def request(event: EventRow, *, creates: bool) -> KubeBody:
    """Return the request that writes an event."""
    made = event_object(event)
    place = ObjectPath(plural="events", namespace=made.metadata.namespace)
    if creates:
        return CreateObject(path=place, own_rate=True, body=SCHEME.encode(made))
    patch = {"count": made.count, "lastTimestamp": made.last_timestamp, "message": made.message}
    path = msgspec.structs.replace(place, name=made.metadata.name)
    return PatchObject(path=path, own_rate=True, body=msgspec.json.encode(patch))
