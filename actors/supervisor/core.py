"""PodSupervisor's decisions: which UIDs have an actor, what each is told, who is stopped, who waits.

Level-triggered: `plan` does whatever is not done yet for each pod that changed or is due, so a lost message or a restart
is repaired by the next look. Nothing is stopped for want of a source before all sources were seen.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from msgspec.structs import replace

from actors.rules.agenda import Entry
from actors.rules.identity import kept_for_last
from actors.rules.nodewatch import NEVER_ASKED, follow_node
from actors.rules.resources.allocation import with_allocated
from actors.rules.retry import RetryPolicy
from actors.supervisor.active import tell_active
from actors.supervisor.admission import absorb_answer, ask, lost_admission, send_rows
from actors.supervisor.clear import clear_finished
from actors.supervisor.gate import by_uid, may_start
from actors.supervisor.standing import NOTHING_LEFT, OVER, admitted, is_awaited, is_fresh
from actors.supervisor.state import (
    MEMO_SECTION,
    STATUS_SECTION,
    Clearance,
    Decided,
    Desired,
    DesiredSources,
    Judged,
    KillRequest,
    PodActorState,
    PodEntry,
    Preemption,
    Quarantined,
    Reported,
    Spawned,
    SpawnPod,
    Stopping,
    StopPod,
    SupervisorState,
    Unspawned,
    Watchers,
    with_entries,
    with_entry,
)
from actors.supervisor.work import Work
from api import paths
from api.ids import Instant, OpId, Uid
from api.lifecycle import Action, Decision, Start, Tell
from api.messages.eviction import PodKilled
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.node import NodeChanged
from api.messages.pod import KillCause, KillPod, UpdatePod
from api.messages.podconfig import SnapshotWanted
from api.messages.status import ForgetPodStatus
from api.messages.supervisor import (
    ClearFinished,
    PodAdmitted,
    PodLife,
    PodMoved,
    PodOp,
    PodRefused,
    PodsChanged,
    PodsDecided,
    PodsJudged,
    PodsSnapshot,
    PreemptPods,
    RuntimeListed,
    RuntimePresence,
    SourcedPod,
    SupervisorMessage,
    VerdictsRecalled,
    WatchPods,
)
from api.paths import pod_path
from api.ports.ledger import RecallAll, RecalledAll
from api.ports.node import NodeFacts
from api.ports.podfiles import ListPodFolders, PodFolders

REPEAT_S = 5.0
"""How long a kill waits for its actor's answer before it is repeated; each further time twice as long, up to a resync."""
QUARANTINE_S = 10.0
QUARANTINE_LIMIT_S = 300.0
GARBAGE_DEADLINE_S = 30.0
GARBAGE_PERIOD_S = 300.0
"""Between searches for what pods that no one owns left on disk: repairs a lost `ForgetPodStatus` and a failed look."""
REVISIONS = 1_000_000
"""More updates of one pod than an incarnation of the supervisor tells."""


def decide(
    before: SupervisorState,
    message: SupervisorMessage | KernelMessage | None,
    now: Instant,
    new_op: Callable[[], OpId],
) -> Decision[SupervisorState]:
    """Take in a message (None: only look again) and choose what to do."""
    state = absorb(before, message, now)
    if isinstance(message, PodMoved) and state is before:
        # Each resync has every pod say again what is known of it.
        return Decision(state=before, wake_at=before.wake_at)
    if state.sources.all_ready is not before.sources.all_ready:
        state = replace(state, due=replace(state.due, waiting=True, strays=True))
    decision = plan(state, now, new_op)
    return replace(decision, actions=(*decision.actions, *answers(decision.state, message)))


