"""Prober's decisions: when a probe runs, the result of its answers, and which pod is informed.

The rules are the kubelet's (reference ``pod-lifecycle`` section 9): the startup probe delays the others, thresholds count
equal answers in a row, counters start again with each instance, an error counts neither way. What is known of an instance
from an earlier life of the agent comes with its pod's `ProbePod`, so that a restart changes nothing that is published.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import assert_never
from zlib import crc32

import msgspec
from msgspec.structs import replace

from actors.probes.state import PodProbes, ProbeKey, ProberState, Worker
from actors.probes.verdict import CheckResult, verdict_of
from api.ids import Instant, OpId, Uid, WallNs
from api.lifecycle import Action, Cancel, Decision, Start, Tell, Watch
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.pod import ProbeChanged, ProbeResult, ProbeTrouble
from api.messages.probes import ProbeKind, ProbePlan, ProbePod, ProbesMessage, ProbeTarget
from api.paths import pod_path
from api.ports.runtime import ExecInContainer

TRIES = 3
"""How often a check is made in a row while it ends in an error."""
MARGIN_S = 5.0
"""How long after its own time a conversation is given up that the driver forgot."""
EXEC_MARGIN_S = 10.0
"""How long after its own time a command is given up whose runtime does not answer.

A kubelet waits for the time of any request to the runtime; but commands share a bound, and one runtime process that
hangs must not keep the probes of the whole node from being made.
"""
NS = 1_000_000_000

NewOp = Callable[[], OpId]


class Draft(msgspec.Struct):
    """The state while one message is dealt with: what changes is changed in place and sealed once."""

    pods: dict[Uid, PodProbes]
    agenda: list[tuple[Instant, ProbeKey]]
    queue: list[ProbeKey]
    flights: dict[OpId, ProbeKey]
    execs: int
    leftover: frozenset[OpId]
    actions: list[Action]


def start(state: ProberState, now: Instant, seed: int, leftover: tuple[OpId, ...]) -> Decision[ProberState]:
    """Begin without state: pods send their probes. Calls of an earlier incarnation are cancelled."""
    state = replace(state, began_at=now, seed=seed, leftover=frozenset(leftover))
    return Decision(state=state, actions=tuple(Cancel(op=op) for op in leftover))


def decide(
    state: ProberState,
    message: ProbesMessage | KernelMessage,
    now: Instant,
    wall: WallNs,
    new_op: NewOp,
) -> Decision[ProberState]:
    """Absorb a message, run due probes, and inform pods of changes."""
    draft = Draft(
        pods=dict(state.pods),
        agenda=list(state.agenda),
        queue=list(state.queue),
        flights=dict(state.flights),
        execs=state.execs,
        leftover=state.leftover,
        actions=[],
    )
    match message:
        case ProbePod():
            take_targets(draft, state, message, now, wall)
        case Outcome():
            take_outcome(draft, message, now)
        case ChildDied(path=path) | Restarted(path=path):
            # A new incarnation of a pod's actor sends its level by itself; probes continue until then.
            gone = next((uid for uid in draft.pods if pod_path(uid) == path), None)
            if gone is not None and isinstance(message, ChildDied):
                drop_pod(draft, gone)
        case Alarm() | Heard() | StreamEnded():
            pass
        case _:
            assert_never(message)
    ask_due(draft, state, now, new_op)
    after = replace(
        state,
        pods=draft.pods,
        agenda=tuple(draft.agenda),
        queue=tuple(draft.queue),
        flights=draft.flights,
        execs=draft.execs,
        leftover=draft.leftover,
    )
    wake_at = draft.agenda[0][0] if draft.agenda else None
    return Decision(state=after, actions=tuple(draft.actions), wake_at=wake_at)


# ---------------------------------------------------------------- probes of a pod


def take_targets(draft: Draft, state: ProberState, message: ProbePod, now: Instant, wall: WallNs) -> None:
    """Absorb the probes of a pod: known instances keep their counters, others start or end."""
    uid = message.uid
    before = draft.pods.get(uid)
    if not message.targets:
        if before is not None:
            drop_pod(draft, uid)
        return
    if before is None:
        draft.actions.append(Watch(path=pod_path(uid)))
    old = before or PodProbes()
    workers = []
    for target in message.targets:
        for plan in target.probes:
            known = old.worker(target.container, plan.kind)
            if known is not None and known.container_id == target.container_id:
                # Only its address or its pace can have changed.
                workers.append(known if known.plan == plan else replace(known, plan=plan))
            else:
                workers.append(new_worker(state, uid, target, plan, now, wall))
    kept = {(worker.place, worker.container_id) for worker in workers}
    for worker in old.workers:
        if (worker.place, worker.container_id) not in kept:
            let_go(draft, worker)
    draft.pods[uid] = PodProbes(targets=message.targets, workers=tuple(workers))
    for target in message.targets:
        unblock(draft, uid, target, now)
    draft.actions += (result_message(worker) for worker in draft.pods[uid].workers if has_news(worker))


def new_worker(
    state: ProberState, uid: Uid, target: ProbeTarget, plan: ProbePlan, now: Instant, wall: WallNs
) -> Worker:
    """Return a worker for an instance, with the published result of the instance."""
    place = ProbeKey(uid, target.container, plan.kind)
    match plan.kind:
        case ProbeKind.STARTUP:
            result = ProbeResult.SUCCESS if target.started else ProbeResult.UNKNOWN
        case ProbeKind.LIVENESS:
            result = ProbeResult.SUCCESS
        case ProbeKind.READINESS:
            result = ProbeResult.SUCCESS if target.ready else ProbeResult.UNKNOWN
        case _:
            assert_never(plan.kind)
    # The wall clock may jump: an instance from the future is one that has just begun.
    age_s = max(0.0, (wall - target.started_at) / NS) if target.started_at is not None else 0.0
    wait_s = max(0.0, plan.initial_delay_s - age_s)
    if now - state.began_at < plan.period_s:
        # After a restart of the agent or of the machine all containers would be probed at once.
        wait_s = max(wait_s, jitter(state.seed, place) * plan.period_s)
    held = plan.kind is ProbeKind.STARTUP and target.started
    return Worker(
        place=place,
        container_id=target.container_id,
        plan=plan,
        not_before=now + wait_s,
        result=result,
        held=held,
    )


def jitter(seed: int, place: ProbeKey) -> float:
    """Return a number from 0 to below 1 that is this probe's own."""
    return crc32(f"{seed}/{place.uid}/{place.container}/{place.kind}".encode()) / (1 << 32)


