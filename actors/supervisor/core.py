"""PodSupervisor's decisions: which UIDs have an actor, what each is told, who is stopped, who waits.

Level-triggered: `plan` does whatever is not done yet for each pod that changed or is due, so a lost message or a restart
is repaired by the next look. Nothing is stopped for want of a source before all sources were seen.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from msgspec.structs import replace

from actors.rules.agenda import Entry
from actors.rules.identity import kept_for_last
from actors.rules.nodewatch import NEVER_ASKED
from actors.rules.resources.allocation import with_allocated
from actors.supervisor.active import tell_active
from actors.supervisor.admission import admit, claimed
from actors.supervisor.clear import clear_finished
from actors.supervisor.gate import by_uid, may_start
from actors.supervisor.page import absorb_answer, absorb_node, consult, keep
from actors.supervisor.resize import resize
from actors.supervisor.state import (
    MEMO_SECTION,
    STATUS_SECTION,
    Charge,
    SpawnPod,
    StopPod,
    SupervisorState,
    with_charge,
    with_charges,
)
from actors.supervisor.verdict import Book
from actors.supervisor.work import Work
from api import paths
from api.ids import Instant, OpId, Uid
from api.lifecycle import Action, Decision, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.node import NodeChanged
from api.messages.pod import KillCause, KillPod, UpdatePod
from api.messages.podconfig import SnapshotWanted
from api.messages.status import ForgetPodStatus
from api.messages.supervisor import (
    ClearFinished,
    NodePressure,
    PodKilled,
    PodLife,
    PodMoved,
    PodOp,
    PodsChanged,
    PodsSnapshot,
    RuntimeListed,
    RuntimePresence,
    SourcedPod,
    SupervisorMessage,
    WatchPods,
)
from api.paths import pod_path
from api.ports.ledger import RecallAll, RecalledAll
from api.ports.podfiles import ListPodFolders, PodFolders

REPEAT_S = 5.0
"""How long a kill waits for its actor's answer before it is repeated; each further time twice as long, up to a resync."""
QUARANTINE_S = 10.0
QUARANTINE_LIMIT_S = 300.0
SWEEP_DEADLINE_S = 30.0
SWEEP_PERIOD_S = 300.0
"""Between looks for what pods that nobody owns left on disk: repairs a lost `ForgetPodStatus` and a failed look."""
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
    if isinstance(message, PodMoved | PodKilled) and state is before:
        # Each resync has every pod say again what is known of it.
        return Decision(state=before, wake_at=before.wake_at)
    if state.all_ready is not before.all_ready:
        state = replace(state, waiting_due=True, strays_due=True)
    decision = plan(state, now, new_op)
    return replace(decision, actions=(*decision.actions, *answers(decision.state, message)))


def answers(after: SupervisorState, message: SupervisorMessage | KernelMessage | None) -> tuple[Action, ...]:
    """Pass a kill on to the pod's actor; where there is none, nothing of the pod runs and that is the answer.

    An incarnation that was told of no pods yet may have actors of an earlier one's time that it does not know.
    """
    if not isinstance(message, KillPod):
        return ()
    charge = after.charges.get(message.uid)
    if (charge is not None and charge.spawned) or after.number < 0:
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
            return replace(state, book=replace(state.book, node_asked_at=NEVER_ASKED))
        case Restarted(path=path):
            return untold(state, Uid(path.rpartition("/")[2]))
        case Outcome():
            return absorb_sweep(absorb_answer(state, message, now), message)
        case KillPod(uid=uid) if uid in state.charges:
            # A pod whose actor is in quarantine may have running containers: its actor is needed now.
            return with_charge(state, replace(state.charges[uid], retry_at=now))
        case WatchPods() | NodePressure() | ClearFinished():
            return absorb_eviction(state, message)
        case KillPod() | PodKilled() | Alarm() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def absorb_listing(state: SupervisorState, message: RuntimeListed) -> SupervisorState:
    """Take in a listing, and of whom the one before showed containers only; the same one twice says nothing more."""
    before = state.listed
    ended = {uid: at for uid, at in state.ended.items() if at >= message.as_of}
    state = replace(state, room_due=True, strays_due=True, waiting_due=True, strays=message.pods, ended=ended)
    if before is None or before.as_of == message.as_of:
        return replace(state, listed=message)
    return replace(state, listed=message, loose=frozenset(p.uid for p in before.pods if p.loose))


