"""LeaseManager's decisions (specification 4): read or create the lease, then renew it every quarter of its duration.

```text
UID of the Node ──▶ GET ─ NotFound ─▶ POST ──▶ pause ──▶ PUT ──▶ pause ...
                     └─ found ─▶ PUT            Conflict, NotFound ─▶ GET; another failure ─▶ PUT at once, five times, then a pause
```

Unlike a kubelet it writes the owner with each renewal: a Node that was made anew owns the lease, which therefore does not go away
with the Node before it.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.lease.state import LeaseExchange, LeaseState, LeaseStep
from actors.rules.nodewatch import when_to_ask
from actors.rules.retry import Retry, RetryPolicy
from actors.rules.share import share
from api import paths
from api.decoding import UndecodableError, from_json
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId, WallNs
from api.kube.objects.lease import LeaseSpec, NodeLease
from api.kube.objects.meta import ObjectMeta, OwnerReference
from api.lifecycle import Action, Decision, Start, Tell, Watch
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.nodestatus import NodeObjectSeen, WatchNodeObject
from api.ports.kube import LEASES, CreateObject, GetObject, KubeCall, KubeObject, ObjectPath, ReplaceObject
from api.wallclock import rfc3339, wall_ns

NAMESPACE = "kube-node-lease"
PART_OF_DURATION = 0.25
JITTER = 0.04
ATTEMPTS = 5
DEADLINE_S = 10.0
RETRY = RetryPolicy(base_s=0.2, limit_s=7.0)
MICROSECOND = 1_000
LATEST = 253_370_764_800 * 10**9
"""The year 9999: a lease of then and later is not taken for one that was renewed, since nothing later could be written."""
GONE = (FailureKind.CONFLICT, FailureKind.NOT_FOUND)
"""Failures of a renewal after which the lease is read again."""


def begin(state: LeaseState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]) -> Decision[LeaseState]:
    """Ask for the Node."""
    decision = plan(state, now, wall, new_op)
    return replace(decision, actions=(Watch(path=paths.NODESTATUS), *decision.actions))


def decide(
    before: LeaseState,
    message: NodeObjectSeen | KernelMessage,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[LeaseState]:
    """Absorb a message and choose the next request."""
    return plan(absorb(before, message, now), now, wall, new_op)


def absorb(state: LeaseState, message: NodeObjectSeen | KernelMessage, now: Instant) -> LeaseState:
    """Return the state after `message`."""
    match message:
        case NodeObjectSeen(uid=uid):
            if uid == (state.owner or ""):
                return replace(state, owner=uid)
            # The lease of the Node before it may be gone, or about to go: its new owner must stand in it soon.
            return replace(state, owner=uid, due_at=now, attempts=0, retry=Retry())
        case Outcome(op=op) if state.exchange is not None and op == state.exchange.op:
            return answered(replace(state, exchange=None), state.exchange.step, message, now)
        case Restarted(path=paths.NODESTATUS):
            return replace(state, asked_at=float("-inf"))
        case Outcome() | Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded():
            return state
        case _:
            assert_never(message)


def answered(state: LeaseState, step: LeaseStep, outcome: Outcome, now: Instant) -> LeaseState:
    """Return the state after an answer."""
    lease, failure = answer_of(outcome, state.settings.node_name)
    if lease is not None:
        state = replace(
            state, lease=lease, failure=None, last=max(state.last, renewal_of(lease)), retry=Retry()
        )
        # Of one that was only read the renewal follows at once.
        return state if step is LeaseStep.READ else paused(replace(state, renewed_at=now), now)
    if step is LeaseStep.READ and failure is not None and failure.kind is FailureKind.NOT_FOUND:
        return replace(state, is_absent=True)
    state = replace(state, failure=failure)
    if step is LeaseStep.RENEW:
        state = replace(state, attempts=state.attempts + 1)
        if failure is not None and failure.kind in GONE:
            state = replace(state, lease=None)
        return paused(state, now) if state.attempts >= ATTEMPTS else state
    return replace(state, retry=state.retry.after(now, RETRY))


def paused(state: LeaseState, now: Instant) -> LeaseState:
    """Return the state in which the next renewal is due after a pause."""
    renewals = state.renewals + 1
    jitter = 1 + JITTER * share(state.settings.node_name, "lease", renewals)
    pause_s = state.settings.duration_s * PART_OF_DURATION * jitter
    return replace(state, renewals=renewals, due_at=now + pause_s, attempts=0)


def answer_of(outcome: Outcome, node_name: str) -> tuple[NodeLease | None, Failure | None]:
    """Return the lease that an answer carries, or why there is none."""
    if not isinstance(outcome.result, KubeObject):
        unknown = Failure(kind=FailureKind.REJECTED, message="the answer carries no object")
        return None, outcome.failure or unknown
    try:
        lease = from_json(outcome.result.body, NodeLease)
    except UndecodableError as error:
        text = f"what the API server sent as lease {NAMESPACE}/{node_name} cannot be read: {error}"
        return None, Failure(kind=FailureKind.REJECTED, message=text)
    if lease.kind != "Lease" or lease.metadata.name != node_name:
        text = f"the API server sent another object than lease {NAMESPACE}/{node_name}"
        return None, Failure(kind=FailureKind.REJECTED, message=text)
    return lease, None


def renewal_of(lease: NodeLease) -> WallNs:
    """Return when a lease was renewed, 0 where it does not say so in a way that can be read."""
    try:
        # What is read may lack a part of the last microsecond.
        at = wall_ns(lease.spec.renew_time or "") + MICROSECOND
    except (ValueError, OverflowError):
        return 0
    return at if at < LATEST else 0


# ---------------------------------------------------------------- plan


def plan(state: LeaseState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]) -> Decision[LeaseState]:
    """Choose the next request from the state alone."""
    actions: list[Action] = []
    is_due, ask_at = when_to_ask(state.asked_at, now, known=state.owner is not None)
    if is_due:
        actions.append(Tell(to=paths.NODESTATUS, message=WatchNodeObject(asked_by=paths.LEASE)))
        state = replace(state, asked_at=now)
    wakes = [ask_at]
    if state.owner and state.exchange is None:
        due_at = max(state.due_at, state.retry.at)
        if now >= due_at:
            state, start = request(state, state.owner, wall, new_op)
            actions.append(start)
        else:
            wakes.append(due_at)
    return Decision(state=state, actions=tuple(actions), wake_at=min(wakes))


def request(
    state: LeaseState, owner: str, wall: WallNs, new_op: Callable[[], OpId]
) -> tuple[LeaseState, Start]:
    """Start the next request: there is none in flight."""
    name = state.settings.node_name
    place = ObjectPath(api_version=LEASES, plural="leases", namespace=NAMESPACE)
    own = replace(place, name=name)
    call: KubeCall
    if state.lease is not None:
        at = next_renewal(state, wall)
        body = msgspec.json.encode(renewed(state.lease, state, owner, at))
        step, call = LeaseStep.RENEW, ReplaceObject(path=own, heartbeat=True, body=body)
        state = replace(state, last=at)
    elif state.is_absent:
        at = next_renewal(state, wall)
        blank = NodeLease(
            metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=LeaseSpec(holder_identity=name)
        )
        body = msgspec.json.encode(renewed(blank, state, owner, at))
        step, call = LeaseStep.CREATE, CreateObject(path=place, heartbeat=True, body=body)
        state = replace(state, last=at, is_absent=False)
    else:
        step, call = LeaseStep.READ, GetObject(path=own, heartbeat=True)
    op = new_op()
    start = Start(op=op, port="kube", call=call, deadline_s=DEADLINE_S)
    return replace(state, exchange=LeaseExchange(op=op, step=step)), start


def next_renewal(state: LeaseState, wall: WallNs) -> WallNs:
    """Return the time of the next renewal, later than all before it: others count no other. To the microsecond."""
    return max(wall // MICROSECOND * MICROSECOND, state.last + MICROSECOND)


def renewed(lease: NodeLease, state: LeaseState, owner: str, at: WallNs) -> NodeLease:
    """Return a lease renewed at this time, owned by the Node with this UID and by no other Node."""
    others = tuple(one for one in lease.metadata.owner_references if one.kind != "Node")
    reference = OwnerReference(api_version="v1", kind="Node", name=state.settings.node_name, uid=owner)
    return replace(
        lease,
        metadata=replace(lease.metadata, owner_references=(*others, reference)),
        spec=replace(
            lease.spec,
            lease_duration_seconds=state.settings.duration_s,
            renew_time=f"{rfc3339(at)[:-1]}.{at // MICROSECOND % 1_000_000:06d}Z",
        ),
    )
