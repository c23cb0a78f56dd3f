"""Kills for a pod's actor, each sent until it is answered: of a pod that no source wants, that is deleted, or preempted."""

from msgspec.structs import replace

from actors.rules.retry import RetryPolicy
from actors.supervisor.standing import NOTHING_LEFT, OVER
from actors.supervisor.state import (
    Decided,
    KillRequest,
    PodEntry,
    Preemption,
    Spawned,
    SupervisorState,
)
from actors.supervisor.work import Work
from api import paths
from api.ids import Instant, Uid
from api.lifecycle import Tell
from api.messages.pod import KillCause, KillPod
from api.messages.supervisor import PodLife
from api.paths import pod_path

REPEAT_S = 5.0
"""How long a kill waits for its actor's answer before it is repeated; each further time twice as long, up to a resync."""


def due_kill(state: SupervisorState, entry: PodEntry, work: Work) -> KillRequest | None:
    """Return the kill of a pod that no source wants, once it is due."""
    source = entry.desired.source
    replaced = source != "api" and any(
        one.full_name == entry.full_name
        and one.desired.pod is not None
        and one.is_static
        and one.uid != entry.uid
        for one in work.namesakes(entry)
    )
    if replaced:
        return removal(entry.uid, KillCause.REPLACED)
    if not state.sources.has_answered(source):
        return None
    return removal(entry.uid, KillCause.REMOVED if source else KillCause.ORPHAN)


def removal(uid: Uid, cause: KillCause) -> KillRequest:
    """Return the kill of a pod of which nothing is to stay: with its own grace, which its actor finds out."""
    return KillRequest(message=KillPod(uid=uid, cause=cause, deleted=True, asked_by=paths.PODS))


def send_kill(
    state: SupervisorState, kill: KillRequest, work: Work, now: Instant, *, answered: bool
) -> KillRequest:
    """Send a pod's actor a kill, until it is answered and then with each resync."""
    if not kill.tries or now >= kill.sent_at + patience_s(state, kill, answered=answered):
        work.actions.append(Tell(to=pod_path(kill.message.uid), message=kill.message))
        kill = replace(kill, tries=kill.tries + 1, sent_at=now)
    work.looks.append(kill.sent_at + patience_s(state, kill, answered=answered))
    return kill


def patience_s(state: SupervisorState, kill: KillRequest, *, answered: bool) -> float:
    """Return how long after a kill was sent it is sent again: an answered one as everything is, others with back-off."""
    if answered:
        return state.resync_s
    return RetryPolicy(base_s=REPEAT_S, limit_s=state.resync_s).wait_s(max(kill.tries, 1))


def unsent_kill(kill: KillRequest | None) -> KillRequest | None:
    """Return a kill that must be sent again at once."""
    return KillRequest(message=kill.message) if kill is not None else None


def send_deletion(state: SupervisorState, entry: PodEntry, work: Work, now: Instant) -> PodEntry:
    """Stop a pod whose object is being deleted, after its actor was sent the pod, and again with each shorter grace.

    What is left of it stays, with its status, until its source lets go of it.
    """
    asked, life = deletion_of(entry), entry.reported.life
    sent = isinstance(entry.actor, Spawned) and entry.actor.sent >= 0
    if asked is None or not sent or life in NOTHING_LEFT:
        return entry
    kill = entry.deletion
    if kill is None or shortens(asked, kill.message):
        kill = KillRequest(message=asked)
    return replace(entry, deletion=send_kill(state, kill, work, now, answered=life in OVER))


def deletion_of(entry: PodEntry) -> KillPod | None:
    """Return the kill of a pod whose object is being deleted; a grace of 0 counts as 1 (reference ``pod-lifecycle`` 4.6)."""
    pod = entry.desired.pod
    if pod is None or pod.metadata.deletion_timestamp is None:
        return None
    grace_s = pod.metadata.deletion_grace_period_seconds
    return KillPod(
        uid=entry.uid,
        cause=KillCause.DELETED,
        grace_s=None if grace_s is None else max(1, grace_s),
        asked_by=paths.PODS,
    )


def shortens(kill: KillPod, earlier: KillPod) -> bool:
    """Return whether a kill leaves less grace than an earlier one."""
    return kill.grace_s is not None and (earlier.grace_s is None or kill.grace_s < earlier.grace_s)


def send_preemption(entry: PodEntry, work: Work, now: Instant) -> PodEntry:
    """Stop a pod that a critical one preempts: send its actor a kill, until it answers that it is stopping."""
    preemption = entry.preemption
    if preemption is None or not isinstance(entry.admission, Decided):
        return entry
    if entry.reported.life not in (None, PodLife.RECALLING, PodLife.SYNCING):
        return entry
    if now >= preemption.sent_at + REPEAT_S:
        work.actions.append(Tell(to=pod_path(entry.uid), message=preemption.message))
        preemption = replace(preemption, sent_at=now)
        entry = replace(entry, preemption=preemption)
    work.looks.append(preemption.sent_at + REPEAT_S)
    return entry


def unsent_preemption(preemption: Preemption | None) -> Preemption | None:
    """Return a preemption that must be sent again."""
    return Preemption(message=preemption.message) if preemption is not None else None
