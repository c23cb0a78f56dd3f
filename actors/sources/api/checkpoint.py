"""The checkpoint of the API source: the last level in the ledger, one entry for each pod, so that one change writes one.

With it pods of the cluster start again after a reboot though no API server answers. Writes are durable, and gathered:
a round of them begins at most every `GATHER_S`, but what is deleted, or is to run otherwise, is written at once.
"""

import hashlib
from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from actors.rules.container.ownership import OWNED
from actors.rules.retry import Retry, RetryPolicy
from actors.sources.api.state import (
    SECTION,
    ApiLevel,
    ApiSourceState,
    Checkpoint,
    CheckpointEntry,
    CheckpointUnread,
    CheckpointWrite,
    UnwrittenPod,
    entry_key,
)
from actors.sources.manifest import ANNOTATION_SOURCE
from api import paths
from api.decoding import ready
from api.errors import FailureKind
from api.ids import Instant, OpId, Uid
from api.kube.objects.pod import Pod
from api.kube.objects.strmap import StrMap
from api.lifecycle import Action, Start, Tell
from api.messages.events import LedgerDamaged
from api.messages.kernel import Outcome
from api.ports.ledger import Forget, RecallAll, RecalledAll, Remember, not_ours

LEDGER = "ledger"
GATHER_S = 3.0
"""Between rounds of writes, and from the first change to its round."""
DEADLINE_S = 10.0
WRITES_AT_ONCE = 4
RETRY = RetryPolicy(base_s=1.0, limit_s=60.0)


# ---------------------------------------------------------------- absorb


def absorb_checkpoint(state: ApiSourceState, outcome: Outcome, now: Instant) -> ApiSourceState:
    """Take in an answer of the ledger; one that an earlier incarnation asked for is ignored."""
    match state.checkpoint:
        case CheckpointUnread(inherited=inherited) as unread if outcome.op in inherited:
            left = tuple(op for op in inherited if op != outcome.op)
            return replace(state, checkpoint=replace(unread, inherited=left))
        case CheckpointUnread(op=op) if op == outcome.op:
            return absorb_recall(state, outcome, now)
        case Checkpoint(writes=writes) as checkpoint:
            write = next((one for one in writes if one.op == outcome.op), None)
            if write is not None:
                return replace(state, checkpoint=absorb_write(checkpoint, write, outcome, now))
    return state


def absorb_recall(state: ApiSourceState, outcome: Outcome, now: Instant) -> ApiSourceState:
    """Take in what the ledger holds; until it says that, no pod is known before the API server answers."""
    result = outcome.result
    if not isinstance(result, RecalledAll) or any(not key for key, _ in result.damaged):
        whole = [why for key, why in result.damaged if not key] if isinstance(result, RecalledAll) else []
        why = outcome.failure.message if outcome.failure else "".join(whole[:1])
        problem = f"what the API server listed before the agent started is not known ({why})"
        retry = state.checkpoint.retry.after(now, RETRY)
        return replace(state, checkpoint=CheckpointUnread(problem=problem, retry=retry))
    lost = [why for _, why in result.damaged]
    restored, stored = list[Pod](), dict[Uid, CheckpointEntry]()
    for key, data in result.entries:
        pod = decoded_entry(key, data)
        if pod is None:
            lost.append(not_ours(SECTION, key))
            continue
        restored.append(pod)
        stored[Uid(pod.metadata.uid)] = CheckpointEntry(digest=digest_of(data))
    problem = f"{len(lost)} remembered pods were damaged and set aside" if lost else ""
    checkpoint = Checkpoint(
        restored=tuple(sorted(restored, key=place_of)), problem=problem, lost=tuple(lost), stored=stored
    )
    if state.level is not None:
        return replace(state, checkpoint=replace(checkpoint, restored=(), write_at=now))
    unsent = (state.config,) if restored else ()
    return replace(state, checkpoint=checkpoint, unsent=unsent)


