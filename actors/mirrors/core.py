"""MirrorManager's decisions: each static pod has one mirror, of its version, which this node's Node owns.

```text
the API server has             a static pod wants it           what follows
nothing                        yes                             CREATE, once the Node's UID is known, unless the Node is being deleted
a mirror of its version        yes                             nothing
another one, or a deleted one  yes                             DELETE grace 0, then CREATE; not while the older pod still ends
a mirror                       no                              DELETE grace 0, once every source was seen and nothing of the pod runs
```

Reference ``pod-lifecycle`` section 3.6. One call about a name is in flight at a time; each deletion names the UID it is meant for.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.mirrors.mirrorpod import full_name, mirror_of, must_go, static_of
from actors.mirrors.state import MirrorCall, MirrorEntry, MirrorMessage, MirrorsState, RunningPods
from actors.rules.agenda import Entry
from actors.rules.desiredsources import after_change, after_snapshot, ask_for_snapshot
from actors.rules.mirror import mirrored_hash
from actors.rules.nodewatch import NEVER_ASKED, when_to_ask
from actors.rules.retry import Retry, RetryPolicy
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId, Uid
from api.kube.objects.pod import Pod
from api.kube.scheme import SCHEME
from api.lifecycle import Action, Decision, Start, Tell
from api.messages.apistatus import ApiPodsSeen
from api.messages.eviction import ActivePods
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.nodestatus import NodeObjectSeen, WatchNodeObject
from api.messages.supervisor import PodOp, PodsChanged, PodsSnapshot, SourcedPod, WatchPods
from api.ports.kube import CreateObject, DeleteObject, KubeObject, ObjectPath

KUBE = "kube"
API = "api"
DEADLINE_S = 30.0
CALLS_AT_ONCE = 8
SETTLE_S = 10.0
"""For so long after a mirror was created a level may be older than that."""
GONE_S = 60.0
"""For so long after one was deleted, or was said not to be there, a level that shows it may be older than that."""
RETRY = RetryPolicy(base_s=1.0, limit_s=60.0)
RETRY_REFUSED = RetryPolicy(base_s=10.0, limit_s=300.0)
OVERLAPS = 3
"""So many creations in a row may find a mirror that no level shows yet before that is called a failure."""


def decide(
    before: MirrorsState,
    message: MirrorMessage | KernelMessage | None,
    now: Instant,
    new_op: Callable[[], OpId],
) -> Decision[MirrorsState]:
    """Take in a message (None: only look) and choose what to do."""
    after = absorb(before, message, now)
    if any(one is not other for one, other in zip(inputs_of(before), inputs_of(after), strict=True)):
        after = replace(after, waiting=dict.fromkeys((*after.waiting, *names_of(after))))
    return plan(after, now, new_op)


def inputs_of(state: MirrorsState) -> tuple[object, ...]:
    """Return what the calls about every name follow from."""
    return (state.wanted, state.shown, state.running, state.node, state.sources.seen)


def names_of(state: MirrorsState) -> Iterable[str]:
    """Return each name that a static pod, a mirror or a call has."""
    wanted = (full_name(one.pod) for one in state.wanted.values())
    return (*wanted, *(state.shown or {}), *state.entries)


# ---------------------------------------------------------------- absorb


def absorb(  # noqa: C901  # one case per message
    state: MirrorsState, message: MirrorMessage | KernelMessage | None, now: Instant
) -> MirrorsState:
    """Return what is known after `message`."""
    match message:
        case PodsSnapshot(seen=seen, pods=pods):
            kept = {uid: one for uid, one in state.wanted.items() if one.source not in seen}
            wanted = {**kept, **of_nodes(pods)}
            return replace(state, sources=after_snapshot(state.sources, message), wanted=wanted)
        case PodsChanged():
            return absorb_change(state, message)
        case ApiPodsSeen(mirrors=mirrors):
            return absorb_mirrors(state, {full_name(pod): pod for pod in mirrors})
        case NodeObjectSeen():
            return replace(state, node=message)
        case ActivePods(pods=pods, leaving=leaving, whole=whole):
            uids = frozenset((*(one.uid for one in pods), *leaving))
            return replace(state, running=RunningPods(uids=uids, whole=whole))
        case Outcome(op=op) if op in state.inherited:
            return replace(state, inherited=tuple(one for one in state.inherited if one != op))
        case Outcome():
            return absorb_outcome(state, message, now)
        case Restarted(path=path) if path == paths.PODS:
            return replace(state, running=None, running_asked_at=NEVER_ASKED)
        case Restarted(path=path) if path == paths.NODESTATUS:
            return replace(state, node_asked_at=NEVER_ASKED)
        case Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def of_nodes(pods: Iterable[SourcedPod]) -> Mapping[Uid, SourcedPod]:
    """Return those that come from the node itself: files and URLs."""
    return {Uid(one.pod.metadata.uid): one for one in pods if one.source != API}


def absorb_change(state: MirrorsState, message: PodsChanged) -> MirrorsState:
    """Take in a numbered change of what sources want."""
    sources, counts = after_change(state.sources, message)
    state = replace(state, sources=sources)
    if not counts or message.source == API:
        return state
    uids = {Uid(pod.metadata.uid) for pod in message.pods}
    if message.op is PodOp.REMOVE:
        left = {
            uid: one for uid, one in state.wanted.items() if uid not in uids or one.source != message.source
        }
        return replace(state, wanted=left)
    changed = of_nodes(SourcedPod(source=message.source, pod=pod) for pod in message.pods)
    return replace(state, wanted={**state.wanted, **changed})


def absorb_mirrors(state: MirrorsState, shown: Mapping[str, Pod]) -> MirrorsState:
    """Take in a level: what was made and is shown now is known from it, and so is what was deleted and is gone."""
    entries = {name: with_level(entry, shown.get(name)) for name, entry in state.entries.items()}
    return replace(state, shown=shown, entries=entries)


def with_level(entry: MirrorEntry, shown: Pod | None) -> MirrorEntry:
    """Return the entry after a level showed this mirror of its name."""
    uid = shown.metadata.uid if shown is not None else ""
    made = entry.made if entry.made is not None and entry.made.metadata.uid != uid else None
    return replace(entry, made=made, gone=entry.gone if entry.gone == uid else "")


def absorb_outcome(state: MirrorsState, outcome: Outcome, now: Instant) -> MirrorsState:
    """Take in that a call ended."""
    name = state.calls.get(outcome.op)
    if name is None:
        return state
    entry = state.entries[name]
    call = entry.call
    assert call is not None
    entry, failure = replace(entry, call=None), outcome.failure
    if (
        call.created is None
        and failure is not None
        and failure.kind in (FailureKind.NOT_FOUND, FailureKind.CONFLICT)
    ):
        # It is not there any more, and that is what was wanted.
        failure = None
    forbidden = state.forbidden
    if failure is not None:
        entry = failed(entry, failure, now)
        forbidden = forbidden or (failure.message if failure.kind is FailureKind.DENIED else "")
    else:
        forbidden = ""
        entry = done(replace(entry, retry=Retry(), failure=None), call, outcome, now)
    return replace(
        state,
        entries={**state.entries, name: entry},
        calls={op: one for op, one in state.calls.items() if op != outcome.op},
        waiting={**state.waiting, name: None},
        forbidden=forbidden,
    )


def done(entry: MirrorEntry, call: MirrorCall, outcome: Outcome, now: Instant) -> MirrorEntry:
    """Return the entry after a mirror was created or deleted."""
    if call.created is None:
        return replace(entry, gone=call.deleted, gone_until=now + GONE_S, made=None)
    made = None
    if isinstance(outcome.result, KubeObject):
        made = SCHEME.decode(outcome.result.body, "the answer of the API server", kinds=("Pod",)).object
    if not isinstance(made, Pod) or mirrored_hash(made) != mirrored_hash(call.created):
        made = call.created
    return replace(entry, made=made, settle_at=now + SETTLE_S)


def failed(entry: MirrorEntry, failure: Failure, now: Instant) -> MirrorEntry:
    """Return the entry after a call failed. A mirror that exists already is soon shown by a level."""
    refused = failure.kind in (FailureKind.DENIED, FailureKind.REJECTED)
    retry = entry.retry.after(now, RETRY_REFUSED if refused else RETRY)
    if failure.kind is FailureKind.ALREADY_EXISTS and retry.failures < OVERLAPS:
        return replace(entry, retry=retry)
    return replace(entry, retry=retry, failure=failure)


# ---------------------------------------------------------------- plan


def plan(state: MirrorsState, now: Instant, new_op: Callable[[], OpId]) -> Decision[MirrorsState]:
    """Ask for what is not known, and start a call for each name that needs one."""
    state, actions, wakes = follow(state, now)
    found, agenda = state.agenda.due(now)
    waiting = dict(state.waiting)
    entries, calls = dict(state.entries), dict(state.calls)
    waiting |= {name: None for at, name in found if name in entries and entries[name].due_at == at}
    looks: list[Entry] = []
    shown = state.shown
    while waiting and shown is not None and len(calls) < CALLS_AT_ONCE and not state.inherited:
        name = next(iter(waiting))
        del waiting[name]
        entry = replace(entries.get(name, MirrorEntry(name=name)), due_at=None)
        if entry.call is not None:
            continue
        entry, start = next_call(state, entry, shown.get(name), now, new_op)
        if start is not None:
            actions.append(start)
            calls[start.op] = name
        if entry.due_at is not None:
            looks.append((entry.due_at, Uid(name)))
        entries[name] = entry
        if entry == MirrorEntry(name=name):
            del entries[name]
    first, agenda = agenda.plus(looks).first(
        lambda one: one[1] in entries and entries[one[1]].due_at == one[0]
    )
    wakes += [first] if first is not None else []
    state = replace(state, entries=entries, calls=calls, waiting=waiting, agenda=agenda)
    return Decision(state=state, actions=tuple(actions), wake_at=min(wakes))


def follow(state: MirrorsState, now: Instant) -> tuple[MirrorsState, list[Action], list[Instant]]:
    """Ask others for what they know: at once, soon again while they do not answer, and from time to time."""
    sources, asking, again_at = ask_for_snapshot(state.sources, paths.MIRRORS, now)
    actions, wakes = list(asking), [again_at] if again_at is not None else []
    is_due, again_at = when_to_ask(state.running_asked_at, now, known=state.running is not None)
    wakes.append(again_at)
    if is_due:
        actions.append(Tell(to=paths.PODS, message=WatchPods(asked_by=paths.MIRRORS)))
        state = replace(state, running_asked_at=now)
    known = state.node is not None and bool(state.node.uid)
    is_due, again_at = when_to_ask(state.node_asked_at, now, known=known)
    wakes.append(again_at)
    if is_due:
        actions.append(Tell(to=paths.NODESTATUS, message=WatchNodeObject(asked_by=paths.MIRRORS)))
        state = replace(state, node_asked_at=now)
    return replace(state, sources=sources), actions, wakes


def next_call(
    state: MirrorsState, entry: MirrorEntry, shown: Pod | None, now: Instant, new_op: Callable[[], OpId]
) -> tuple[MirrorEntry, Start | None]:
    """Return the call that a name needs now, None for none; `due_at` says when to look again."""
    if shown is not None and shown.metadata.uid == entry.gone:
        if now < entry.gone_until:
            shown, entry = None, replace(entry, due_at=entry.gone_until)
        else:
            entry = replace(entry, gone="")
    if shown is None and entry.made is not None:
        if now < entry.settle_at:
            shown = entry.made
            entry = replace(entry, due_at=entry.settle_at)
        else:
            entry = replace(entry, made=None)
    static = static_of(state, entry.name, shown)
    call: MirrorCall | None = None
    if shown is None:
        node = state.node
        if static is not None and node is not None and node.uid and not node.is_being_deleted:
            call = MirrorCall(op=OpId(0), created=mirror_of(static, state.node_name, node.uid))
    elif must_go(state, shown, static):
        call = MirrorCall(op=OpId(0), deleted=shown.metadata.uid)
    if call is None:
        return (entry if entry.due_at is not None or entry.gone else MirrorEntry(name=entry.name)), None
    if now < entry.retry.at:
        return replace(entry, due_at=entry.retry.at), None
    op = new_op()
    namespace, _, name = entry.name.partition("/")
    path = ObjectPath(plural="pods", namespace=namespace)
    request: CreateObject | DeleteObject = (
        CreateObject(path=path, body=msgspec.json.encode(call.created))
        if call.created is not None
        else DeleteObject(path=replace(path, name=name), uid=call.deleted, grace_s=0)
    )
    start = Start(op=op, port=KUBE, call=request, deadline_s=DEADLINE_S)
    return replace(entry, call=replace(call, op=op), due_at=None), start
