"""LogRotator's decisions: which logs are rotated, and which links are removed.

```text
every period   FindLogs -> queue -> at most `workers` at a time:
               InspectPod -> ours, and runs      -> RotateLog -> ReopenContainerLog -> done
                                                                  on failure: RestoreLog gives the file its name back
                          -> ours, and has ended -> RotateLog that leaves the last lines in place (once: then it is small)
                          -> runs, file missing  -> ReopenContainerLog
every minute   FindDeadLinks -> InspectPod -> RemoveDeadLink, but for containers that have not ended
```

Level-triggered: the next scan of the folders finds what a killed agent left half done.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.logs.state import (
    LOGFILES,
    RUNTIME,
    TROUBLE_LIMIT,
    Job,
    LinkJob,
    LogRotatorState,
    RotationStep,
    SayTrouble,
    Trouble,
)
from actors.rules.retry import Retry, RetryPolicy
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId, Uid, WallNs
from api.lifecycle import Action, Decision, Start
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.ports.logs import (
    DeadLinks,
    FindDeadLinks,
    FindLogs,
    LogRotated,
    LogSeen,
    LogsFound,
    RemoveDeadLink,
    RestoreLog,
    RotateLog,
)
from api.ports.runtime import (
    InspectPod,
    ReopenContainerLog,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
)

SCAN_DEADLINE_S = 30.0
ROTATE_DEADLINE_S = 300.0
"""Compressing a log of some gigabytes takes minutes."""
LINK_PERIOD_S = 60.0
NOT_OURS_S = 300.0
"""How long a log that does not belong to a running container of ours is ignored."""
RETRY = RetryPolicy(base_s=10.0, limit_s=300.0)
NEVER = float("inf")


def decide(
    before: LogRotatorState,
    message: KernelMessage | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[LogRotatorState]:
    """Take in a message (None: begin) and choose what to do."""
    state, next_steps = absorb(before, message, now, wall)
    decision = plan(state, next_steps, now, new_op)
    return replace(decision, actions=(*news(before, decision.state), *decision.actions))


def news(before: LogRotatorState, after: LogRotatorState) -> tuple[Action, ...]:
    """Return the troubles that were not there before: a repeated one is only counted."""
    known = {(trouble.uid, trouble.message) for trouble in before.troubles}
    return tuple(
        SayTrouble(trouble=trouble)
        for trouble in after.troubles
        if (trouble.uid, trouble.message) not in known
    )


# ---------------------------------------------------------------- absorb

Steps = tuple[Job | RemoveDeadLink, ...]
"""Calls that follow at once from an outcome: the next step of a job, the removal of a link."""


def absorb(
    state: LogRotatorState, message: KernelMessage | None, now: Instant, wall: WallNs
) -> tuple[LogRotatorState, Steps]:
    """Return what is known after `message`, and the steps that it makes possible."""
    match message:
        case Outcome(op=op) if op == state.scan:
            return absorb_scan(replace(state, scan=None), message, now, wall), ()
        case Outcome(op=op) if op == state.link_scan:
            return absorb_link_scan(replace(state, link_scan=None), message, wall), ()
        case Outcome(op=op) if op in state.jobs:
            job = state.jobs[op]
            rest = {other: value for other, value in state.jobs.items() if other != op}
            return absorb_job(replace(state, jobs=rest), job, message, now, wall)
        case Outcome(op=op) if op in state.link_jobs:
            links = state.link_jobs[op]
            left = {other: value for other, value in state.link_jobs.items() if other != op}
            return replace(state, link_jobs=left), removable(state, links, message)
        case Outcome(op=op) if op in state.removing:
            return absorb_removal(state, message, wall), ()
        case Outcome() | Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded() | None:
            return state, ()
        case _:
            assert_never(message)


def absorb_scan(state: LogRotatorState, outcome: Outcome, now: Instant, wall: WallNs) -> LogRotatorState:
    """Take in what the folders show: queue what is due, forget what is well again."""
    state = replace(state, next_scan_at=now + state.period_s)
    if not isinstance(outcome.result, LogsFound):
        return in_trouble(state, None, text_of(outcome.failure), wall)
    for text in outcome.result.unreadable:
        state = in_trouble(state, None, f"cannot list the logs of containers: {text}", wall)
    found = {log.path for log in outcome.result.logs}
    retries = {path: retry for path, retry in state.retries.items() if path in found}
    under_way = {job.seen.path for job in state.jobs.values()}
    due = tuple(
        log
        for log in outcome.result.logs
        if log.path not in under_way and (log.path not in retries or now >= retries[log.path].at)
    )
    return replace(state, retries=retries, queue=due)


def absorb_link_scan(state: LogRotatorState, outcome: Outcome, wall: WallNs) -> LogRotatorState:
    """Take in which links lead nowhere, by the pod that they are of."""
    if not isinstance(outcome.result, DeadLinks):
        return in_trouble(state, None, text_of(outcome.failure), wall)
    links = outcome.result.links
    jobs = tuple(
        LinkJob(uid=uid, links=tuple(link for link in links if link.uid == uid))
        for uid in sorted({link.uid for link in links})
    )
    return replace(state, link_queue=jobs)


def absorb_job(
    state: LogRotatorState, job: Job, outcome: Outcome, now: Instant, wall: WallNs
) -> tuple[LogRotatorState, Steps]:
    """Take in the end of one step of a job."""
    match job.step:
        case RotationStep.LOOK:
            if not isinstance(outcome.result, RuntimePod):
                return failed(state, job, text_of(outcome.failure), now, wall), ()
            return absorb_owner(state, job, outcome.result, now)
        case RotationStep.ROTATE:
            return absorb_rotation(state, job, outcome, now, wall)
        case RotationStep.REOPEN:
            if outcome.failure is None:
                return well(replace(state, reopened=state.reopened + 1), job), ()
            why = (
                f"the runtime did not reopen the log of container {job.seen.container}:"
                f" {outcome.failure.message}"
            )
            job = replace(job, failed=why, failed_kind=outcome.failure.kind)
            if job.rotated:
                return state, (replace(job, step=RotationStep.RESTORE),)
            return failed(state, job, why, now, wall), ()
        case RotationStep.RESTORE:
            # Not there any more: the container was removed in the meantime, with its logs.
            lost = outcome.failure is not None and outcome.failure.kind is not FailureKind.NOT_FOUND
            end = f"; {text_of(outcome.failure)}" if lost else "; the file keeps its name and grows"
            return failed(state, job, job.failed + end, now, wall), ()
        case _:
            assert_never(job.step)


def absorb_owner(
    state: LogRotatorState, job: Job, pod: RuntimePod, now: Instant
) -> tuple[LogRotatorState, Steps]:
    """Absorb the owner of a log and choose what to do."""
    seen = job.seen
    container = writer_of(pod, seen) if pod.ours or state.take_over else None
    if container is None:
        return left_alone(state, seen.path, now + NOT_OURS_S), ()
    job = replace(job, namespace=pod.namespace, pod=pod.name, path=container.log_path)
    running = container.state is RuntimeContainerState.RUNNING
    if seen.missing:
        if not running:
            return left_alone(state, seen.path, now + NOT_OURS_S), ()
        return state, (replace(job, step=RotationStep.REOPEN, container_id=container.id),)
    if not running and container.state is not RuntimeContainerState.EXITED:
        # Created ones write nothing, and of an unknown one it is not known whether it does.
        return left_alone(state, seen.path, now + NOT_OURS_S), ()
    return state, (replace(job, step=RotationStep.ROTATE, container_id=container.id if running else ""),)


def writer_of(pod: RuntimePod, seen: LogSeen) -> RuntimeContainer | None:
    """Return the container whose live log this is; of a bare folder, the running one that should have a log in it."""
    for container in pod.containers:
        if container.log_path == seen.path:
            return container
        inside = container.log_path.rpartition("/")[0] == seen.path
        if seen.missing and inside and container.state is RuntimeContainerState.RUNNING:
            return container
    return None


def absorb_rotation(
    state: LogRotatorState, job: Job, outcome: Outcome, now: Instant, wall: WallNs
) -> tuple[LogRotatorState, Steps]:
    """Absorb the result of moving a file aside."""
    result, failure = outcome.result, outcome.failure
    if isinstance(result, LogRotated):
        state = replace(state, rotated=state.rotated + 1)
        if result.trouble:
            state = in_trouble(state, job, result.trouble, wall)
        if not job.container_id:
            return well(state, job), ()
        return state, (replace(job, step=RotationStep.REOPEN, rotated=result.rotated),)
    if failure is not None and failure.kind is FailureKind.NOT_FOUND:
        return well(state, job), ()
    if failure is not None and failure.kind is FailureKind.CONFLICT:
        # An earlier call that ran out of time is still at it, or the last lines are still being written.
        return left_alone(state, job.seen.path, now + state.period_s), ()
    return failed(state, job, text_of(failure), now, wall), ()


def removable(state: LogRotatorState, job: LinkJob, outcome: Outcome) -> tuple[RemoveDeadLink, ...]:
    """Return the links that lead to logs of containers that ended or are gone; a running one's log is being rotated."""
    pod = outcome.result
    if not isinstance(pod, RuntimePod):
        return ()
    if (pod.sandboxes or pod.containers) and not (pod.ours or state.take_over):
        return ()
    alive = {c.log_path for c in pod.containers if c.state is not RuntimeContainerState.EXITED}
    return tuple(
        RemoveDeadLink(name=link.name, target=link.target) for link in job.links if link.target not in alive
    )


