"""The life of one pod as three pure functions over one state: absorb what is known, plan the next stage, report.

Rules it keeps (architecture section 4): one stage in flight per pod; a kill cancels stops that it shortens and waits for
the rest; no decision on an observation older than the end of the last call; after a failure look first; terminal only
when proven; grace only shrinks; what a decision must remember is written before the call that it guards.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.pod.containerconfig import own_grace_s, recorded_grace_s
from actors.pod.event import with_changes, with_event
from actors.pod.image import IMAGES, absorb_report, reask_at, with_wants
from actors.pod.launch import waits_of
from actors.pod.outcome import absorb_outcome
from actors.pod.phase import TERMINAL, is_static, phase_of
from actors.pod.plan import next_stage
from actors.pod.report import PLEG, SUPERVISOR, is_stopped, report
from actors.pod.stage import MIN_STOP_S, NS, Stage, fresh_memo
from actors.pod.state import (
    Finished,
    Flight,
    Gone,
    Hold,
    Kill,
    PodMemo,
    PodState,
    Recalling,
    Syncing,
    Terminated,
    Terminating,
)
from actors.pod.status import Facts, compose
from actors.rules.instance import is_alive, newest_of
from api.containers import ContainerState, StopContainer
from api.ids import Instant, OpId, Path, WallNs
from api.lifecycle import Action, Cancel, Decision, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.pleg import WatchPod
from api.messages.pod import ImageReport, KillCause, KillPod, PodMessage, PodObserved, UpdatePod
from api.objects.pod import Pod
from api.objects.podstatus import PodStatus

SELF = Path("")
"""Who asked, when it was the pod itself."""

STEPS_AT_ONCE = 8
"""More than a life has steps: where it ends, status and life agree."""

RECALL_TRIES = 5
"""After so many failed reads of the ledger a pod goes on without it: a broken disk must not keep a node from working."""


def decide(
    before: PodState,
    message: PodMessage | KernelMessage | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[PodState]:
    """Take in a message (None: only look again) and choose what to do."""
    state = entered(before, absorb(before, message, now, wall), now)
    state = advance(state, now, wall)
    decision = plan(state, now, wall, new_op)
    facts = report(before, decision.state, resend=resend(message))
    if is_stopped(decision.state):
        decision = replace(decision, state=replace(decision.state, askers=()))
    return replace(decision, actions=(*facts, *decision.actions))


# ---------------------------------------------------------------- absorb


def absorb(
    state: PodState, message: PodMessage | KernelMessage | None, now: Instant, wall: WallNs
) -> PodState:
    """Return what is known after `message`; decides nothing."""
    match message:
        case UpdatePod():
            return absorb_update(state, message)
        case KillPod():
            return absorb_kill(state, message, wall)
        case PodObserved(pod=pod, as_of=as_of):
            if as_of < state.settled_at or as_of < state.observed_as_of:
                return state
            return replace(state, observed=pod, observed_as_of=as_of)
        case Outcome():
            return absorb_outcome(state, message, now, wall)
        case Restarted(path=path) if path == SUPERVISOR:
            # A new supervisor counts its updates from the beginning.
            return replace(state, generation=0)
        case ImageReport():
            return absorb_report(state, message, wall)
        case Alarm():
            # What could not be configured is tried again with the node's files as they are now.
            return replace(state, files=None) if state.files is not None else state
        case Restarted() | ChildDied() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def absorb_update(state: PodState, message: UpdatePod) -> PodState:
    """Take in the desired pod, unless a newer one is known."""
    if message.generation < state.generation:
        return state
    return replace(state, desired=message.pod, source=message.source, generation=message.generation)


def absorb_kill(state: PodState, message: KillPod, wall: WallNs) -> PodState:
    """Take in a kill: the first cause stays, grace only shrinks, deletion and eviction stick."""
    grace_s = first_grace_s(state, message)
    asked = Kill(
        cause=message.cause,
        grace_s=grace_s,
        asked_at=wall,
        stop_by=wall + grace_s * NS,
        asked_by=message.asked_by,
        deleted=message.deleted,
        evict=message.evict,
        reason=message.reason,
        message=message.message,
    )
    askers = tuple(sorted({*state.askers, message.asked_by}))
    match state.life:
        case Recalling(kill=kill):
            life: Recalling | Terminating | Terminated | Finished | Gone = Recalling(kill=merged(kill, asked))
        case Syncing():
            life = Terminating(kill=asked)
        case Terminating(kill=kill, proven_at=proven_at):
            life = Terminating(kill=merged(kill, asked), proven_at=proven_at)
        case Terminated(kill=kill):
            life = Terminated(kill=merged(kill, asked))
        case Finished(kill=kill):
            life = Finished(kill=merged(kill, asked))
        case Gone():
            life = state.life
        case _:
            assert_never(state.life)
    return replace(state, life=life, askers=askers)


def first_grace_s(state: PodState, message: KillPod) -> int:
    """Return the grace of a kill: the pod's own or the override if smaller, and the floor of a stop where that is none."""
    own = own_grace_s(state.desired) if state.desired is not None else recorded_grace_s(state.observed)
    # A supervisor that just began anew takes a pod for an orphan whose actor still knows what it was promised.
    described = message.cause is KillCause.ORPHAN and state.desired is not None
    asked = own if message.grace_s is None or described else min(own, message.grace_s)
    return asked if asked >= 1 else MIN_STOP_S