def answers(after: SupervisorState, message: SupervisorMessage | KernelMessage | None) -> tuple[Action, ...]:
    """Pass a kill on to the pod's actor; where there is none, nothing of the pod runs and that is the answer.

    An incarnation that was told of no pods yet may have actors of an earlier one's time that it does not know.
    """
    if not isinstance(message, KillPod):
        return ()
    entry = after.entries.get(message.uid)
    if (entry is not None and entry.has_actor) or after.sources.number < 0:
        return (Tell(to=pod_path(message.uid), message=message),)
    return (Tell(to=message.asked_by, message=PodKilled(uid=message.uid)),)


# ---------------------------------------------------------------- absorb


def absorb(  # noqa: C901  # one case per message
    state: SupervisorState, message: SupervisorMessage | KernelMessage | None, now: Instant
) -> SupervisorState:
    """Return what is known after `message`; decides nothing."""
    match message:
        case PodsSnapshot():
            return absorb_snapshot(state, message)
        case PodsChanged():
            return absorb_change(state, message)
        case RuntimeListed():
            return absorb_listing(state, message)
        case PodMoved():
            return absorb_move(state, message)
        case ChildDied(path=path, cause=cause):
            return absorb_death(state, Uid(path.rpartition("/")[2]), cause, now)
        case NodeChanged(facts=facts):
            return absorb_node(state, facts)
        case Restarted(path=path) if path == paths.NODE:
            return replace(state, node=replace(state.node, asked_at=NEVER_ASKED))
        case Restarted(path=path) if path == paths.ADMISSION:
            return lost_admission(state)
        case PodsDecided() | PodsJudged() | VerdictsRecalled() | PreemptPods():
            return absorb_answer(state, message)
        case Restarted(path=path):
            return unsent(state, Uid(path.rpartition("/")[2]))
        case Outcome():
            return absorb_garbage(state, message)
        case KillPod(uid=uid) if uid in state.entries:
            return out_of_quarantine(state, state.entries[uid], now)
        case WatchPods() | ClearFinished():
            return absorb_eviction(state, message)
        case KillPod() | Alarm() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def out_of_quarantine(state: SupervisorState, entry: PodEntry, now: Instant) -> SupervisorState:
    """Start a pod's actor now: a pod whose actor is in quarantine may have running containers."""
    if not isinstance(entry.actor, Quarantined):
        return state
    return with_entry(state, replace(entry, actor=replace(entry.actor, retry_at=now)))


def absorb_node(state: SupervisorState, facts: NodeFacts) -> SupervisorState:
    """Take in what the node is; when it has changed every wanted pod is told."""
    node = state.node
    if node.known and facts == node.facts:
        return state
    told = [
        replace(one, desired=replace(one.desired, revision=one.desired.revision + 1))
        for one in (state.entries.values() if node.known else ())
        if one.desired.pod is not None
    ]
    after = replace(node, facts=facts, known=True)
    return with_entries(replace(state, node=after, due=replace(state.due, waiting=True)), told)


def absorb_listing(state: SupervisorState, message: RuntimeListed) -> SupervisorState:
    """Take in a listing, and of whom the one before showed containers only; the same one twice says nothing more."""
    runtime = state.runtime
    before = runtime.listed
    ended = {uid: at for uid, at in runtime.ended.items() if at >= message.as_of}
    loose = runtime.loose
    if before is not None and before.as_of != message.as_of:
        loose = frozenset(p.uid for p in before.pods if p.loose)
    after = replace(runtime, listed=message, strays=message.pods, ended=ended, loose=loose)
    return replace(state, runtime=after, due=replace(state.due, strays=True, waiting=True))


def absorb_snapshot(state: SupervisorState, message: PodsSnapshot) -> SupervisorState:
    """Take in the whole desired set; pods of sources that were not seen stay as they are."""
    wanted = {Uid(sourced.pod.metadata.uid) for sourced in message.pods}
    left = (
        unwanted(entry)
        for uid, entry in state.entries.items()
        if entry.desired.pod is not None and uid not in wanted and entry.desired.source in message.seen
    )
    state = want(with_entries(state, left), message.pods)
    sources = DesiredSources(
        expected=state.sources.expected, seen=message.seen, number=message.number, gap=False
    )
    return replace(state, sources=sources)


