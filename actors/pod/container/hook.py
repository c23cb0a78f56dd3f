"""Hooks of containers: which one begins, how it is called, what follows from its end (reference ``pod-lifecycle`` 8).

A hook runs beside the pod's stages: it changes nothing that the runtime shows, so a long one delays no start or stop of
another container.

```text
postStart   recorded before the container is created -> begun once it runs -> ok: record removed, the container is started
                                                                           -> failed: the container is stopped, back-off
preStop     recorded by `actors.pod.container.stop` -> begun -> ended, failed, or timed out with the grace -> the stop
```

Level-triggered on the records: sees no message but the outcome of its own calls.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from actors.pod.container.hookcall import HookCall, failure_text, handler_of, hook_call
from actors.pod.hookrecord import (
    HookKind,
    HookRecord,
    HookRun,
    hook_record_of,
    with_hook_record,
    without_hook_record,
)
from actors.pod.life.event import with_event
from actors.pod.state import (
    RETRY,
    TRIED_LIMIT,
    CallBackoff,
    PodMemo,
    PodState,
    Recalling,
    Syncing,
    Tried,
    change_calls,
    with_call_backoff,
)
from actors.rules.container.instance import newest_of
from actors.rules.retry import Retry
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId, WallNs
from api.kube.objects.container import Container, EphemeralContainer
from api.lifecycle import Action, Cancel, Start
from api.messages.kernel import Outcome
from api.ports.net import PLAIN_HTTP
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState

NS = 1_000_000_000
POST_START_LIMIT_S = 86_400.0
"""A postStart hook has no time limit, but every call has a deadline."""
MARGIN_S = 5.0
"""The port's deadline is so much later than the core's: the core decides what a timeout means."""
WORD = {HookKind.POST_START: "PostStartHook failed", HookKind.PRE_STOP: "PreStopHook failed"}
TERMINATED = "container terminated before sleep hook finished"


# ---------------------------------------------------------------- records


def with_pending(memo: PodMemo, container: Container | EphemeralContainer, attempt: int) -> PodMemo:
    """Return the memo with a record of the postStart hook of the instance that is created next."""
    others = tuple(m for m in memo.hooks if (m.kind, m.container) != (HookKind.POST_START, container.name))
    if container.lifecycle is None or container.lifecycle.post_start is None:
        return memo if len(others) == len(memo.hooks) else replace(memo, hooks=others)
    pending = hook_record_of(memo.hooks, HookKind.POST_START, container.name, attempt)
    if pending is not None and not pending.failure:
        return memo
    pause = container.lifecycle.post_start.sleep is not None
    record = HookRecord(kind=HookKind.POST_START, container=container.name, attempt=attempt, pause=pause)
    return replace(memo, hooks=with_hook_record(others, record))


def post_start_of(state: PodState, instance: Instance | None) -> HookRecord | None:
    """Return the record of an instance's postStart hook, None when the hook is done or there is none."""
    if instance is None or not state.memo.hooks:
        return None
    return hook_record_of(state.memo.hooks, HookKind.POST_START, instance.name, instance.attempt)


def blocking_hook(state: PodState, container: Container) -> HookRecord | None:
    """Return the record of the postStart hook that the containers after this one wait for, None without one."""
    newest = newest_of(state.observed, container.name)
    if newest is None or newest.state is not RuntimeContainerState.RUNNING:
        return None
    return post_start_of(state, newest)


def instance_of(state: PodState, record: HookRecord) -> Instance | None:
    """Return the instance of a record, as the runtime shows it."""
    for instance in state.observed.containers if state.observed is not None else ():
        if instance.name == record.container and instance.attempt == record.attempt:
            return instance
    return None


def run_of(state: PodState, record: HookRecord) -> HookRun | None:
    """Return the running hook of a record, None when it does not run."""
    return next((run for run in state.hooks if is_of(run, record)), None)


def is_of(run: HookRun, record: HookRecord) -> bool:
    """Return whether a running hook is that of a record."""
    return (run.kind, run.container, run.attempt) == (record.kind, record.container, record.attempt)