def absorb_snapshot(state: SupervisorState, message: PodsSnapshot) -> SupervisorState:
    """Take in the whole desired set; pods of sources that were not seen stay as they are."""
    wanted = {Uid(sourced.pod.metadata.uid) for sourced in message.pods}
    left = (
        unwanted(charge)
        for uid, charge in state.charges.items()
        if charge.pod is not None and uid not in wanted and charge.source in message.seen
    )
    state = want(with_charges(state, left), message.pods)
    return replace(state, number=message.number, gap=False, asked_at=float("-inf"), seen=message.seen)


def absorb_change(state: SupervisorState, message: PodsChanged) -> SupervisorState:
    """Take in one numbered change; a gap in the numbers makes everything since unknown."""
    if message.number <= state.number:
        return state
    if message.number != state.number + 1 or state.gap:
        return replace(state, gap=True)
    state = replace(state, number=message.number)
    match message.op:
        case PodOp.REMOVE:
            known = (state.charges.get(Uid(pod.metadata.uid)) for pod in message.pods)
            left = [unwanted(one) for one in known if one is not None and one.source == message.source]
            state = with_charges(state, left)
        case PodOp.ADD | PodOp.UPDATE | PodOp.DELETE | PodOp.RECONCILE | PodOp.RESTORE:
            state = want(state, tuple(SourcedPod(source=message.source, pod=pod) for pod in message.pods))
        case _:
            assert_never(message.op)
    seen = state.seen if message.op is PodOp.RESTORE else tuple(sorted({*state.seen, message.source}))
    return replace(state, seen=seen)


def want(state: SupervisorState, pods: Iterable[SourcedPod]) -> SupervisorState:
    """Take in that sources want these pods."""
    order = state.next_order
    changed: dict[Uid, Charge] = {}
    for source, pod in ((one.source, one.pod) for one in pods):
        meta = pod.metadata
        uid = Uid(meta.uid)
        charge = changed.get(uid) or state.charges.get(uid)
        if charge is None:
            charge = Charge(
                uid=uid,
                name=meta.name,
                namespace=meta.namespace,
                order=order,
                revision=state.epoch * REVISIONS,
            )
            order += 1
        elif charge.pod == pod and charge.source == source:
            continue
        elif charge.pod is None and charge.kill is None:
            charge = replace(charge, order=order)
            order += 1
        # An actor that said it was there before it was told its pod could not name it.
        named = replace(charge, name=meta.name, namespace=meta.namespace)
        changed[uid] = replace(named, pod=pod, source=source, revision=charge.revision + 1)
    return with_charges(replace(state, next_order=order), changed.values())


def unwanted(charge: Charge) -> Charge:
    """Return the charge that no source wants any more."""
    return replace(charge, pod=None)


def absorb_move(state: SupervisorState, message: PodMoved) -> SupervisorState:
    """Take in how far a pod is; an actor of an earlier incarnation's time is taken charge of again."""
    charge = state.charges.get(message.uid)
    if charge is None:
        charge = Charge(
            uid=message.uid,
            name=message.name,
            namespace=message.namespace,
            order=state.next_order,
            revision=state.epoch * REVISIONS,
            spawned=True,
        )
        state = replace(state, next_order=state.next_order + 1)
    if not charge.name:
        charge = replace(charge, name=message.name, namespace=message.namespace)
    # What its containers gave back is free once they are confined by what it was told last.
    held = None if message.confined >= charge.revision else charge.held
    moved = replace(
        charge,
        life=message.life,
        held=held,
        left=message.kept,
        leaving=message.leaving,
        deleted=message.deleted,
    )
    return state if state.charges.get(message.uid) == moved else with_charge(state, moved)


def untold(state: SupervisorState, uid: Uid) -> SupervisorState:
    """Take in that a pod's actor has begun anew: it is told everything again."""
    charge = state.charges.get(uid)
    if charge is None:
        return state
    state = replace(state, cleared=tuple(one for one in state.cleared if one != uid))
    anew = replace(charge, told=-1, kill_told=False, kill_tries=0, deleted=False, preempted_at=float("-inf"))
    return with_charge(state, anew)


def absorb_death(state: SupervisorState, uid: Uid, cause: str, now: Instant) -> SupervisorState:
    """Take in that a pod's actor is gone: as asked for, or past its restart budget."""
    charge = state.charges.get(uid)
    if charge is None:
        return state
    fresh = replace(
        charge,
        spawned=False,
        life=None,
        told=-1,
        kill=None,
        kill_told=False,
        kill_tries=0,
        deleted=False,
        stopping=False,
        died="",
        deaths=0,
    )
    if charge.stopping:
        state = replace(state, ended={**state.ended, uid: now}, book=without_verdict(state.book, charge))
        anew = replace(
            fresh, verdict=None, kept=False, scarce_since=None, preemption=None, preempted_at=float("-inf")
        )
        return with_charge(state, anew)
    wait_s = min(QUARANTINE_S * 2**charge.deaths, QUARANTINE_LIMIT_S)
    died = cause or "it was stopped from outside"
    return with_charge(
        state,
        replace(fresh, kill=charge.kill, died=died, deaths=charge.deaths + 1, retry_at=now + wait_s),
    )


