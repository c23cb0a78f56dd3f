"""The life of one pod as three pure functions over one state: absorb what is known, plan the next stage, report.

Rules it keeps (architecture section 4): one stage in flight per pod; a kill cancels stops that it shortens and waits for
the rest; no decision on an observation older than the end of the last call; after a failure inspect first; a terminal
phase only when an inspection shows that nothing runs; grace only shrinks; write the memo before the call that needs it.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.pod.cgroup.grouping import cpu_messages
from actors.pod.cgroup.resize import with_confined, with_resize_events
from actors.pod.container.dropped import without_dropped
from actors.pod.container.hook import begin_due_hooks, hook_wake_at, progressed
from actors.pod.container.image import absorb_image_report, resend_wants_at, with_wants
from actors.pod.container.probe import absorb_probe, with_probes
from actors.pod.container.renewal import with_renewed, without_renewed
from actors.pod.container.stop import is_stopping, joining, stop_messages
from actors.pod.hookrecord import recalled_hook_records
from actors.pod.life.deadline import deadline_wake_at, past_deadline
from actors.pod.life.event import with_changes, with_ends, with_event
from actors.pod.life.refusal import rejected, with_refusals
from actors.pod.life.repeat import next_removal
from actors.pod.life.stage import MIN_STOP_S, NS, fresh_memo
from actors.pod.life.volume import removal_is_due, with_volumes
from actors.pod.outcome import absorb_outcome, with_view
from actors.pod.planned import Planned
from actors.pod.published import with_published_status
from actors.pod.report import is_stopped, report
from actors.pod.spec.identity import own_grace_s, recorded_grace_s
from actors.pod.state import (
    NO_CONTAINER,
    NON_BLOCKING,
    Finished,
    Flight,
    Gone,
    Kill,
    PodMemo,
    PodState,
    PortCall,
    Recalling,
    Syncing,
    Terminated,
    Terminating,
    WantedPod,
    change_calls,
    change_setup,
    change_view,
    with_call_backoff,
    with_container,
    without_call_backoff,
    without_call_backoffs,
)
from actors.pod.status.phase import TERMINAL, is_static, phase_of
from actors.rules.container.instance import is_alive, newest_of
from actors.rules.container.role import names_of
from actors.rules.retry import Retry
from api import paths
from api.ids import Instant, OpId, Path, WallNs
from api.kube.objects.pod import Pod
from api.kube.objects.podstatus import PodStatus
from api.lifecycle import Action, Cancel, Decision, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.pleg import WatchPod
from api.messages.pod import (
    ClearPod,
    ImageReport,
    KillCause,
    KillPod,
    PodMessage,
    PodObserved,
    ProbeChanged,
    UpdatePod,
)
from api.ports.ledger import Remember
from api.ports.runtime import RuntimeContainerState, RuntimePod, StopContainer

SELF = Path("")
"""`asked_by` of a kill by the pod's own actor."""

DISRUPTING = (KillCause.EVICTED, KillCause.PREEMPTED, KillCause.SHUTDOWN)
"""Causes that set the condition DisruptionTarget, unless the pod is at fault (reference 13)."""

RECALL_TRIES = 5
"""After so many failed reads of the ledger a pod goes on without it: a broken disk must not keep a node from working."""
LEDGER_UNREAD = "cannot read the ledger: restart counts, back-off and kills in progress may be forgotten"