def hook_grace_left_s(state: PodState, record: HookRecord, wall: WallNs) -> float:
    """Return what is left of the grace of an instance's stop, in seconds."""
    kill = state.killed
    if kill is not None:
        return min(max(0.0, (kill.stop_by - wall) / NS), float(kill.grace_s))
    return record.grace_s - min(max(0.0, (wall - record.begun_at) / NS), float(record.grace_s))


# ---------------------------------------------------------------- time and the runtime's view


def progressed(state: PodState, now: Instant, wall: WallNs) -> PodState:
    """Return the state after the effects of time, kills and container exits on its hooks."""
    if not state.memo.hooks and not state.hooks:
        return state
    for run in state.hooks:
        state = progressed_run(state, run, now, wall)
    for record in state.memo.hooks:
        state = progressed_record(state, record, now)
    return state


def progressed_run(state: PodState, run: HookRun, now: Instant, wall: WallNs) -> PodState:
    """Return the state in which a running hook goes on, has ended, or is abandoned."""
    record = hook_record_of(state.memo.hooks, run.kind, run.container, run.attempt)
    if record is None:
        return abandoned(state, run)
    instance = instance_of(state, record)
    alive = instance is not None and instance.state is RuntimeContainerState.RUNNING
    is_over = run.until is not None and now >= run.until
    if run.kind is HookKind.POST_START:
        if not isinstance(state.life, Syncing):
            return with_tried_hook(abandoned(state, run), run, now, "interrupted: the pod is being stopped")
        if is_over and alive:
            return ended_well(abandoned(state, run), run, record, now)
        if alive:
            return state
        why = TERMINATED if run.until is not None else "container terminated before the hook finished"
        return ended_badly(abandoned(state, run), run, record, why, now, wall)
    kill = state.killed
    if not alive:
        return pre_stop_over(abandoned(state, run), record, run, now, "interrupted: the container ended")
    if kill is not None and kill.grace_s < run.grace_s:
        return pre_stop_over(
            abandoned(state, run), record, run, now, "cancelled: the grace period was shortened"
        )
    if is_over:
        result = (
            "ok"
            if record.pause and is_whole(state, record, run)
            else "timed out at the end of the grace period"
        )
        return pre_stop_over(abandoned(state, run), record, run, now, result)
    return state


def is_whole(state: PodState, record: HookRecord, run: HookRun) -> bool:
    """Return whether an ended sleep lasted its full time."""
    instance = instance_of(state, record)
    handler = handler_of(state, instance, record.kind) if instance is not None else None
    if handler is None or handler.sleep is None or run.until is None:
        return False
    return run.until - run.since >= handler.sleep.seconds - 0.001


def progressed_record(state: PodState, record: HookRecord, now: Instant) -> PodState:
    """Return the state in which a record stays, or goes with its instance."""
    instance = instance_of(state, record)
    if record.kind is HookKind.PRE_STOP:
        if state.observed is None or (
            instance is not None and instance.state is RuntimeContainerState.RUNNING
        ):
            return state
        gone = instance is None or instance.state is RuntimeContainerState.EXITED
        kept = (
            without_hook_record(state.memo.hooks, record)
            if gone
            else with_hook_record(state.memo.hooks, replace(record, ended=True))
        )
        return with_hook_records(state, kept)
    newest = newest_of(state.observed, record.container)
    if newest is None or newest.attempt < record.attempt or not isinstance(state.life, Syncing):
        return state
    if newest.attempt == record.attempt and newest.state is not RuntimeContainerState.EXITED:
        return state
    # For a kubelet the start of this container failed: the error stays published until the next try.
    state = with_hook_records(state, without_hook_record(state.memo.hooks, record))
    if not record.failure or newest.attempt != record.attempt:
        return state
    backoff = CallBackoff(
        container=record.container,
        call="",
        since=now,
        retry=Retry().after(now, RETRY),
        reason="PostStartHookError",
        message=record.failure,
    )
    return with_call_backoff(state, backoff)


# ---------------------------------------------------------------- beginning


def begin_due_hooks(
    state: PodState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]
) -> tuple[PodState, tuple[Action, ...]]:
    """Return the state in which every due hook has begun, and the calls of these hooks."""
    actions: list[Action] = [Cancel(op=op) for op in state.calls.to_cancel]
    state = change_calls(state, to_cancel=()) if state.calls.to_cancel else state
    if state.calls.inherited:
        return state, tuple(actions)
    for record, instance in tuple(hooks_to_begin(state)):
        state, action = begin_hook(state, record, instance, now, wall, new_op)
        if action is not None:
            actions.append(action)
    return state, tuple(actions)