def absorb_removal(state: LogRotatorState, outcome: Outcome, wall: WallNs) -> LogRotatorState:
    """Take in that a link was removed."""
    removing = {op: link for op, link in state.removing.items() if op != outcome.op}
    state = replace(state, removing=removing)
    if outcome.failure is not None:
        return in_trouble(state, None, outcome.failure.message, wall)
    return replace(state, links_removed=state.links_removed + 1)


def failed(state: LogRotatorState, job: Job, why: str, now: Instant, wall: WallNs) -> LogRotatorState:
    """Record a failure and ignore the log for a while; for good where the runtime cannot rotate it."""
    retry = state.retries.get(job.seen.path, Retry()).after(now, RETRY)
    if job.failed_kind is FailureKind.REJECTED:
        retry = replace(retry, at=NEVER)
    state = replace(state, retries={**state.retries, job.seen.path: retry})
    return in_trouble(state, job, why, wall)


def well(state: LogRotatorState, job: Job) -> LogRotatorState:
    """Forget that a log ever failed."""
    retries = {path: retry for path, retry in state.retries.items() if path != job.seen.path}
    return replace(state, retries=retries)


def left_alone(state: LogRotatorState, path: str, until: Instant) -> LogRotatorState:
    """Leave a log alone for a while."""
    retry = replace(state.retries.get(path, Retry()), at=until)
    return replace(state, retries={**state.retries, path: retry})