def absorb_write(
    checkpoint: Checkpoint, write: CheckpointWrite, outcome: Outcome, now: Instant
) -> Checkpoint:
    """Take in that a write ended. A failed one is tried again with the next round, which waits for it.

    One that the ledger rejects would be rejected again: it is not repeated before the pod changes.
    """
    writes = tuple(one for one in checkpoint.writes if one is not write)
    failure = outcome.failure
    if failure is not None:
        problem = f"what the API server lists is not remembered: {failure.message}"
        checkpoint = replace(checkpoint, writes=writes, problem=problem)
        if failure.kind is not FailureKind.REJECTED:
            retry = checkpoint.retry.after(now, RETRY)
            return replace(checkpoint, unwritten=(), retry=retry, write_at=retry.at)
    else:
        checkpoint = replace(checkpoint, writes=writes, problem="", retry=Retry())
    stored = {uid: one for uid, one in checkpoint.stored.items() if uid != write.uid}
    if write.entry is not None:
        stored[write.uid] = write.entry
    return replace(checkpoint, stored=stored)


def changed_level(
    checkpoint: CheckpointUnread | Checkpoint, level: ApiLevel, now: Instant
) -> CheckpointUnread | Checkpoint:
    """Return the checkpoint after the API server listed something else: to be written soon, with what else changes.

    What would do harm as it was is written at once: a deleted pod would run again after its end, which nothing else
    remembers, and a container of a changed spec would be ended for the spec before that.
    """
    if isinstance(checkpoint, CheckpointUnread):
        return checkpoint
    gather_s = 0.0 if is_urgent(level, checkpoint.stored) else GATHER_S
    due_at = max(now + gather_s, checkpoint.retry.at)
    write_at = due_at if checkpoint.write_at is None else min(due_at, checkpoint.write_at)
    return replace(checkpoint, restored=(), write_at=write_at)


def is_urgent(level: ApiLevel, stored: Mapping[Uid, CheckpointEntry]) -> bool:
    """Return whether the ledger holds a pod that is gone, or one as it was before its deletion or a change of its spec."""
    listed = {Uid(pod.metadata.uid): pod for pod in level.pods}
    return any(is_outdated(entry.pod, listed.get(uid)) for uid, entry in stored.items())


def is_outdated(stored: Pod | None, listed: Pod | None) -> bool:
    """Return whether a listed pod is to run otherwise than the stored one, which is None where it was not read yet."""
    if stored is None or listed is None:
        return True
    if stored is listed:
        return False
    return listed.metadata.deletion_timestamp is not None or stored.spec != listed.spec


# ---------------------------------------------------------------- plan


def plan_checkpoint(
    state: ApiSourceState, now: Instant, new_op: Callable[[], OpId]
) -> tuple[CheckpointUnread | Checkpoint, tuple[Action, ...]]:
    """Ask for what the ledger holds, report what it lost, and write what it lacks."""
    checkpoint = state.checkpoint
    if isinstance(checkpoint, CheckpointUnread):
        if checkpoint.op is not None or checkpoint.inherited or now < checkpoint.retry.at:
            return checkpoint, ()
        op = new_op()
        ask = Start(op=op, port=LEDGER, call=RecallAll(section=SECTION), deadline_s=DEADLINE_S)
        return replace(checkpoint, op=op), (ask,)
    actions: list[Action] = []
    if checkpoint.lost:
        actions.append(Tell(to=paths.EVENTS, message=LedgerDamaged(section=SECTION, whys=checkpoint.lost)))
        checkpoint = replace(checkpoint, lost=())
    if state.level is None:
        return checkpoint, tuple(actions)
    busy = checkpoint.unwritten or checkpoint.writes
    if not busy and checkpoint.write_at is not None and now >= checkpoint.write_at:
        stored, unwritten = lacking(state.level, checkpoint.stored)
        checkpoint = replace(checkpoint, stored=stored, unwritten=unwritten, write_at=None)
    room = WRITES_AT_ONCE - len(checkpoint.writes)
    begun, rest = checkpoint.unwritten[:room], checkpoint.unwritten[room:]
    writes = []
    for one in begun:
        op = new_op()
        actions.append(Start(op=op, port=LEDGER, call=ledger_call(one), deadline_s=DEADLINE_S))
        writes.append(CheckpointWrite(op=op, uid=one.uid, entry=one.entry))
    checkpoint = replace(checkpoint, unwritten=rest, writes=(*checkpoint.writes, *writes))
    return checkpoint, tuple(actions)