def without_verdict(book: Book, charge: Charge) -> Book:
    """Return the book when nothing is left of a pod: should the same UID come back, it is judged anew."""
    return book if charge.verdict is None else replace(book, edition=book.edition + 1)


def absorb_eviction(
    state: SupervisorState, message: WatchPods | NodePressure | ClearFinished
) -> SupervisorState:
    """Take in who is to know which pods are active, what the node is short of, or what is to be done about it."""
    match message:
        case WatchPods(asked_by=path):
            others = tuple(one for one in state.watchers if one != path)
            return replace(state, watchers=(*others, path), active_told=None)
        case NodePressure():
            return replace(state, pressure=message, room_due=True)
        case ClearFinished():
            return replace(state, clearing=message, cleared=())
        case _:
            assert_never(message)


def absorb_sweep(state: SupervisorState, outcome: Outcome) -> SupervisorState:
    """Take in of which UIDs there is something in the ledger or on disk."""
    if outcome.op not in state.sweep:
        return state
    found: tuple[Uid, ...] = ()
    whole = not state.sweep_failed
    match outcome.result:
        case RecalledAll(entries=entries, damaged=damaged):
            # What is damaged is there too: the pod's actor reads it, and says what was lost.
            found = (*(Uid(key) for key, _ in entries), *(Uid(key) for key, _ in damaged if key))
            whole = whole and all(key for key, _ in damaged)
        case PodFolders(uids=uids):
            found = uids
        case _:
            # A failed look is no reason to stop: what is left there is found by the next one.
            whole = False
    left = tuple(op for op in state.sweep if op != outcome.op)
    found = tuple(sorted({*state.sweep_found, *found}))
    remains = found if whole and not left else state.remains
    after = replace(state, sweep=left, sweep_found=found, sweep_failed=not whole, remains=remains)
    return replace(after, strays_due=True)


# ---------------------------------------------------------------- plan


def plan(state: SupervisorState, now: Instant, new_op: Callable[[], OpId]) -> Decision[SupervisorState]:
    """Do whatever is not done yet; sees no message."""
    work = Work(state)
    state = ask_for_snapshot(state, work, now)
    state = sweep(state, work, now, new_op)
    state = consult(state, work, now, new_op)
    state = let_in(find_orphans(state, work), work, now)
    state = attend_due(state, work, now)
    state = clear_finished(tell_active(keep(state, work, now, new_op), work), work)
    agenda = state.agenda.plus(work.entries)
    next_look, agenda = agenda.first(lambda entry: stands(work.charges, entry))
    wake_at = min((*work.wakes, *(at for at in (next_look, state.admit_at) if at is not None)), default=None)
    state = replace(
        state,
        charges=work.charges,
        index=work.index(),
        touched=work.later,
        agenda=agenda,
        room_due=work.room_due,
        strays_due=work.strays_due,
        strays=with_dropped(state, work),
        wake_at=wake_at,
    )
    return Decision(state=state, actions=tuple(work.actions), wake_at=wake_at)


