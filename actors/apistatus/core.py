"""ApiStatusWriter's decisions: the API server gets the newest status of each pod, and what was deleted there is ended.

```text
PodStatusComposed ──▶ own    ─┐
                              ├──▶ patch.py: what the server lacks ──▶ PATCH status ──▶ target
ApiPodsSeen       ──▶ target ─┘                                                          │
                       deleted there, terminal there, finished here  ──▶ DELETE grace 0 ◀┘
```

One call of a pod is in flight at a time, and the newest version wins. Each call names the UID that it is meant for. What
others overwrite is written again, at most every `REWRITE_S`.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

from msgspec.structs import replace

from actors.apistatus.patch import TERMINAL, WrittenStatus, status_patch, wanted_status
from actors.apistatus.state import ApiStatusEntry, ApiStatusState, OwnStatus, StatusCall
from actors.rules.agenda import Entry
from actors.rules.container.ownership import say_the_same
from actors.rules.mirror import is_mirror, mirrored_hash
from actors.rules.retry import Retry, RetryPolicy
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId, Uid
from api.kube.objects.pod import Pod
from api.kube.scheme import SCHEME
from api.lifecycle import Action, Decision, Start
from api.messages.apistatus import ApiPodsSeen, ApiStatusMessage
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.status import ForgetPodStatus, PodStatusComposed
from api.ports.kube import DeleteObject, KubeObject, ObjectPath, PatchObject

KUBE = "kube"
DEADLINE_S = 30.0
CALLS_AT_ONCE = 16
REWRITE_S = 10.0
"""Between writes of one version, which others overwrite."""
STALE_S = 30.0
"""For so long after an answer a level may show an older object than the answer did."""
RETRY = RetryPolicy(base_s=1.0, limit_s=30.0)
RETRY_SOON = RetryPolicy(base_s=0.25, limit_s=30.0)
NO_RELATIONSHIP = "no relationship found"
"""The node authorizer learns of a pod a moment after it was bound."""


def decide(
    before: ApiStatusState,
    message: ApiStatusMessage | KernelMessage,
    now: Instant,
    new_op: Callable[[], OpId],
) -> Decision[ApiStatusState]:
    """Take in a message and write what the API server lacks."""
    return plan(absorb(before, message, now), now, new_op)


# ---------------------------------------------------------------- absorb


def absorb(state: ApiStatusState, message: ApiStatusMessage | KernelMessage, now: Instant) -> ApiStatusState:
    """Return what is known after `message`."""
    match message:
        case PodStatusComposed():
            return absorb_status(state, message, now)
        case ForgetPodStatus(uid=uid):
            entry = state.pods.get(uid)
            return state if entry is None else with_entries(state, (replace(entry, own=None),))
        case ApiPodsSeen():
            return absorb_level(state, message, now)
        case Outcome(op=op) if op in state.inherited:
            return replace(state, inherited=tuple(one for one in state.inherited if one != op))
        case Outcome():
            return absorb_outcome(state, message, now)
        case Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded():
            return state
        case _:
            assert_never(message)


def absorb_status(state: ApiStatusState, message: PodStatusComposed, now: Instant) -> ApiStatusState:
    """Take in a status; one that says the same as the last is no new version."""
    entry = state.pods.get(message.uid, ApiStatusEntry(uid=message.uid))
    old = entry.own
    if old is not None and old.finished == message.finished and say_the_same(old.status, message.status):
        return state
    own = OwnStatus(
        number=max(old.number if old is not None else 0, entry.number, entry.counted) + 1,
        namespace=message.namespace,
        name=message.name,
        status=message.status,
        finished=message.finished,
        came_at=now,
    )
    return with_entries(state, (replace(entry, own=own),))


def absorb_level(state: ApiStatusState, message: ApiPodsSeen, now: Instant) -> ApiStatusState:
    """Take in what the API server has: pods by their UIDs, mirrors by those of their static pods."""
    shown = {Uid(mirrored_hash(pod)): pod for pod in message.mirrors}
    shown |= {Uid(pod.metadata.uid): pod for pod in message.pods}
    changed = []
    for uid, pod in shown.items():
        entry = state.pods.get(uid, ApiStatusEntry(uid=uid))
        if entry.listed is not pod:
            changed.append(with_listed(entry, pod, now))
    changed += [
        replace(entry, listed=None, target=None, written=None)
        for uid, entry in state.pods.items()
        if uid not in shown and (entry.listed is not None or entry.target is not None)
    ]
    return with_entries(state, changed)


def with_listed(entry: ApiStatusEntry, pod: Pod, now: Instant) -> ApiStatusEntry:
    """Return the entry after a level showed its pod, unless the answer to a write has shown a newer object."""
    entry = replace(entry, listed=pod)
    known = entry.target
    if known is None or known.metadata.uid != pod.metadata.uid:
        return replace(entry, target=pod, written=None, number=0, ended=False)
    if is_older(pod, known) and now < entry.answered_at + STALE_S:
        return entry
    return replace(entry, target=pod)


def is_older(one: Pod, other: Pod) -> bool:
    """Return whether an object is an older version of another. Versions are decimal numbers, or say nothing."""
    first, second = one.metadata.resource_version, other.metadata.resource_version
    if not (first.isdecimal() and second.isdecimal()):
        return False
    return (len(first.lstrip("0")), first.lstrip("0")) < (len(second.lstrip("0")), second.lstrip("0"))


def absorb_outcome(state: ApiStatusState, outcome: Outcome, now: Instant) -> ApiStatusState:
    """Take in that a call ended."""
    uid = state.calls.get(outcome.op)
    if uid is None:
        return state
    state = replace(state, calls={op: one for op, one in state.calls.items() if op != outcome.op})
    entry = state.pods[uid]
    call = entry.call
    assert call is not None
    entry = replace(entry, call=None)
    if outcome.failure is not None:
        summary = replace(state.summary, failures=state.summary.failures + 1)
        return with_entries(replace(state, summary=summary), (failed(entry, call, outcome.failure, now),))
    entry = replace(entry, retry=Retry(), failure=None)
    if call.wanted is None:
        return with_entries(state, (replace(entry, ended=True),))
    if call.number > entry.counted:
        state = replace(state, summary=state.summary.plus(max(0.0, outcome.ended_at - call.came_at)))
        entry = replace(entry, counted=call.number)
    return with_entries(state, (answered(entry, call, outcome, now),))


def answered(entry: ApiStatusEntry, call: StatusCall, outcome: Outcome, now: Instant) -> ApiStatusEntry:
    """Return the entry after its status was written: with the object that the server made of it."""
    entry = replace(entry, answered_at=now)
    target, wanted = entry.target, call.wanted
    if target is None or wanted is None or target.metadata.uid != call.api_uid:
        return entry
    made = decoded_pod(outcome.result)
    if made is None or made.metadata.uid != call.api_uid:
        # What the server has cannot be known from this; the next level shows it.
        mine = {one.type for one in wanted.conditions}
        foreign = tuple(one for one in target.status.conditions if one.type not in mine)
        made = replace(target, status=replace(wanted, conditions=(*foreign, *wanted.conditions)))
    # A level may have come before the answer: what is newer counts, and of what cannot be told apart the level.
    overtaken = target.status is not call.shown and not is_older(target, made)
    written = WrittenStatus(shown=call.shown, sent=wanted, made=made.status)
    return replace(entry, target=target if overtaken else made, written=written, number=call.number)


def decoded_pod(result: object) -> Pod | None:
    """Return the pod that the server answered with, None for anything else."""
    if not isinstance(result, KubeObject):
        return None
    decoded = SCHEME.decode(result.body, "the answer of the API server", kinds=("Pod",)).object
    return decoded if isinstance(decoded, Pod) else None


def failed(entry: ApiStatusEntry, call: StatusCall, failure: Failure, now: Instant) -> ApiStatusEntry:
    """Return the entry after a call failed.

    Where the object is gone, or is another one by now, nothing is done before a level shows what there is.
    """
    entry = replace(entry, failure=failure)
    if failure.kind in (FailureKind.NOT_FOUND, FailureKind.CONFLICT):
        gone = call.wanted is None and failure.kind is FailureKind.NOT_FOUND
        return replace(
            entry,
            listed=None,
            target=None,
            written=None,
            ended=entry.ended or gone,
            failure=None,
            retry=entry.retry.after(now, RETRY),
        )
    unrelated = failure.kind is FailureKind.DENIED and NO_RELATIONSHIP in failure.message
    return replace(entry, retry=entry.retry.after(now, RETRY_SOON if unrelated else RETRY))


# ---------------------------------------------------------------- plan


def plan(state: ApiStatusState, now: Instant, new_op: Callable[[], OpId]) -> Decision[ApiStatusState]:
    """Start a call for each pod of which the API server lacks something, as many as may be under way at once."""
    found, agenda = state.agenda.due(now)
    waiting = dict(state.waiting)
    waiting |= {uid: None for at, uid in found if uid in state.pods and state.pods[uid].due_at == at}
    pods, calls = dict(state.pods), dict(state.calls)
    actions: list[Action] = []
    entries: list[Entry] = []
    while waiting and len(calls) < CALLS_AT_ONCE and not state.inherited:
        uid = next(iter(waiting))
        del waiting[uid]
        entry = pods.get(uid)
        if entry is None or entry.call is not None:
            continue
        after, start = next_call(entry, now, new_op)
        pods[uid] = after
        if start is not None:
            actions.append(start)
            calls[start.op] = uid
        if after.due_at is not None:
            entries.append((after.due_at, uid))
    wake_at, agenda = agenda.plus(entries).first(lambda one: one[1] in pods and pods[one[1]].due_at == one[0])
    state = replace(state, pods=pods, calls=calls, waiting=waiting, agenda=agenda)
    return Decision(state=state, actions=tuple(actions), wake_at=wake_at)


def next_call(
    entry: ApiStatusEntry, now: Instant, new_op: Callable[[], OpId]
) -> tuple[ApiStatusEntry, Start | None]:
    """Return the call that a pod needs now, None for none; `due_at` says when to look again."""
    own, target = entry.own, entry.target
    entry = replace(entry, due_at=None)
    if own is None or target is None or not own.status.phase or not is_of(target, own, entry.uid):
        return entry, None
    meta = target.metadata
    wanted = wanted_status(target.status, own.status, finished=own.finished, mirror=is_mirror(target))
    body = status_patch(meta.uid, target.status, wanted, entry.written)
    path = ObjectPath(plural="pods", namespace=meta.namespace, name=meta.name)
    if body is not None:
        again_at = entry.answered_at + REWRITE_S if entry.number == own.number else now
        due_at = max(entry.retry.at, again_at)
        call: PatchObject | DeleteObject = PatchObject(path=replace(path, subresource="status"), body=body)
    elif must_end(target, own) and not entry.ended:
        due_at = entry.retry.at
        call = DeleteObject(path=path, uid=meta.uid, grace_s=0)
    else:
        return replace(entry, number=own.number, failure=None), None
    if now < due_at:
        return replace(entry, due_at=due_at), None
    op = new_op()
    flight = StatusCall(
        op=op,
        number=own.number,
        api_uid=meta.uid,
        shown=target.status,
        wanted=wanted if body is not None else None,
        came_at=own.came_at,
    )
    return replace(entry, call=flight), Start(op=op, port=KUBE, call=call, deadline_s=DEADLINE_S)


def is_of(target: Pod, own: OwnStatus, uid: Uid) -> bool:
    """Return whether an object is the one that a status is about: the pod itself, or the mirror of a static pod."""
    meta = target.metadata
    if not is_mirror(target):
        return meta.uid == uid
    return mirrored_hash(target) == uid and (meta.namespace, meta.name) == (own.namespace, own.name)


def must_end(target: Pod, own: OwnStatus) -> bool:
    """Return whether the node lets go of a deleted pod: nothing of it runs, and the server shows how it ended.

    Reference ``pod-lifecycle`` section 11.4. A mirror is its manager's matter.
    """
    deleted = target.metadata.deletion_timestamp is not None and not is_mirror(target)
    return deleted and own.finished and target.status.phase in TERMINAL


def with_entries(state: ApiStatusState, changed: Iterable[ApiStatusEntry]) -> ApiStatusState:
    """Return the state with these entries, each to be looked at; one that says nothing any more is dropped."""
    pods, waiting = dict(state.pods), dict(state.waiting)
    for entry in changed:
        if entry.own is None and entry.listed is None and entry.call is None:
            pods.pop(entry.uid, None)
            waiting.pop(entry.uid, None)
            continue
        pods[entry.uid] = entry
        waiting[entry.uid] = None
    return replace(state, pods=pods, waiting=waiting)
