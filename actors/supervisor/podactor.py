"""The actor of a pod: started when the pod may run, kept up to date, stopped when everything of the pod is removed.

One that died past its restart budget is in quarantine: its containers are left unchanged, and it is started again later.
"""

from typing import assert_never

from msgspec.structs import replace

from actors.rules.resources.allocation import with_allocated
from actors.rules.retry import Retry, RetryPolicy
from actors.supervisor.admission import ask
from actors.supervisor.gate import may_start
from actors.supervisor.kill import (
    due_kill,
    send_deletion,
    send_kill,
    send_preemption,
    unsent_kill,
    unsent_preemption,
)
from actors.supervisor.standing import admitted, is_awaited, is_fresh
from actors.supervisor.state import (
    REVISIONS,
    Decided,
    Desired,
    Judged,
    PodActorState,
    PodEntry,
    Quarantined,
    Reported,
    Spawned,
    SpawnPod,
    Stopping,
    StopPod,
    SupervisorState,
    Unspawned,
    with_entry,
)
from actors.supervisor.work import Work
from api import paths
from api.ids import Instant, Uid
from api.lifecycle import Tell
from api.messages.pod import UpdatePod
from api.messages.status import ForgetPodStatus
from api.messages.supervisor import PodAdmitted, PodLife, PodMoved, PodRefused
from api.paths import pod_path

QUARANTINE = RetryPolicy(base_s=10.0, limit_s=300.0)


def absorb_move(state: SupervisorState, message: PodMoved) -> SupervisorState:
    """Take in how far a pod is; an actor of an earlier incarnation's time gets an entry again."""
    entry = state.entries.get(message.uid)
    if entry is None:
        entry = PodEntry(
            uid=message.uid,
            name=message.name,
            namespace=message.namespace,
            number=state.next_order,
            desired=Desired(order=state.next_order, revision=state.epoch * REVISIONS),
            actor=Spawned(),
        )
        state = replace(state, next_order=state.next_order + 1)
    if not entry.name:
        entry = replace(entry, name=message.name, namespace=message.namespace)
    confined, answer = entry.reported.confined, admitted(entry)
    if answer is not None and message.confined >= entry.desired.revision:
        # What its containers gave back is free once they are confined by what it was sent last.
        confined = answer.generation
    reported = Reported(
        life=message.life,
        deleted=message.deleted,
        kept=message.kept,
        leaving=message.leaving,
        confined=confined,
    )
    moved = replace(entry, reported=reported)
    return state if state.entries.get(message.uid) == moved else with_entry(state, moved)


def absorb_restart(state: SupervisorState, uid: Uid) -> SupervisorState:
    """Absorb that a pod's actor has restarted: it is sent everything again."""
    entry = state.entries.get(uid)
    if entry is None:
        return state
    clearance = state.clearance
    if clearance is not None and uid in clearance.sent:
        sent = tuple(one for one in clearance.sent if one != uid)
        state = replace(state, clearance=replace(clearance, sent=sent))
    actor = entry.actor
    return with_entry(
        state,
        replace(
            entry,
            actor=Spawned(retry=actor.retry) if isinstance(actor, Spawned) else actor,
            reported=replace(entry.reported, deleted=False),
            kill=unsent_kill(entry.kill),
            deletion=unsent_kill(entry.deletion),
            preemption=unsent_preemption(entry.preemption),
        ),
    )


def absorb_death(state: SupervisorState, uid: Uid, cause: str, now: Instant) -> SupervisorState:
    """Take in that a pod's actor is gone: as asked for, or past its restart budget."""
    entry = state.entries.get(uid)
    if entry is None:
        return state
    if isinstance(entry.actor, Stopping):
        runtime = replace(state.runtime, ended={**state.runtime.ended, uid: now})
        number = state.next_order
        # Should it be wanted again, it is judged again.
        fresh = PodEntry(
            uid=uid, name=entry.name, namespace=entry.namespace, number=number, desired=entry.desired
        )
        return with_entry(replace(state, runtime=runtime, next_order=number + 1), fresh)
    retry = retry_of(entry.actor).after(now, QUARANTINE)
    quarantined = Quarantined(cause=cause or "it was stopped from outside", retry=retry)
    kill, deletion = unsent_kill(entry.kill), unsent_kill(entry.deletion)
    after = replace(entry, actor=quarantined, reported=Reported(), kill=kill, deletion=deletion)
    return with_entry(state, after)