def let_in(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Decide who is admitted and who is resized, where something has changed on which that depends."""
    if not work.room_due and (state.admit_at is None or now < state.admit_at):
        return state
    work.room_due = False
    state = resize(admit(state, work, now), work)
    return replace(state, admit_at=min(work.settling, default=None))


def attend_due(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Attend every charge that changed, is due, or waited for what has come."""
    found, agenda = state.agenda.due(now)
    for entry in found:
        if stands(work.charges, entry):
            work.queue(entry[1])
    if state.waiting_due:
        for uid in work.members["waiting"]:
            work.queue(uid)
    state = replace(state, agenda=agenda, waiting_due=False)
    for charge in work.attended():
        work.looks = []
        after = attend(state, charge, work, now)
        if after is None:
            state = replace(state, book=without_verdict(state.book, charge))
            work.drop(charge.uid)
            continue
        look_at = min(work.looks, default=None)
        if look_at != after.look_at:
            after = replace(after, look_at=look_at)
        if look_at is not None:
            work.entries.append((look_at, charge.uid))
        work.settle(after)
    return state


def stands(charges: Mapping[Uid, Charge], entry: Entry) -> bool:
    """Tell whether a charge is still to be looked at when the agenda says."""
    charge = charges.get(entry[1])
    return charge is not None and charge.look_at == entry[0]


def with_dropped(state: SupervisorState, work: Work) -> tuple[RuntimePresence, ...]:
    """Return the strays with what the runtime shows of those of whom nobody is in charge any more."""
    if state.listed is None or not work.dropped:
        return state.strays
    shown = by_uid(state.listed)
    return (*state.strays, *(shown[uid] for uid in work.dropped if uid in shown))


def attend(state: SupervisorState, charge: Charge, work: Work, now: Instant) -> Charge | None:
    """Bring one charge a step further; None drops it."""
    if charge.spawned:
        return attend_actor(state, charge, work, now)
    if charge.died and now < charge.retry_at:
        work.looks.append(charge.retry_at)
        return charge
    if charge.pod is None and charge.kill is None and not charge.died:
        return None
    if charge.pod is not None and charge.verdict is None:
        return charge
    if charge.pod is not None and charge.is_static and not may_start(state, charge, work):
        return charge
    work.actions.append(SpawnPod(uid=charge.uid, blank_as_of=blank_as_of(state, charge)))
    return attend_actor(state, replace(charge, spawned=True, died=""), work, now)


def blank_as_of(state: SupervisorState, charge: Charge) -> Instant | None:
    """Return since when it is known that nothing of a pod is anywhere, None when it is not: its actor need not look then.

    What was looked for is older than the pod, and nobody but its actor makes anything of it.
    """
    listed, remains = state.listed, state.remains
    if listed is None or remains is None or not charge.fresh or charge.deaths:
        return None
    if charge.uid in state.ended or charge.uid in uids_of(remains) or charge.uid in by_uid(listed):
        return None
    return listed.as_of


@kept_for_last
def uids_of(remains: tuple[Uid, ...]) -> frozenset[Uid]:
    """Return the UIDs as a set."""
    return frozenset(remains)


def attend_actor(state: SupervisorState, charge: Charge, work: Work, now: Instant) -> Charge:
    """Tell a pod's actor what it does not know yet, and stop it when nothing is left of its pod."""
    to = pod_path(charge.uid)
    if charge.life is PodLife.GONE:
        if not charge.stopping:
            work.actions += [
                Tell(to=paths.STATUS, message=ForgetPodStatus(uid=charge.uid)),
                StopPod(uid=charge.uid),
            ]
        return replace(charge, stopping=True)
    kill = charge.kill
    if kill is None and charge.pod is None:
        kill = due_kill(state, charge, work)
    if kill is not None:
        if not charge.kill_told or now >= charge.told_at + patience_s(state, charge):
            work.actions.append(Tell(to=to, message=kill))
            tries = charge.kill_tries + 1
            charge = replace(charge, kill=kill, kill_told=True, kill_tries=tries, told_at=now)
        work.looks.append(charge.told_at + patience_s(state, charge))
        return charge
    if charge.pod is not None and charge.verdict is not None and charge.kept:
        if charge.told != charge.revision or now >= charge.told_at + state.resync_s:
            update = UpdatePod(
                pod=with_allocated(charge.pod, charge.verdict.allocated),
                source=charge.source,
                generation=charge.revision,
                node=state.node,
                refusal=charge.verdict.refusal,
                resize=charge.resize,
            )
            work.actions.append(Tell(to=to, message=update))
            charge = replace(charge, told=charge.revision, told_at=now)
        work.looks.append(charge.told_at + state.resync_s)
        charge = push_aside(charge, work, now)
    return charge


def patience_s(state: SupervisorState, charge: Charge) -> float:
    """Return how long after a kill was told it is told again: an answered one as everything is, others with back-off."""
    if charge.deleted:
        return state.resync_s
    return min(REPEAT_S * (1 << min(max(charge.kill_tries - 1, 0), 8)), state.resync_s)


def push_aside(charge: Charge, work: Work, now: Instant) -> Charge:
    """Tell the actor of a pod that must make room for a critical one, until it answers that it is stopping."""
    if charge.preemption is None or charge.life not in (None, PodLife.RECALLING, PodLife.SYNCING):
        return charge
    if now >= charge.preempted_at + REPEAT_S:
        work.actions.append(Tell(to=pod_path(charge.uid), message=charge.preemption))
        charge = replace(charge, preempted_at=now)
    work.looks.append(charge.preempted_at + REPEAT_S)
    return charge


def due_kill(state: SupervisorState, charge: Charge, work: Work) -> KillPod | None:
    """Return the kill of a pod that no source wants, once it is due."""
    waiting = any(
        c.full_name == charge.full_name and c.pod is not None and c.is_static and c.uid != charge.uid
        for c in work.namesakes(charge)
    )
    if waiting and charge.source != "api":
        return KillPod(uid=charge.uid, cause=KillCause.REPLACED, deleted=True, asked_by=paths.PODS)
    if not state.all_ready:
        return None
    cause = KillCause.REMOVED if charge.source else KillCause.ORPHAN
    return KillPod(uid=charge.uid, cause=cause, deleted=True, asked_by=paths.PODS)


def find_orphans(state: SupervisorState, work: Work) -> SupervisorState:
    """Take charge of what runs here and nobody wants; list what is another agent's."""
    listed = state.listed
    if listed is None or not work.strays_due:
        return state
    work.strays_due = False
    foreign, strays = [], []
    for presence in state.strays:
        if presence.uid in work.charges or listed.as_of <= state.ended.get(presence.uid, float("-inf")):
            continue
        strays.append(presence)
        if not presence.ours and not state.take_over:
            foreign.append(presence)
            continue
        if presence.loose and presence.uid not in state.loose:
            # Sandboxes and containers are listed side by side: another agent's pod may have begun in between.
            continue
        named = work.names.get(f"{presence.name}_{presence.namespace}", ())
        rival = work.charges[named[0]] if named else None
        replaced = rival is not None and rival.pod is not None and rival.is_static
        if replaced or state.all_ready:
            cause = KillCause.REPLACED if replaced else KillCause.ORPHAN
            state = adopt_orphan(state, work, presence.uid, presence.name, presence.namespace, cause)
    if state.all_ready:
        state = find_leavings(state, work)
    return replace(state, foreign=tuple(foreign), strays=tuple(strays))


def find_leavings(state: SupervisorState, work: Work) -> SupervisorState:
    """Take charge of what the runtime shows nothing of and nobody wants: only the ledger or a folder tells of it.

    A verdict is durable before its pod's actor does anything, so what an earlier life decided tells of each beginning.
    """
    for uid, verdict in (state.book.recalled or {}).items():
        if uid not in work.charges:
            namespace, _, name = verdict.name.partition("/")
            state = adopt_orphan(state, work, uid, name, namespace)
    if state.sweep:
        return state
    for uid in state.sweep_found:
        if uid not in work.charges and uid not in state.ended:
            state = adopt_orphan(state, work, uid, str(uid), "")
    return replace(state, sweep_found=())


def adopt_orphan(
    state: SupervisorState,
    work: Work,
    uid: Uid,
    name: str,
    namespace: str,
    cause: KillCause = KillCause.ORPHAN,
) -> SupervisorState:
    """Take charge of a pod that no source wants, to end it with its own grace: its actor finds out which that is."""
    kill = KillPod(uid=uid, cause=cause, deleted=True, asked_by=paths.PODS)
    charge = Charge(uid=uid, name=name, namespace=namespace, order=state.next_order, kill=kill)
    state, charge = claimed(state, charge)
    work.put(charge)
    return replace(state, next_order=state.next_order + 1)


def ask_for_snapshot(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Ask PodConfig for everything when a number is missing, again until it comes."""
    if not state.gap:
        return state
    if now >= state.asked_at + REPEAT_S:
        work.actions.append(Tell(to=paths.CONFIG, message=SnapshotWanted(asked_by=paths.PODS)))
        state = replace(state, asked_at=now)
    work.wakes.append(state.asked_at + REPEAT_S)
    return state


def sweep(state: SupervisorState, work: Work, now: Instant, new_op: Callable[[], OpId]) -> SupervisorState:
    """Once all sources were seen, and then from time to time, look for what nobody owns in the ledger and on disk."""
    if not state.all_ready or state.sweep:
        return state
    if now < state.sweep_at:
        work.wakes.append(state.sweep_at)
        return state
    calls = (
        ("ledger", RecallAll(section=MEMO_SECTION, only_look=True)),
        ("ledger", RecallAll(section=STATUS_SECTION, only_look=True)),
        ("podfiles", ListPodFolders()),
    )
    starts = tuple(
        Start(op=new_op(), port=port, call=call, deadline_s=SWEEP_DEADLINE_S) for port, call in calls
    )
    work.actions += starts
    ops = tuple(start.op for start in starts)
    return replace(state, sweep=ops, sweep_at=now + SWEEP_PERIOD_S, sweep_failed=False)