def absorb_change(state: SupervisorState, message: PodsChanged) -> SupervisorState:
    """Take in one numbered change; a gap in the numbers makes everything since unknown."""
    if message.number <= state.sources.number:
        return state
    if message.number != state.sources.number + 1 or state.sources.gap:
        return replace(state, sources=replace(state.sources, gap=True))
    state = replace(state, sources=replace(state.sources, number=message.number))
    match message.op:
        case PodOp.REMOVE:
            known = (state.entries.get(Uid(pod.metadata.uid)) for pod in message.pods)
            left = [
                unwanted(one) for one in known if one is not None and one.desired.source == message.source
            ]
            state = with_entries(state, left)
        case PodOp.ADD | PodOp.UPDATE | PodOp.DELETE | PodOp.RECONCILE | PodOp.RESTORE:
            state = want(state, tuple(SourcedPod(source=message.source, pod=pod) for pod in message.pods))
        case _:
            assert_never(message.op)
    if message.op is PodOp.RESTORE:
        return state
    seen = tuple(sorted({*state.sources.seen, message.source}))
    return replace(state, sources=replace(state.sources, seen=seen))


def want(state: SupervisorState, pods: Iterable[SourcedPod]) -> SupervisorState:
    """Take in that sources want these pods."""
    order = state.next_order
    changed: dict[Uid, PodEntry] = {}
    for source, pod in ((one.source, one.pod) for one in pods):
        meta = pod.metadata
        uid = Uid(meta.uid)
        entry = changed.get(uid) or state.entries.get(uid)
        if entry is None:
            entry = PodEntry(
                uid=uid,
                name=meta.name,
                namespace=meta.namespace,
                number=order,
                desired=Desired(order=order, revision=state.epoch * REVISIONS),
            )
            order += 1
        elif entry.desired.pod == pod and entry.desired.source == source:
            continue
        elif entry.desired.pod is None and entry.kill is None:
            entry = replace(entry, desired=replace(entry.desired, order=order))
            order += 1
        desired = replace(entry.desired, pod=pod, source=source, revision=entry.desired.revision + 1)
        # An actor that said it was there before it was told its pod could not name it.
        changed[uid] = replace(entry, name=meta.name, namespace=meta.namespace, desired=desired)
    return with_entries(replace(state, next_order=order), changed.values())


def unwanted(entry: PodEntry) -> PodEntry:
    """Return the entry that no source wants any more."""
    return replace(entry, desired=replace(entry.desired, pod=None))


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


def unsent(state: SupervisorState, uid: Uid) -> SupervisorState:
    """Take in that a pod's actor has begun anew: it is sent everything again."""
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
            actor=Spawned(deaths=actor.deaths) if isinstance(actor, Spawned) else actor,
            reported=replace(entry.reported, deleted=False),
            kill=unsent_kill(entry.kill),
            deletion=unsent_kill(entry.deletion),
            preemption=again(entry.preemption),
        ),
    )


def unsent_kill(kill: KillRequest | None) -> KillRequest | None:
    """Return a kill that must be sent again at once."""
    return KillRequest(message=kill.message) if kill is not None else None


def again(preemption: Preemption | None) -> Preemption | None:
    """Return a preemption that must be sent again."""
    return Preemption(message=preemption.message) if preemption is not None else None


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
    deaths = deaths_of(entry.actor)
    wait_s = min(QUARANTINE_S * 2**deaths, QUARANTINE_LIMIT_S)
    quarantined = Quarantined(
        cause=cause or "it was stopped from outside", deaths=deaths + 1, retry_at=now + wait_s
    )
    kill, deletion = unsent_kill(entry.kill), unsent_kill(entry.deletion)
    after = replace(entry, actor=quarantined, reported=Reported(), kill=kill, deletion=deletion)
    return with_entry(state, after)