def retry_of(actor: PodActorState) -> Retry:
    """Return how often an actor of a pod has died past its restart budget, and when it is started again."""
    return actor.retry if isinstance(actor, Spawned | Quarantined) else Retry()


def end_quarantine(state: SupervisorState, entry: PodEntry, now: Instant) -> SupervisorState:
    """Start a pod's actor now: a pod whose actor is in quarantine may have running containers."""
    if not isinstance(entry.actor, Quarantined):
        return state
    retry = replace(entry.actor.retry, at=now)
    return with_entry(state, replace(entry, actor=replace(entry.actor, retry=retry)))


def attend(state: SupervisorState, entry: PodEntry, work: Work, now: Instant) -> PodEntry | None:
    """Bring one pod a step further; None drops its entry."""
    actor, wanted = entry.actor, entry.desired.pod is not None
    match actor:
        case Spawned():
            return attend_actor(state, entry, actor, work, now)
        case Stopping():
            return entry
        case Quarantined(retry=retry):
            if now < retry.at:
                work.looks.append(retry.at)
                return entry
        case Unspawned():
            if not wanted and entry.kill is None and entry.reported.life is None:
                return None
        case _:
            assert_never(actor)
    entry = ask(state, entry, work)
    if wanted and not isinstance(entry.admission, Judged | Decided):
        return entry
    if wanted and entry.is_static and not may_start(state, entry, work):
        return entry
    work.actions.append(SpawnPod(uid=entry.uid, blank_as_of=blank_as_of(state, entry)))
    spawned = Spawned(retry=retry_of(actor))
    return attend_actor(state, replace(entry, actor=spawned), spawned, work, now)


def blank_as_of(state: SupervisorState, entry: PodEntry) -> Instant | None:
    """Return since when it is known that nothing of a pod is anywhere, None when it is not: its actor need not look then.

    What was looked for is older than the pod, and nobody but its actor makes anything of it.
    """
    listed, remains = state.runtime.listed, state.garbage.remains
    if listed is None or remains is None or not is_fresh(entry) or retry_of(entry.actor).failures:
        return None
    if entry.uid in state.runtime.ended or entry.uid in remains or entry.uid in listed.by_uid:
        return None
    return listed.as_of


def attend_actor(
    state: SupervisorState, entry: PodEntry, actor: Spawned, work: Work, now: Instant
) -> PodEntry:
    """Send a pod's actor what it does not know yet, and stop it when everything of its pod is removed."""
    if entry.reported.life is PodLife.GONE:
        work.actions += [
            Tell(to=paths.STATUS, message=ForgetPodStatus(uid=entry.uid)),
            StopPod(uid=entry.uid),
        ]
        return replace(entry, actor=Stopping())
    kill = entry.kill
    if kill is None and entry.desired.pod is None:
        kill = due_kill(state, entry, work)
    if kill is not None:
        kill = send_kill(state, kill, work, now, answered=entry.reported.deleted)
        return replace(entry, kill=kill)
    entry = send_update(state, ask(state, entry, work), actor, work, now)
    entry = send_deletion(state, entry, work, now)
    return send_preemption(entry, work, now)


def send_update(
    state: SupervisorState, entry: PodEntry, actor: Spawned, work: Work, now: Instant
) -> PodEntry:
    """Send a pod's actor what its pod should be, once that is decided and remembered, and again with each resync."""
    pod, revision = entry.desired.pod, entry.desired.revision
    if pod is None or not isinstance(entry.admission, Decided) or is_awaited(entry):
        return entry
    if actor.sent != revision or now >= actor.sent_at + state.resync_s:
        answer = entry.admission.answer
        update = UpdatePod(
            pod=with_allocated(pod, answer.allocated) if isinstance(answer, PodAdmitted) else pod,
            source=entry.desired.source,
            generation=revision,
            node=state.node.facts,
            refusal=answer.refusal if isinstance(answer, PodRefused) else None,
            resize=answer.resize if isinstance(answer, PodAdmitted) else None,
        )
        work.actions.append(Tell(to=pod_path(entry.uid), message=update))
        actor = replace(actor, sent=revision, sent_at=now)
        entry = replace(entry, actor=actor)
    work.looks.append(actor.sent_at + state.resync_s)
    return entry