def unblock(draft: Draft, uid: Uid, target: ProbeTarget, now: Instant) -> None:
    """Put the workers of a container on the agenda that may be asked and are not there yet."""
    pod = draft.pods[uid]
    startup = pod.worker(target.container, ProbeKind.STARTUP)
    began = any(plan.kind is ProbeKind.STARTUP for plan in target.probes)
    open_ = startup.result is ProbeResult.SUCCESS if began and startup is not None else target.started
    for worker in pod.workers:
        if worker.place.container != target.container or worker.held or is_busy(worker):
            continue
        if worker.place.kind is ProbeKind.STARTUP or open_:
            put(draft, schedule(draft, worker, max(now, worker.not_before)))


def is_busy(worker: Worker) -> bool:
    """Return whether a worker is on the agenda, in the queue or running."""
    return worker.due is not None or worker.queued or worker.op is not None


def let_go(draft: Draft, worker: Worker) -> None:
    """Take a worker off the agenda and take back what it asks."""
    unschedule(draft, worker)
    if worker.queued:
        draft.queue.remove(worker.place)
    if worker.op is not None:
        draft.actions.append(Cancel(op=worker.op))


def drop_pod(draft: Draft, uid: Uid) -> None:
    """Probe nothing of a pod any more."""
    for worker in draft.pods.pop(uid).workers:
        let_go(draft, worker)


# ---------------------------------------------------------------- asking


def ask_due(draft: Draft, state: ProberState, now: Instant, new_op: NewOp) -> None:
    """Run due probes, and commands that waited for a free place."""
    waiting, draft.queue = draft.queue, []
    for place in waiting:
        worker = found(draft, place)
        assert worker is not None, place
        if has_room(draft, state, place.uid):
            ask(draft, state, replace(worker, queued=False), now, new_op)
        else:
            draft.queue.append(place)
    while draft.agenda and draft.agenda[0][0] <= now:
        due, place = draft.agenda.pop(0)
        worker = found(draft, place)
        assert worker is not None, place
        worker = replace(worker, due=None, asked_at=due)
        if isinstance(worker.plan.call, ExecInContainer) and not has_room(draft, state, place.uid):
            draft.queue.append(place)
            put(draft, replace(worker, queued=True))
        else:
            ask(draft, state, worker, now, new_op)


def has_room(draft: Draft, state: ProberState, uid: Uid) -> bool:
    """Return whether one more command of this pod may run now."""
    if draft.execs >= state.exec_limit:
        return False
    workers = draft.pods[uid].workers
    own = sum(worker.op is not None and isinstance(worker.plan.call, ExecInContainer) for worker in workers)
    return own < state.exec_limit_of_pod


def ask(draft: Draft, state: ProberState, worker: Worker, now: Instant, new_op: NewOp) -> None:
    """Make one check."""
    call = worker.plan.call
    if call is None:
        judge(draft, worker, CheckResult(well=None, message=worker.plan.problem), now)
        return
    is_exec = isinstance(call, ExecInContainer)
    op = new_op()
    draft.execs += is_exec
    draft.flights[op] = worker.place
    put(draft, replace(worker, op=op))
    deadline_s = call.timeout_s + (min(EXEC_MARGIN_S, state.deadline_s) if is_exec else MARGIN_S)
    port = "runtime" if is_exec else "net"
    draft.actions.append(Start(op=op, port=port, call=call, deadline_s=deadline_s))