def lacking(
    level: ApiLevel, stored: Mapping[Uid, CheckpointEntry]
) -> tuple[Mapping[Uid, CheckpointEntry], tuple[UnwrittenPod, ...]]:
    """Return what is stored, with the objects that are known to be equal to it, and what must be removed or written.

    What is removed comes first: a pod that is gone would run again, one that is not written yet comes with the next level.
    """
    listed = {pod.metadata.uid for pod in level.pods}
    known = dict(stored)
    unwritten = [UnwrittenPod(uid=uid, entry=None) for uid in stored if uid not in listed]
    for pod in level.pods:
        uid = Uid(pod.metadata.uid)
        old = stored.get(uid)
        if old is not None and old.pod is pod:
            continue
        data = encoded_entry(pod)
        entry = CheckpointEntry(digest=digest_of(data), pod=pod)
        if old is not None and old.digest == entry.digest:
            known[uid] = entry
        else:
            unwritten.append(UnwrittenPod(uid=uid, entry=entry, data=data))
    return known, tuple(unwritten)


def ledger_call(one: UnwrittenPod) -> Remember | Forget:
    """Return the call that writes or removes an entry."""
    key = entry_key(one.uid)
    if one.entry is None:
        return Forget(section=SECTION, key=key, durable=True)
    return Remember(section=SECTION, key=key, data=one.data, durable=True)


def last_writes(state: ApiSourceState) -> tuple[msgspec.Struct, ...]:
    """Return the calls that write everything that the ledger lacks: for an orderly end."""
    if state.level is None or not isinstance(state.checkpoint, Checkpoint):
        return ()
    return tuple(ledger_call(one) for one in lacking(state.level, state.checkpoint.stored)[1])


def wakes(state: ApiSourceState) -> tuple[Instant, ...]:
    """Return when the ledger is asked again, or a round of writes is due."""
    checkpoint = state.checkpoint
    if isinstance(checkpoint, CheckpointUnread):
        return (checkpoint.retry.at,) if checkpoint.op is None and not checkpoint.inherited else ()
    if state.level is None or checkpoint.write_at is None:
        return ()
    return () if checkpoint.writes else (checkpoint.write_at,)


# ---------------------------------------------------------------- entries


def encoded_entry(pod: Pod) -> bytes:
    """Return a pod as the ledger holds it: without what changes often and is known better elsewhere.

    The resource version says nothing that outlives the agent, and what this agent reports is in the ledger's section ``status``.
    """
    status = replace(
        pod.status,
        conditions=tuple(one for one in pod.status.conditions if one.type not in OWNED),
        container_statuses=(),
        init_container_statuses=(),
        ephemeral_container_statuses=(),
    )
    metadata = replace(pod.metadata, resource_version="")
    return msgspec.json.encode(replace(pod, metadata=metadata, status=status))


def decoded_entry(key: str, data: bytes) -> Pod | None:
    """Return the pod of an entry as one to run, None when it holds something else."""
    try:
        pod = msgspec.json.decode(data, type=ready(Pod))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if entry_key(Uid(pod.metadata.uid)) != key:
        return None
    return of_api(pod)


def of_api(pod: Pod) -> Pod:
    """Return a pod with the annotation of its source, whatever it said itself: another one would make it static."""
    meta = pod.metadata
    annotations = StrMap({**meta.annotations, ANNOTATION_SOURCE: "api"})
    return replace(pod, metadata=replace(meta, annotations=annotations, managed_fields=()))


def place_of(pod: Pod) -> tuple[str, str, str]:
    """Return what pods of a level are sorted by."""
    return (pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def digest_of(data: bytes) -> str:
    """Return what tells two entries apart."""
    return hashlib.sha256(data).hexdigest()