def merged(kill: Kill | None, asked: Kill) -> Kill:
    """Return the kill in force after another one was asked for."""
    if kill is None:
        return asked
    return replace(
        kill,
        grace_s=min(kill.grace_s, asked.grace_s),
        stop_by=min(kill.stop_by, asked.stop_by),
        deleted=kill.deleted or asked.deleted,
        evict=kill.evict or asked.evict,
        reason=asked.reason or kill.reason,
        message=asked.message or kill.message,
    )


# ---------------------------------------------------------------- advance


def advance(state: PodState, now: Instant, wall: WallNs) -> PodState:
    """Take every step of the life that needs no call, and compose the status that follows."""
    state = replace(state, memo=fresh_memo(state), holds=holds_that_matter(state))
    for _ in range(STEPS_AT_ONCE):
        after = composed(entered(state, step_of_life(state, now, wall), now), now, wall)
        if after.life == state.life and after.base == state.base:
            break
        state = after
    return with_wants(after, now, wall)


def entered(before: PodState, after: PodState, now: Instant) -> PodState:
    """Return the state with what a step of the life begins with.

    What failed before has nothing to do with what is to be done now: a kill waits for no retry of a start.
    """
    if type(before.life) is type(after.life):
        return after
    return replace(after, life_since=now, holds=())


def holds_that_matter(state: PodState) -> tuple[Hold, ...]:
    """Return the holds without those of containers that run after all, as after a start of unknown outcome."""
    return tuple(
        hold
        for hold in state.holds
        if (newest := newest_of(state.observed, hold.container)) is None
        or newest.state is not ContainerState.RUNNING
    )


def step_of_life(state: PodState, now: Instant, wall: WallNs) -> PodState:
    """Return the state one step of its life further, or the same."""
    if state.inflight:
        return state
    match state.life:
        case Recalling(kill=kill):
            return end_of_recall(state, kill, wall)
        case Syncing():
            if state.desired is None or not has_ended(state, state.desired, now, wall):
                return state
            grace_s = own_grace_s(state.desired) or 1
            kill = Kill(
                cause=KillCause.COMPLETED,
                grace_s=grace_s,
                asked_at=wall,
                stop_by=wall + grace_s * NS,
                asked_by=SELF,
            )
            return replace(state, life=Terminating(kill=kill))
        case Terminating(kill=kill, proven_at=proven_at):
            if proven_at is None or is_alive(state.observed) or state.look:
                return state
            return replace(state, life=Terminated(kill=kill))
        case Terminated(kill=kill):
            done = state.remembered is not None and state.remembered.terminated
            return replace(state, life=Finished(kill=kill)) if done else state
        case Finished() | Gone():
            return state
        case _:
            assert_never(state.life)


def end_of_recall(state: PodState, kill: Kill | None, wall: WallNs) -> PodState:
    """Return the state in which the pod goes on once ledger and runtime have answered, or the same."""
    if state.observed is None or state.look:
        return state
    if state.recall_failures >= RECALL_TRIES:
        return recalled(without_ledger(state, wall), kill)
    if state.remembered is None or state.hold("") is not None:
        return state
    return recalled(state, kill)


def has_ended(state: PodState, pod: Pod, now: Instant, wall: WallNs) -> bool:
    """Tell whether a pod that nobody killed is at its end: all its containers stopped for good."""
    if state.observed is None or state.look:
        return False
    phase = phase_of(pod.spec, state.base.container_statuses, terminal=False, static=is_static(pod))
    return phase in TERMINAL or state.base.phase in TERMINAL or next_stage(state, now, wall).ended


def without_ledger(state: PodState, wall: WallNs) -> PodState:
    """Go on without what the ledger may know, and say so."""
    text = "the ledger could not be read: restart counts, back-off and kills in progress may be forgotten"
    state = with_event(state, wall, "Warning", "LedgerUnavailable", text)
    return state if state.remembered is not None else replace(state, remembered=PodMemo())