def take_outcome(draft: Draft, outcome: Outcome, now: Instant) -> None:
    """Take in how a check ended."""
    if outcome.op in draft.leftover:
        draft.leftover -= {outcome.op}
        return
    place = draft.flights.pop(outcome.op, None)
    if place is None:
        return
    if outcome.call == ExecInContainer.__name__:
        draft.execs -= 1
    worker = found(draft, place)
    if worker is None or worker.op != outcome.op:
        # The instance that was asked is not probed any more.
        return
    worker = replace(worker, op=None)
    call = worker.plan.call
    if call is None or outcome.call != type(call).__name__:
        judge(draft, worker, CheckResult(well=None, message=worker.plan.problem), now)
        return
    verdict = verdict_of(call, outcome)
    if verdict.well is None and worker.tries + 1 < TRIES:
        put(draft, schedule(draft, replace(worker, tries=worker.tries + 1), worker.asked_at))
        return
    judge(draft, worker, verdict, now)


# ---------------------------------------------------------------- judging


def judge(draft: Draft, worker: Worker, verdict: CheckResult, now: Instant) -> None:
    """Count a check, publish its result, and schedule the next one."""
    before = worker.result
    worker = replace(counted(worker, verdict, now), tries=0)
    startup = worker.place.kind is ProbeKind.STARTUP
    decided = startup and worker.result is not ProbeResult.UNKNOWN
    if decided or (worker.place.kind is ProbeKind.LIVENESS and worker.result is ProbeResult.FAILURE):
        worker = replace(worker, held=True, run=0)
        put(draft, worker)
    else:
        # A check that took longer than a period is followed by the next one at once.
        put(draft, schedule(draft, worker, max(now, worker.asked_at + worker.plan.period_s)))
    if worker.result is not before or worker.trouble:
        draft.actions.append(result_message(worker))
    if startup and worker.result is ProbeResult.SUCCESS:
        targets = draft.pods[worker.place.uid].targets
        for target in targets:
            if target.container == worker.place.container:
                unblock(draft, worker.place.uid, target, now)


def counted(worker: Worker, verdict: CheckResult, now: Instant) -> Worker:
    """Return the worker after one more check: equal answers in a row become the result at their threshold."""
    worker = replace(worker, checked=worker.checked + 1, message=verdict.message, trouble=trouble_of(verdict))
    if verdict.well is None:
        return worker
    run = worker.run + 1 if worker.well is verdict.well else 1
    worker = replace(worker, well=verdict.well, run=run)
    if verdict.well:
        worker = replace(worker, failures=0, failing_since=None)
        if run >= worker.plan.success_threshold:
            worker = replace(worker, result=ProbeResult.SUCCESS)
        return worker
    since = worker.failing_since if worker.failing_since is not None else now
    worker = replace(worker, failures=worker.failures + 1, failing_since=since)
    return replace(worker, result=ProbeResult.FAILURE) if run >= worker.plan.failure_threshold else worker


def trouble_of(verdict: CheckResult) -> ProbeTrouble:
    """Return what was wrong with a check."""
    if verdict.well is None:
        return ProbeTrouble.ERRORED
    if not verdict.well:
        return ProbeTrouble.FAILED
    return ProbeTrouble.WARNED if verdict.warned else ProbeTrouble.NONE


def has_news(worker: Worker) -> bool:
    """Return whether an instance has a result to publish."""
    return worker.checked > 0


def result_message(worker: Worker) -> Tell:
    """Return the result of one instance for its pod."""
    place = worker.place
    report = ProbeChanged(
        uid=place.uid,
        container=place.container,
        container_id=worker.container_id,
        kind=place.kind,
        result=worker.result,
        trouble=worker.trouble,
        message=worker.message,
        failures=worker.failures,
        failing_since=worker.failing_since,
        checked=worker.checked,
    )
    return Tell(to=pod_path(place.uid), message=report)


# ---------------------------------------------------------------- small changes of a draft


def found(draft: Draft, place: ProbeKey) -> Worker | None:
    """Return a worker by its place."""
    pod = draft.pods.get(place.uid)
    return pod.worker(place.container, place.kind) if pod is not None else None


def put(draft: Draft, worker: Worker) -> None:
    """Put a worker in the place of its last state."""
    pod = draft.pods[worker.place.uid]
    workers = tuple(worker if one.place == worker.place else one for one in pod.workers)
    draft.pods[worker.place.uid] = replace(pod, workers=workers)


def schedule(draft: Draft, worker: Worker, at: Instant) -> Worker:
    """Return a worker that is due at `at`, on the agenda."""
    insort(draft.agenda, (at, worker.place))
    return replace(worker, due=at)


def unschedule(draft: Draft, worker: Worker) -> None:
    """Take a worker off the agenda."""
    if worker.due is not None:
        index = bisect_left(draft.agenda, (worker.due, worker.place))
        assert draft.agenda[index][1] == worker.place, worker
        del draft.agenda[index]