def deaths_of(actor: PodActorState) -> int:
    """Return how often an actor of a pod has died past its restart budget."""
    return actor.deaths if isinstance(actor, Spawned | Quarantined) else 0


def absorb_eviction(state: SupervisorState, message: WatchPods | ClearFinished) -> SupervisorState:
    """Take in who must know which pods are active, or that what is kept of those that ended must go."""
    match message:
        case WatchPods(asked_by=path):
            others = tuple(one for one in state.watchers.paths if one != path)
            return replace(state, watchers=Watchers(paths=(*others, path)))
        case ClearFinished():
            return replace(state, clearance=Clearance(asked=message))
        case _:
            assert_never(message)


def absorb_garbage(state: SupervisorState, outcome: Outcome) -> SupervisorState:
    """Take in of which UIDs there is something in the ledger or on disk."""
    garbage = state.garbage
    if outcome.op not in garbage.calls:
        return state
    found: tuple[Uid, ...] = ()
    whole = not garbage.failed
    match outcome.result:
        case RecalledAll(entries=entries, damaged=damaged):
            # What is damaged is there too: the pod's actor reads it, and says what was lost.
            found = (*(Uid(key) for key, _ in entries), *(Uid(key) for key, _ in damaged if key))
            whole = whole and all(key for key, _ in damaged)
        case PodFolders(uids=uids):
            found = uids
        case _:
            # A failed search is no reason to stop: what is left there is found by the next one.
            whole = False
    left = tuple(op for op in garbage.calls if op != outcome.op)
    found = tuple(sorted({*garbage.found, *found}))
    remains = found if whole and not left else garbage.remains
    after = replace(garbage, calls=left, found=found, failed=not whole, remains=remains)
    return replace(state, garbage=after, due=replace(state.due, strays=True))


# ---------------------------------------------------------------- plan


def plan(state: SupervisorState, now: Instant, new_op: Callable[[], OpId]) -> Decision[SupervisorState]:
    """Do whatever is not done yet; sees no message."""
    work = Work(state)
    state = ask_for_snapshot(state, work, now)
    state = collect_garbage(state, work, now, new_op)
    state = follow(state, work, now)
    state = find_orphans(state, work)
    state = attend_due(state, work, now)
    state = clear_finished(tell_active(send_rows(state, work, now), work), work)
    agenda = state.agenda.plus(work.looks_due)
    next_look, agenda = agenda.first(lambda look: stands(work.entries, look))
    if next_look is not None:
        work.wakes.append(next_look)
    wake_at = min(work.wakes, default=None)
    state = replace(
        state,
        entries=work.entries,
        index=work.index(),
        touched=work.later,
        agenda=agenda,
        due=replace(state.due, strays=work.strays_due),
        runtime=replace(state.runtime, strays=with_dropped(state, work)),
        wake_at=wake_at,
    )
    return Decision(state=state, actions=tuple(work.actions), wake_at=wake_at)