def recalled(state: PodState, asked: Kill | None) -> PodState:
    """Go on where the ledger says the pod was."""
    if state.remembered == PodMemo():
        # The ledger's status of a pod that it has no page of is that of an earlier life under the same UID.
        state = replace(state, base=PodStatus())
    before = state.memo.kill
    kill = merged(before, asked) if before is not None and asked is not None else before or asked
    if kill is not None and state.desired is None:
        grace_s = min(kill.grace_s, max(1, recorded_grace_s(state.observed)))
        kill = replace(kill, grace_s=grace_s, stop_by=min(kill.stop_by, kill.asked_at + grace_s * NS))
    if before is not None and not state.memo.terminated and before.asked_by != SELF:
        # Whoever asked an earlier incarnation still waits.
        state = replace(state, askers=tuple(sorted({*state.askers, before.asked_by})))
    if kill is None:
        return replace(state, life=Syncing())
    if state.memo.terminated and not is_alive(state.observed):
        return replace(state, life=Finished(kill=kill))
    return replace(state, life=Terminating(kill=kill))


def composed(state: PodState, now: Instant, wall: WallNs) -> PodState:
    """Return the state with the status that follows from it; nothing is composed before the recall."""
    if state.desired is None or isinstance(state.life, Recalling):
        return state
    kill = state.killed
    stage, waiting = Stage(), dict[str, tuple[str, str]]()
    if kill is None:
        stage = next_stage(state, now, wall)
        waiting = {name: (reason, message) for name, reason, message in stage.waiting}
        told = (wait for wait in waits_of(state, now, wall) if wait.reason)
        waiting |= {wait.container: (wait.reason, wait.message) for wait in told}
    over = isinstance(state.life, Terminated | Finished | Gone)
    status = compose(
        Facts(
            pod=state.desired,
            observed=state.observed,
            base=state.base,
            waiting=tuple((name, reason, message) for name, (reason, message) in waiting.items()),
            terminal=over,
            terminating=kill is not None,
            reason=kill.reason if kill and over else stage.pod_reason,
            message=kill.message if kill and over else stage.pod_message,
            failed=bool(kill and kill.reason),
            endings=state.endings,
            node_ip=state.node_ip,
            wall=wall,
        )
    )
    return replace(with_changes(state, status, wall), base=status)


# ---------------------------------------------------------------- plan


def plan(state: PodState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]) -> Decision[PodState]:
    """Start the next stage if none is in flight; sees no message."""
    if state.inherited:
        return Decision(state=state)
    if state.inflight:
        return cancel_overtaken(state)
    stage = next_stage(state, now, wall)
    if not stage.calls:
        return Decision(state=state, wake_at=earliest(stage.wake_at, reask_at(state)))
    flights = tuple(Flight(op=new_op(), what=what, since=now) for what in stage.calls)
    memo = stage.memo if stage.memo is not None else state.memo
    for what in stage.calls:
        if isinstance(what.call, StopContainer):
            state = with_event(
                state, wall, "Normal", "Killing", f"Stopping container {what.container}", what.container
            )
    starts: tuple[Action, ...] = tuple(
        Start(op=f.op, port=f.what.port, call=f.what.call, deadline_s=f.what.deadline_s) for f in flights
    )
    return Decision(state=replace(state, inflight=flights, memo=memo), actions=starts)


def cancel_overtaken(state: PodState) -> Decision[PodState]:
    """Cancel stops whose grace a later kill has shortened. Nothing that makes or starts something is ever cancelled."""
    kill = state.killed
    overtaken = {
        f.op
        for f in state.inflight
        if kill is not None
        and not f.cancelled
        and isinstance(f.what.call, StopContainer)
        and f.what.call.grace_s > max(kill.grace_s, 2)
    }
    if not overtaken:
        return Decision(state=state)
    flights = tuple(replace(f, cancelled=True) if f.op in overtaken else f for f in state.inflight)
    actions = tuple(Cancel(op=op) for op in sorted(overtaken))
    return Decision(state=replace(state, inflight=flights), actions=actions)


def earliest(*instants: Instant | None) -> Instant | None:
    """Return the first of some instants that are set."""
    return min((at for at in instants if at is not None), default=None)


def resend(message: PodMessage | KernelMessage | None) -> Path | None:
    """Return who must be told everything again: a new incarnation, a supervisor that repeats a kill."""
    match message:
        case Restarted(path=path):
            return path
        case KillPod():
            return SUPERVISOR
        case UpdatePod():
            # Comes at least once a minute: a withdrawal of wants that got lost must not lease an image for ever.
            return IMAGES
        case _:
            return None


def initial(state: PodState, now: Instant, in_flight: tuple[OpId, ...]) -> PodState:
    """Return the state in which an incarnation begins; calls of the one before it may still be under way."""
    return replace(state, life_since=now, inherited=in_flight)


def begin(
    state: PodState, now: Instant, wall: WallNs, new_op: Callable[[], OpId], in_flight: tuple[OpId, ...]
) -> Decision[PodState]:
    """Begin an incarnation: look again at everything, and be told what is seen of the pod."""
    first = decide(initial(state, now, in_flight), None, now, wall, new_op)
    watch = Tell(to=PLEG, message=WatchPod(uid=state.uid))
    return replace(first, actions=(watch, *first.actions))