def in_trouble(state: LogRotatorState, job: Job | None, message: str, wall: WallNs) -> LogRotatorState:
    """Note what could not be done; an equal trouble is counted."""
    trouble = Trouble(
        uid=job.seen.uid if job else Uid(""),
        namespace=job.namespace if job else "",
        pod=job.pod if job else "",
        container=job.seen.container if job else "",
        message=message,
        at=wall,
    )
    rest = []
    for old in state.troubles:
        if (old.uid, old.message) == (trouble.uid, message):
            trouble = replace(trouble, count=old.count + 1, pod=trouble.pod or old.pod)
        else:
            rest.append(old)
    return replace(state, troubles=(*rest, trouble)[-TROUBLE_LIMIT:])


def text_of(failure: Failure | None) -> str:
    """Return a failure in words."""
    return failure.message if failure is not None else "unexpected answer of the runtime"


# ---------------------------------------------------------------- plan


def plan(
    state: LogRotatorState, steps: Steps, now: Instant, new_op: Callable[[], OpId]
) -> Decision[LogRotatorState]:
    """Continue rotations in flight, start one for each free worker, scan the folders when due."""
    actions: list[Action] = []
    for step in steps:
        op = new_op()
        if isinstance(step, Job):
            actions.append(start_of(state, op, step))
            state = replace(state, jobs={**state.jobs, op: step})
        else:
            actions.append(Start(op=op, port=LOGFILES, call=step, deadline_s=SCAN_DEADLINE_S))
            state = replace(state, removing={**state.removing, op: step})
    while state.queue and state.busy < state.workers:
        op, job = new_op(), Job(seen=state.queue[0])
        actions.append(start_of(state, op, job))
        state = replace(state, queue=state.queue[1:], jobs={**state.jobs, op: job})
    while state.link_queue and state.busy < state.workers:
        op, links = new_op(), state.link_queue[0]
        actions.append(
            Start(op=op, port=RUNTIME, call=InspectPod(uid=links.uid), deadline_s=state.deadline_s)
        )
        state = replace(state, link_queue=state.link_queue[1:], link_jobs={**state.link_jobs, op: links})
    wakes: list[Instant] = []
    if state.limit_bytes >= 0 and state.scan is None:
        if now >= state.next_scan_at:
            op = new_op()
            call = FindLogs(limit_bytes=state.limit_bytes)
            actions.append(Start(op=op, port=LOGFILES, call=call, deadline_s=SCAN_DEADLINE_S))
            state = replace(state, scan=op)
        else:
            wakes.append(state.next_scan_at)
    if state.link_scan is None:
        if now >= state.next_link_scan_at:
            op = new_op()
            actions.append(Start(op=op, port=LOGFILES, call=FindDeadLinks(), deadline_s=SCAN_DEADLINE_S))
            state = replace(state, link_scan=op, next_link_scan_at=now + LINK_PERIOD_S)
        wakes.append(state.next_link_scan_at)
    return Decision(state=state, actions=tuple(actions), wake_at=min(wakes, default=None))


def start_of(state: LogRotatorState, op: OpId, job: Job) -> Start:
    """Return the call of a job's step."""
    seen = job.seen
    match job.step:
        case RotationStep.LOOK:
            look = InspectPod(uid=seen.uid)
            return Start(op=op, port=RUNTIME, call=look, deadline_s=state.deadline_s)
        case RotationStep.ROTATE:
            keep_bytes = 0 if job.container_id else max(1, state.limit_bytes)
            rotate = RotateLog(path=job.path, max_files=state.max_files, keep_bytes=keep_bytes)
            return Start(op=op, port=LOGFILES, call=rotate, deadline_s=ROTATE_DEADLINE_S)
        case RotationStep.REOPEN:
            again = ReopenContainerLog(uid=seen.uid, container_id=job.container_id)
            return Start(op=op, port=RUNTIME, call=again, deadline_s=state.deadline_s)
        case RotationStep.RESTORE:
            back = RestoreLog(path=job.path, rotated=job.rotated)
            return Start(op=op, port=LOGFILES, call=back, deadline_s=SCAN_DEADLINE_S)
        case _:
            assert_never(job.step)