def decide(
    before: PodState,
    message: PodMessage | KernelMessage | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[PodState]:
    """Absorb a message (None: decide again on what is known) and choose what to do."""
    state = with_ends(before, entered(before, absorb(before, message, now, wall), now), wall)
    planned = advance(state, now, wall)
    after = with_stopping_event(before, with_status(planned, stopped=state.killed is not None), wall)
    decision = plan(after, planned, new_op)
    facts = report(before, decision.state, resend=resend(message))
    if is_stopped(decision.state):
        decision = replace(decision, state=replace(decision.state, askers=()))
    facts += cpu_messages(before, decision.state, message)
    return replace(decision, actions=(*facts, *decision.actions))


# ---------------------------------------------------------------- absorb


def absorb(  # noqa: C901  # one case per message
    state: PodState, message: PodMessage | KernelMessage | None, now: Instant, wall: WallNs
) -> PodState:
    """Return what is known after `message`; decides nothing."""
    match message:
        case UpdatePod():
            return with_deletion(absorb_update(state, message, now), wall)
        case KillPod():
            return absorb_kill(state, message, wall)
        case ClearPod():
            life = state.life
            return replace(state, life=replace(life, clear=True)) if isinstance(life, Finished) else state
        case PodObserved(pod=pod, as_of=as_of):
            if as_of < state.view.settled_at or as_of < state.view.as_of:
                return state
            return with_view(state, pod, as_of)
        case Outcome():
            return absorb_outcome(state, message, now, wall)
        case Restarted(path=path) if path == paths.PODS:
            # A new supervisor counts its updates from the beginning.
            return replace(state, wanted=replace(state.wanted, generation=0))
        case ImageReport():
            return absorb_image_report(state, message, wall)
        case ProbeChanged():
            return absorb_probe(state, message, wall)
        case Alarm():
            # Retry an invalid configuration with the node's files and the cluster's Services as they are now.
            read = state.setup.files is not None or state.setup.services is not None
            return change_setup(state, files=None, services=None) if read else state
        case Restarted() | ChildDied() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def absorb_update(state: PodState, message: UpdatePod, now: Instant) -> PodState:
    """Absorb the desired pod, unless a newer one is known; a container whose definition changed is retried at once."""
    if message.generation < state.wanted.generation:
        return state
    for name, record in state.containers.items():
        if record.call_backoff is not None and is_redefined(state.desired, message.pod, name):
            state = with_call_backoff(state, replace(record.call_backoff, since=now, retry=Retry(at=now)))
    wanted = WantedPod(
        pod=message.pod,
        source=message.source,
        generation=message.generation,
        refusal=message.refusal,
        resize=message.resize,
    )
    ips = message.node.ips
    settings = replace(state.settings, node_ip=ips[0]) if ips else state.settings
    return replace(state, wanted=wanted, node=message.node, settings=settings)


def with_deletion(state: PodState, wall: WallNs) -> PodState:
    """Return the state of a pod that stops because its object is being deleted, whether or not the kill has come yet.

    Nothing of it may be started in between: the object may be that of a pod which this node ended long ago.
    """
    pod = state.desired
    begins = isinstance(state.life, Recalling | Syncing) and state.killed is None
    if pod is None or pod.metadata.deletion_timestamp is None or not begins:
        return state
    given_s = pod.metadata.deletion_grace_period_seconds
    grace_s = None if given_s is None else max(1, given_s)
    kill = KillPod(uid=state.uid, cause=KillCause.DELETED, grace_s=grace_s, asked_by=paths.PODS)
    return absorb_kill(state, kill, wall)


def is_redefined(before: Pod | None, after: Pod, name: str) -> bool:
    """Return whether a container is in both specs and its definitions differ."""
    if before is None or before == after:
        return False
    then, now = (
        next((c for _, group in pod.spec.container_groups() for c in group if c.name == name), None)
        for pod in (before, after)
    )
    return then is not None and now is not None and then != now


def absorb_kill(state: PodState, message: KillPod, wall: WallNs) -> PodState:
    """Absorb a kill: the first cause stays, grace only shrinks, deletion and eviction stick."""
    grace_s = first_grace_s(state, message)
    asked = Kill(
        cause=message.cause,
        grace_s=grace_s,
        asked_at=wall,
        stop_by=wall + grace_s * NS,
        own=message.grace_s is None,
        asked_by=message.asked_by,
        deleted=message.deleted,
        evict=message.evict,
        disruption=message.cause in DISRUPTING and not message.own_fault,
        reason=message.reason,
        message=message.message,
    )
    askers = tuple(sorted({*state.askers, message.asked_by}))
    if message.cause is KillCause.PREEMPTED and state.killed is None:
        state = with_event(state, wall, "Warning", message.reason, message.message)
    match state.life:
        case Recalling(kill=kill):
            if kill is not None and kill.own and not is_known(state):
                # Its grace was a guess.
                kill = replace(kill, grace_s=asked.grace_s, stop_by=asked.stop_by)
            life: Recalling | Terminating | Terminated | Finished | Gone = replace(
                state.life, kill=merged_kill(kill, asked)
            )
        case Syncing():
            life = Terminating(kill=asked)
        case Terminating(kill=kill):
            life = replace(state.life, kill=merged_kill(kill, asked))
        case Terminated(kill=kill):
            life = replace(state.life, kill=merged_kill(kill, asked))
        case Finished(kill=kill):
            life = replace(state.life, kill=merged_kill(kill, asked))
        case Gone():
            life = state.life
        case _:
            assert_never(state.life)
    return replace(state, life=life, askers=askers)


def first_grace_s(state: PodState, kill: KillPod) -> int:
    """Return the grace of a kill in seconds: the pod's own, or the override if that is smaller or the pod is not known.

    Who deletes a pod through the API may also give it more (reference ``pod-lifecycle`` section 4.6).
    """
    override_s = kill.grace_s
    if override_s is None:
        return pod_grace_s(state)
    if kill.cause is KillCause.DELETED or not is_known(state):
        return floored(override_s)
    return floored(min(pod_grace_s(state), override_s))


def is_known(state: PodState) -> bool:
    """Return whether the pod's own grace is known."""
    return state.desired is not None or state.observed is not None


def pod_grace_s(state: PodState) -> int:
    """Return the pod's own grace in seconds: from its spec, else from its containers, else a kubelet's default."""
    desired = state.desired
    return floored(own_grace_s(desired) if desired is not None else recorded_grace_s(state.observed))


def floored(grace_s: int) -> int:
    """Return a grace in seconds, at least `MIN_STOP_S` where it is zero."""
    return grace_s if grace_s >= 1 else MIN_STOP_S


def merged_kill(kill: Kill | None, asked: Kill) -> Kill:
    """Return the kill in force after another request; a request without an override changes no grace."""
    if kill is None:
        return asked
    if asked.own:
        asked = replace(asked, grace_s=kill.grace_s, stop_by=kill.stop_by)
    return replace(
        kill,
        grace_s=min(kill.grace_s, asked.grace_s),
        stop_by=min(kill.stop_by, asked.stop_by),
        own=kill.own and asked.own,
        deleted=kill.deleted or asked.deleted,
        evict=kill.evict or asked.evict,
        disruption=kill.disruption or asked.disruption,
        reason=asked.reason or kill.reason,
        message=asked.message or kill.message,
    )


# ---------------------------------------------------------------- advance


def advance(state: PodState, now: Instant, wall: WallNs) -> Planned:
    """Advance the life as far as it goes without a call."""
    planned = settled(progressed(past_deadline(state, now, wall), now, wall), now, wall)
    while (after := step_of_life(planned)) is not planned.state:
        planned = settled(entered(planned.state, after, now), now, wall)
    return planned


def settled(state: PodState, now: Instant, wall: WallNs) -> Planned:
    """Return the situation with what is published of the pod, without records of what no longer exists."""
    state = with_published_status(state)
    memo = without_dropped(with_volumes(fresh_memo(state), state.desired), state)
    state = without_stale_records(replace(state, memo=memo) if memo != state.memo else state)
    planned = Planned(state, now, wall)
    after = without_renewed(planned)
    return planned if after is state else Planned(after, now, wall)


def with_status(planned: Planned, *, stopped: bool) -> PodState:
    """Return the state with its status, and with the images, probes and events that follow from it.

    `stopped`: the pod was being stopped before this moment, so exits of its containers are no Warning.
    """
    state, status, wall = planned.state, planned.status, planned.wall
    if state.killed is None:
        state = with_refusals(state, planned.stage, wall)
    if status != state.base:
        state = with_resize_events(with_changes(state, status, wall, stopped=stopped), status, wall)
        state = replace(state, base=status)
    return with_probes(with_confined(with_wants(state, planned), planned.resize_steps))


def entered(before: PodState, after: PodState, now: Instant) -> PodState:
    """Return the state without back-offs where its life changed.

    Earlier failures do not delay the next stage: a kill waits for no retry of a start.
    """
    if type(before.life) is type(after.life):
        return after
    return replace(without_call_backoffs(after), life_since=now)


def with_stopping_event(before: PodState, after: PodState, wall: WallNs) -> PodState:
    """Return the state with the event ``Stopping`` when the pod begins to terminate."""
    kill = after.killed
    begins = isinstance(after.life, Terminating) and not isinstance(before.life, Terminating)
    if not begins or kill is None or kill.cause is KillCause.COMPLETED or not is_alive(after.observed):
        return after
    text = f"Stopping the pod: {kill.cause.value}, grace period {kill.grace_s} s"
    return with_event(after, wall, "Normal", "Stopping", text)


def without_stale_records(state: PodState) -> PodState:
    """Return the state without records of removed containers, and without back-offs of running ones.

    A container in back-off may run: after a start of unknown outcome.
    """
    names = names_of(state.desired.spec) if state.desired is not None else frozenset[str]()
    for name, record in state.containers.items():
        newest = newest_of(state.observed, name)
        if newest is None and name not in names and state.desired is not None:
            state = with_container(state, name, NO_CONTAINER)
        elif (
            record.call_backoff is not None
            and newest is not None
            and newest.state is RuntimeContainerState.RUNNING
        ):
            state = without_call_backoff(state, name)
    return state


def step_of_life(planned: Planned) -> PodState:
    """Return the state after one transition of its life, or the same."""
    state, wall = planned.state, planned.wall
    if state.calls.inflight:
        return state
    match state.life:
        case Recalling(kill=kill):
            return end_of_recall(state, kill, wall)
        case Syncing() if state.desired is not None and state.wanted.refusal is not None:
            return rejected(state, state.wanted.refusal, state.desired, wall)
        case Syncing():
            if state.desired is None or not has_ended(planned):
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
            if proven_at is None or is_alive(state.observed) or state.view.must_inspect:
                return state
            return replace(state, life=Terminated(kill=kill))
        case Terminated(kill=kill, unmounted=unmounted):
            done = state.remembered is not None and state.remembered.terminated and not removal_is_due(state)
            return replace(state, life=Finished(kill=kill, unmounted=unmounted)) if done else state
        case Finished() | Gone():
            return state
        case _:
            assert_never(state.life)


def end_of_recall(state: PodState, kill: Kill | None, wall: WallNs) -> PodState:
    """Return the state after the recall once ledger and runtime have answered, or the same."""
    if state.observed is None or state.view.must_inspect:
        return state
    if isinstance(state.life, Recalling) and state.life.failures >= RECALL_TRIES:
        return recalled(without_ledger(state, wall), kill)
    if state.remembered is None or state.call_backoff("") is not None:
        return state
    return recalled(state, kill)


def has_ended(planned: Planned) -> bool:
    """Return whether a pod without a kill has completed: no container will run again."""
    state = planned.state
    if state.observed is None or state.view.must_inspect:
        return False
    if planned.stage.ended:
        return True
    if state.memo.restarting:
        return False
    status, pod = planned.status, planned.pod
    phase = phase_of(
        pod.spec,
        status.container_statuses,
        terminal=False,
        static=is_static(pod),
        inits=status.init_container_statuses,
    )
    return phase in TERMINAL or status.phase in TERMINAL


def without_ledger(state: PodState, wall: WallNs) -> PodState:
    """Continue without the ledger, with an event."""
    state = with_event(state, wall, "Warning", "LedgerUnavailable", LEDGER_UNREAD)
    return state if state.remembered is not None else replace(state, remembered=PodMemo())


def recalled(state: PodState, asked: Kill | None) -> PodState:
    """Continue the life that the ledger records."""
    if state.remembered == PodMemo():
        # A status in the ledger without a memo is of an earlier life under the same UID. It stays until this one's is
        # written, so the memo says which one it is.
        memo = replace(state.memo, outdated=state.base.start_time or "")
        state = replace(state, base=PodStatus(), memo=memo)
    elif state.memo.outdated and state.base.start_time == state.memo.outdated:
        state = replace(state, base=PodStatus())
    before = state.memo.kill
    marks = recalled_hook_records(state.memo.hooks, killed=before is not None)
    state = replace(state, memo=replace(state.memo, hooks=marks))
    # Only the earlier kill knows the grace that the pod was given when its source dropped it.
    kill = merged_kill(before, asked) if before is not None and asked is not None else before or asked
    if before is None and kill is not None:
        kill = with_known_grace(kill, pod_grace_s(state))
    if before is not None and not state.memo.terminated and before.asked_by != SELF:
        # The actor that asked an earlier incarnation still waits for the answer.
        state = replace(state, askers=tuple(sorted({*state.askers, before.asked_by})))
    if kill is None:
        return replace(state, life=Syncing())
    if state.memo.terminated and not is_alive(state.observed):
        return replace(state, life=Finished(kill=kill))
    return replace(state, life=Terminating(kill=kill))


def with_known_grace(kill: Kill, own_s: int) -> Kill:
    """Return a kill with the pod's own grace, in seconds, which was unknown when it came."""
    stop_by = kill.asked_at + own_s * NS
    if not kill.own and kill.cause is KillCause.DELETED:
        return kill
    if kill.own:
        return replace(kill, grace_s=own_s, stop_by=stop_by)
    return replace(kill, grace_s=min(kill.grace_s, own_s), stop_by=min(kill.stop_by, stop_by))


# ---------------------------------------------------------------- plan


def plan(state: PodState, planned: Planned, new_op: Callable[[], OpId]) -> Decision[PodState]:
    """Begin hooks, and the next stage if none is in flight; sees no message."""
    now, wall, memo = planned.now, planned.wall, state.memo
    state, hooks = begin_due_hooks(state, now, wall, new_op)
    if state.memo is not memo:
        # A hook that could not be called has failed at once.
        planned = Planned(state, now, wall)
    decision = plan_stage(state, planned, new_op)
    timed = (hook_wake_at(state), deadline_wake_at(state, now, wall), retry_at(state, now))
    wake_at = earliest(decision.wake_at, *timed)
    return replace(decision, actions=(*hooks, *decision.actions), wake_at=wake_at)


def plan_stage(state: PodState, planned: Planned, new_op: Callable[[], OpId]) -> Decision[PodState]:
    """Start the next stage if none is in flight, or calls that may join stops in flight."""
    if state.calls.inherited:
        return Decision(state=state)
    if not state.calls.inflight:
        stage = planned.stage
        if stage.calls:
            return started(state, planned, stage.calls, new_op)
        return Decision(state=state, wake_at=earliest(stage.wake_at, resend_wants_at(state)))
    cancelled = cancel_overtaken(state)
    state = cancelled.state
    if not is_stopping(state) or state.view.must_inspect or state.call_backoff("") is not None:
        return cancelled
    calls = joining(state, planned.stage)
    joined = started(state, planned, calls, new_op) if calls else cancelled
    actions = (*cancelled.actions, *joined.actions) if calls else cancelled.actions
    return Decision(state=joined.state, actions=actions, wake_at=planned.stage.wake_at)


def started(
    state: PodState, planned: Planned, calls: tuple[PortCall, ...], new_op: Callable[[], OpId]
) -> Decision[PodState]:
    """Start calls of the next stage, with an event for each container that they stop."""
    stage, now, wall = planned.stage, planned.now, planned.wall
    flights = tuple(Flight(op=new_op(), what=what, since=now) for what in calls)
    memo = stage.memo
    if memo is None or not any(isinstance(what.call, Remember) for what in calls):
        memo = state.memo
    for name, message in stop_messages(state, calls, memo):
        state = with_event(state, wall, "Normal", "Killing", message, name)
    state = with_renewed(replace(state, memo=memo), calls, planned.restarts)
    starts: tuple[Action, ...] = tuple(
        Start(op=f.op, port=f.what.port, call=f.what.call, deadline_s=f.what.deadline_s) for f in flights
    )
    asked = tuple(what.call.container_id for what in calls if isinstance(what.call, StopContainer))
    if state.calls.inflight:
        asked = (*state.calls.asked, *asked)
    after = change_calls(state, inflight=(*state.calls.inflight, *flights), asked=asked)
    return Decision(state=after, actions=starts, wake_at=stage.wake_at)


def cancel_overtaken(state: PodState) -> Decision[PodState]:
    """Cancel stops whose grace a later kill has shortened. Calls that create or start something are never cancelled."""
    kill = state.killed
    overtaken = {
        f.op
        for f in state.calls.inflight
        if kill is not None
        and not f.cancelled
        and isinstance(f.what.call, StopContainer)
        and f.what.call.grace_s > max(kill.grace_s, 2)
    }
    if not overtaken:
        return Decision(state=state)
    flights = tuple(replace(f, cancelled=True) if f.op in overtaken else f for f in state.calls.inflight)
    actions = tuple(Cancel(op=op) for op in sorted(overtaken))
    return Decision(state=change_calls(state, inflight=flights), actions=actions)


def retry_at(state: PodState, now: Instant) -> Instant | None:
    """Return when the next retry that delays nothing else is due, None without one."""
    if not isinstance(state.life, Syncing):
        return None
    held = (
        backoff.retry.at
        for backoff in state.call_backoffs
        if backoff.container in NON_BLOCKING and backoff.retry.at > now
    )
    return earliest(*held, next_removal(state, now))


def earliest(*instants: Instant | None) -> Instant | None:
    """Return the earliest instant that is not None."""
    return min((at for at in instants if at is not None), default=None)


def resend(message: PodMessage | KernelMessage | None) -> Path | None:
    """Return the actor to which everything must be sent again: a new incarnation, a supervisor that repeats a kill."""
    match message:
        case Restarted(path=path):
            return path
        case KillPod():
            return paths.PODS
        case UpdatePod():
            # Comes at least once a minute: a lost withdrawal of wants must not lease an image for ever, and probe
            # targets or results may have been lost too.
            return paths.IMAGES
        case _:
            return None


def initial(state: PodState, now: Instant, in_flight: tuple[OpId, ...]) -> PodState:
    """Return the state in which an incarnation begins; calls of the one before it may still be under way."""
    return replace(change_calls(state, inherited=in_flight), life_since=now)


def blank(state: PodState, as_of: Instant) -> PodState:
    """Return the state of a pod that was in neither ledger nor runtime at `as_of`: it needs no recall."""
    nothing = RuntimePod(uid=state.uid, name="", namespace="")
    return replace(change_view(state, observed=nothing, as_of=as_of), remembered=PodMemo())


def begin(
    state: PodState,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
    in_flight: tuple[OpId, ...],
    hooks: tuple[OpId, ...] = (),
) -> Decision[PodState]:
    """Begin an incarnation: read everything again and subscribe to observations of the pod.

    The calls `hooks` of the incarnation before are cancelled: their purpose is lost and they might never end.
    """
    state = change_calls(initial(state, now, in_flight), to_cancel=hooks)
    first = decide(state, None, now, wall, new_op)
    watch = Tell(to=paths.PLEG, message=WatchPod(uid=state.uid))
    return replace(first, actions=(watch, *first.actions))