def follow(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Follow what the node is."""
    node = state.node
    asked_at, asking, again_at = follow_node(paths.PODS, node.asked_at, now, known=node.known)
    work.actions += asking
    work.wakes.append(again_at)
    return replace(state, node=replace(node, asked_at=asked_at)) if asking else state


def attend_due(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Attend every entry that changed, is due, or waited for what has come."""
    found, agenda = state.agenda.due(now)
    for look in found:
        if stands(work.entries, look):
            work.queue(look[1])
    if state.due.waiting:
        for uid in work.members["waiting"]:
            work.queue(uid)
    state = replace(state, agenda=agenda, due=replace(state.due, waiting=False))
    for entry in work.attended():
        work.looks = []
        after = attend(state, entry, work, now)
        if after is None:
            state = forget(state, entry.uid)
            work.drop(entry.uid)
            continue
        look_at = min(work.looks, default=None)
        if look_at != after.look_at:
            after = replace(after, look_at=look_at)
        if look_at is not None:
            work.looks_due.append((look_at, entry.uid))
        work.settle(after)
    return state


def forget(state: SupervisorState, uid: Uid) -> SupervisorState:
    """Return the state without what admission recalled of a pod that is done with."""
    if uid not in state.link.recalled:
        return state
    left = {one: name for one, name in state.link.recalled.items() if one != uid}
    return replace(state, link=replace(state.link, recalled=left))


def stands(entries: Mapping[Uid, PodEntry], look: Entry) -> bool:
    """Tell whether a pod must still be looked at when the agenda says."""
    entry = entries.get(look[1])
    return entry is not None and entry.look_at == look[0]


def with_dropped(state: SupervisorState, work: Work) -> tuple[RuntimePresence, ...]:
    """Return the strays with what the runtime shows of those of whom nobody is in entry any more."""
    if state.runtime.listed is None or not work.dropped:
        return state.runtime.strays
    shown = by_uid(state.runtime.listed)
    return (*state.runtime.strays, *(shown[uid] for uid in work.dropped if uid in shown))


def attend(state: SupervisorState, entry: PodEntry, work: Work, now: Instant) -> PodEntry | None:
    """Bring one pod a step further; None drops its entry."""
    actor, wanted = entry.actor, entry.desired.pod is not None
    match actor:
        case Spawned():
            return attend_actor(state, entry, actor, work, now)
        case Stopping():
            return entry
        case Quarantined(retry_at=retry_at):
            if now < retry_at:
                work.looks.append(retry_at)
                return entry
        case Unspawned():
            if not wanted and entry.kill is None:
                return None
        case _:
            assert_never(actor)
    entry = ask(state, entry, work)
    if wanted and not isinstance(entry.admission, Judged | Decided):
        return entry
    if wanted and entry.is_static and not may_start(state, entry, work):
        return entry
    work.actions.append(SpawnPod(uid=entry.uid, blank_as_of=blank_as_of(state, entry)))
    spawned = Spawned(deaths=deaths_of(actor))
    return attend_actor(state, replace(entry, actor=spawned), spawned, work, now)


def blank_as_of(state: SupervisorState, entry: PodEntry) -> Instant | None:
    """Return since when it is known that nothing of a pod is anywhere, None when it is not: its actor need not look then.

    What was looked for is older than the pod, and nobody but its actor makes anything of it.
    """
    listed, remains = state.runtime.listed, state.garbage.remains
    if listed is None or remains is None or not is_fresh(entry) or deaths_of(entry.actor):
        return None
    if entry.uid in state.runtime.ended or entry.uid in uids_of(remains) or entry.uid in by_uid(listed):
        return None
    return listed.as_of


@kept_for_last
def uids_of(remains: tuple[Uid, ...]) -> frozenset[Uid]:
    """Return the UIDs as a set."""
    return frozenset(remains)


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
    """Tell whether a kill leaves less grace than an earlier one."""
    return kill.grace_s is not None and (earlier.grace_s is None or kill.grace_s < earlier.grace_s)


def send_preemption(entry: PodEntry, work: Work, now: Instant) -> PodEntry:
    """Stop a pod that must make room for a critical one: tell its actor, until it answers that it is stopping."""
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
    if not state.sources.all_ready:
        return None
    return removal(entry.uid, KillCause.REMOVED if source else KillCause.ORPHAN)


def removal(uid: Uid, cause: KillCause) -> KillRequest:
    """Return the kill of a pod of which nothing is to stay: with its own grace, which its actor finds out."""
    return KillRequest(message=KillPod(uid=uid, cause=cause, deleted=True, asked_by=paths.PODS))


def find_orphans(state: SupervisorState, work: Work) -> SupervisorState:
    """Make an entry for what runs here and no source wants; list what is another agent's."""
    runtime, ready = state.runtime, state.sources.all_ready
    listed = runtime.listed
    if listed is None or not work.strays_due:
        return state
    work.strays_due = False
    foreign, strays = [], []
    for presence in runtime.strays:
        if presence.uid in work.entries or listed.as_of <= runtime.ended.get(presence.uid, float("-inf")):
            continue
        strays.append(presence)
        if not presence.ours and not state.take_over:
            foreign.append(presence)
            continue
        if presence.loose and presence.uid not in runtime.loose:
            # Sandboxes and containers are listed side by side: another agent's pod may have begun in between.
            continue
        named = work.names.get(f"{presence.name}_{presence.namespace}", ())
        rival = work.entries[named[0]] if named else None
        replaced = rival is not None and rival.desired.pod is not None and rival.is_static
        if replaced or ready:
            cause = KillCause.REPLACED if replaced else KillCause.ORPHAN
            state = adopt_orphan(state, work, presence.uid, presence.name, presence.namespace, cause)
    if ready:
        state = find_leavings(state, work)
    return replace(state, runtime=replace(state.runtime, foreign=tuple(foreign), strays=tuple(strays)))


def find_leavings(state: SupervisorState, work: Work) -> SupervisorState:
    """Take entry of what the runtime shows nothing of and nobody wants: only the ledger or a folder tells of it.

    A verdict is durable before its pod's actor does anything, so what an earlier life decided tells of each beginning.
    """
    for uid, full_name in state.link.recalled.items():
        if uid not in work.entries:
            namespace, _, name = full_name.partition("/")
            state = adopt_orphan(forget(state, uid), work, uid, name, namespace)
    if state.garbage.calls:
        return state
    for uid in state.garbage.found:
        if uid not in work.entries and uid not in state.runtime.ended:
            state = adopt_orphan(state, work, uid, str(uid), "")
    return replace(state, garbage=replace(state.garbage, found=()))


def adopt_orphan(
    state: SupervisorState,
    work: Work,
    uid: Uid,
    name: str,
    namespace: str,
    cause: KillCause = KillCause.ORPHAN,
) -> SupervisorState:
    """Take entry of a pod that no source wants, to end it with its own grace: its actor finds out which that is."""
    entry = PodEntry(
        uid=uid,
        name=name,
        namespace=namespace,
        number=state.next_order,
        desired=Desired(order=state.next_order),
        kill=removal(uid, cause),
    )
    work.put(entry)
    return replace(state, next_order=state.next_order + 1)


def ask_for_snapshot(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Ask PodConfig for everything when a number is missing, again until it comes."""
    if not state.sources.gap:
        return state
    if now >= state.sources.asked_at + REPEAT_S:
        work.actions.append(Tell(to=paths.CONFIG, message=SnapshotWanted(asked_by=paths.PODS)))
        state = replace(state, sources=replace(state.sources, asked_at=now))
    work.wakes.append(state.sources.asked_at + REPEAT_S)
    return state


def collect_garbage(
    state: SupervisorState, work: Work, now: Instant, new_op: Callable[[], OpId]
) -> SupervisorState:
    """Once all sources were seen, and then from time to time, look for what no one owns in the ledger and on disk."""
    garbage = state.garbage
    if not state.sources.all_ready or garbage.calls:
        return state
    if now < garbage.next_at:
        work.wakes.append(garbage.next_at)
        return state
    calls = (
        ("ledger", RecallAll(section=MEMO_SECTION, only_look=True)),
        ("ledger", RecallAll(section=STATUS_SECTION, only_look=True)),
        ("podfiles", ListPodFolders()),
    )
    starts = tuple(
        Start(op=new_op(), port=port, call=call, deadline_s=GARBAGE_DEADLINE_S) for port, call in calls
    )
    work.actions += starts
    ops = tuple(start.op for start in starts)
    after = replace(garbage, calls=ops, next_at=now + GARBAGE_PERIOD_S, failed=False)
    return replace(state, garbage=after)