def begin_hook(
    state: PodState,
    record: HookRecord,
    instance: Instance,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> tuple[PodState, Action | None]:
    """Return the state in which one hook has begun, or has failed at once, and its call."""
    before = run_of(state, record)
    handler = handler_of(state, instance, record.kind)
    if handler is None:
        return without_hook(state, record), None
    calls_back = record.kind is HookKind.PRE_STOP
    left = hook_grace_left_s(state, record, wall) if calls_back else POST_START_LIMIT_S
    if before is not None and before.until is not None:
        left = max(0.0, before.until - now)
    call = hook_call(state, instance, handler, left, record.kind, plain=before is not None)
    run = HookRun(
        kind=record.kind,
        container=record.container,
        attempt=record.attempt,
        instance=instance.id,
        since=now,
        grace_s=stop_grace_s(state, record),
        plain=before is not None,
    )
    if isinstance(call, str):
        return with_failure(state, replace(run, what="could not be called"), record, call, now, wall), None
    if isinstance(call, HookCall):
        op = new_op()
        run = replace(run, op=op, until=now + left if calls_back else None, what=call.what)
        start = Start(op=op, port=call.port, call=call.call, deadline_s=left + MARGIN_S)
        others = tuple(one for one in state.hooks if one is not before)
        return replace(state, hooks=(*others, run)), start
    # A sleep that began in an earlier life of the agent goes on.
    since = record.begun_at if calls_back else instance.started_at or wall
    gone_s = min(max(0.0, (wall - since) / NS), float(call))
    run = replace(run, since=now - gone_s, until=now + min(call - gone_s, left), what=f"sleep of {call} s")
    return replace(state, hooks=(*state.hooks, run)), None


def stop_grace_s(state: PodState, record: HookRecord) -> int:
    """Return the grace of the stop that a hook belongs to."""
    return state.killed.grace_s if state.killed is not None else record.grace_s


def hooks_to_begin(state: PodState) -> Iterator[tuple[HookRecord, Instance]]:
    """Yield the hooks to begin: their records are written, their containers run."""
    written = state.remembered.hooks if state.remembered is not None else ()
    for record in state.memo.hooks if not isinstance(state.life, Recalling) else ():
        instance = instance_of(state, record)
        if (
            instance is None
            or instance.state is not RuntimeContainerState.RUNNING
            or record.ended
            or record.failure
        ):
            continue
        if record.kind is HookKind.POST_START and not isinstance(state.life, Syncing):
            continue
        run = run_of(state, record)
        if record in written and (run is None or (run.plain and run.op is None)):
            yield record, instance


def hook_wake_at(state: PodState) -> Instant | None:
    """Return when the first running hook ends by time, None without one."""
    return min((run.until for run in state.hooks if run.until is not None), default=None)


# ---------------------------------------------------------------- ending


def absorb_hook(state: PodState, outcome: Outcome, now: Instant, wall: WallNs) -> PodState | None:
    """Absorb the outcome of a hook's call, None when it is of another call."""
    run = next((one for one in state.hooks if one.op == outcome.op), None)
    if run is None:
        return None
    state = replace(state, hooks=tuple(one for one in state.hooks if one.op != outcome.op))
    record = hook_record_of(state.memo.hooks, run.kind, run.container, run.attempt)
    if record is None:
        return state
    if outcome.failure is not None and outcome.failure.reason == PLAIN_HTTP and not run.plain:
        repeated = replace(run, op=None, plain=True)
        return with_tried_hook(
            replace(state, hooks=(*state.hooks, repeated)), run, now, "retried without TLS"
        )
    if run.kind is HookKind.PRE_STOP and is_late(outcome.failure):
        return pre_stop_over(state, record, run, now, "timed out at the end of the grace period")
    instance = instance_of(state, record)
    handler = handler_of(state, instance, run.kind) if instance is not None else None
    error = failure_text(state, run.container, handler, outcome)
    if not error:
        if run.plain:
            text = f"request to HTTPS lifecycle hook {run.what} got HTTP response, retry with HTTP succeeded"
            state = with_event(state, wall, "Warning", "LifecycleHTTPFallback", text, run.container)
        return ended_well(state, run, record, now)
    return with_failure(state, run, record, error, now, wall)


def is_late(failure: Failure | None) -> bool:
    """Return whether a call timed out."""
    return failure is not None and failure.kind is FailureKind.TIMED_OUT


def ended_well(state: PodState, run: HookRun, record: HookRecord, now: Instant) -> PodState:
    """Return the state after a hook that succeeded."""
    if run.kind is HookKind.PRE_STOP:
        return pre_stop_over(state, record, run, now, f"ok in {max(0.0, now - run.since):.3f} s")
    return with_tried_hook(without_hook(state, record), run, now, f"ok in {max(0.0, now - run.since):.3f} s")


def ended_badly(
    state: PodState, run: HookRun, record: HookRecord, why: str, now: Instant, wall: WallNs
) -> PodState:
    """Return the state after a hook that the exit of its container interrupted."""
    instance = instance_of(state, record)
    handler = handler_of(state, instance, run.kind) if instance is not None else None
    text = failure_text(state, run.container, handler, None, why)
    return with_failure(state, run, record, text, now, wall)


def with_failure(
    state: PodState, run: HookRun, record: HookRecord, error: str, now: Instant, wall: WallNs
) -> PodState:
    """Return the state after a hook that failed. Its output is in the status, never in an event: it may be secret."""
    reason = f"Failed{record.kind.value[0].upper()}{record.kind.value[1:]}Hook"
    state = with_event(state, wall, "Warning", reason, WORD[record.kind], record.container)
    if record.kind is HookKind.PRE_STOP:
        return pre_stop_over(state, record, run, now, "failed")
    failed = replace(record, failure=error)
    return with_tried_hook(
        with_hook_records(state, with_hook_record(state.memo.hooks, failed)), run, now, "failed"
    )


def pre_stop_over(state: PodState, record: HookRecord, run: HookRun, now: Instant, result: str) -> PodState:
    """Return the state after a preStop hook, however it ended: the stop follows."""
    records = with_hook_record(state.memo.hooks, replace(record, ended=True))
    return with_tried_hook(with_hook_records(state, records), run, now, result)


def without_hook(state: PodState, record: HookRecord) -> PodState:
    """Return the state in which nothing waits for the hook of a record."""
    if record.kind is HookKind.PRE_STOP:
        return with_hook_records(state, with_hook_record(state.memo.hooks, replace(record, ended=True)))
    return with_hook_records(state, without_hook_record(state.memo.hooks, record))


def with_hook_records(state: PodState, records: tuple[HookRecord, ...]) -> PodState:
    """Return the state with these hook records."""
    return replace(state, memo=replace(state.memo, hooks=records))


def abandoned(state: PodState, run: HookRun) -> PodState:
    """Return the state without a running hook, whose call is cancelled."""
    left = tuple(one for one in state.hooks if one is not run)
    calls = (*state.calls.to_cancel, run.op) if run.op is not None else state.calls.to_cancel
    return replace(change_calls(state, to_cancel=calls), hooks=left)


def with_tried_hook(state: PodState, run: HookRun, now: Instant, result: str) -> PodState:
    """Return the state with this hook in `tried`, for `explain`."""
    what = f"{run.kind.value} hook of container {run.container}: {run.what}"
    ended = Tried(at=now, what=what, result=result)
    return change_calls(state, tried=(*state.calls.tried, ended)[-TRIED_LIMIT:])


def hook_text(run: HookRun, now: Instant) -> str:
    """Return a running hook in words, with its timeout."""
    text = f"the {run.kind.value} hook of container {run.container}: {run.what}"
    if run.until is None:
        return text
    left = f"{max(0.0, run.until - now):.0f} s"
    return f"{text}; {left} left" if run.op is None else f"{text}; timeout in {left}"


def hooks_text(state: PodState, now: Instant, names: tuple[str, ...] = ()) -> str:
    """Return the running hooks in words, all or those of some containers."""
    return ", ".join(hook_text(run, now) for run in state.hooks if not names or run.container in names)
