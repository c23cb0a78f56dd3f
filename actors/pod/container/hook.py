"""Hooks of containers: which one is due, how it is called, what its end means (reference ``pod-lifecycle`` section 8).

A hook runs beside the pod's stages: it changes nothing that the runtime shows, so one that takes long keeps no other
container from being stopped or started.

```text
postStart   marked before the container is made -> begun once it runs -> well: the mark goes, the container counts as started
                                                                      -> failed: the container is stopped, then it waits
preStop     marked by `actors.pod.container.stop` -> begun -> ended, failed, or given up at the end of the grace -> the stop
```

What the marks say decides everything here: sees no message but the outcome of its own calls.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from actors.pod.container.hookcall import HookCall, call_of, failure_text, handler_of
from actors.pod.container.mark import HookKind, HookMark, HookRun, mark_of, with_mark, without_mark
from actors.pod.life.event import with_event
from actors.pod.state import (
    TRIED_LIMIT,
    Hold,
    PodMemo,
    PodState,
    Recalling,
    Syncing,
    Tried,
    change_calls,
    with_hold,
)
from actors.rules.container.instance import newest_of
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
"""A postStart hook may take as long as it likes, but every call has a deadline."""
MARGIN_S = 5.0
"""So much later than the core gives up a call its port does: the core is the one who says what that means."""
FIRST_HOLD_S = 1.0
WORD = {HookKind.POST_START: "PostStartHook failed", HookKind.PRE_STOP: "PreStopHook failed"}
TERMINATED = "container terminated before sleep hook finished"


# ---------------------------------------------------------------- marks


def with_pending(memo: PodMemo, container: Container | EphemeralContainer, attempt: int) -> PodMemo:
    """Return the memo that says that this instance, which is about to be made, is to have its postStart hook run."""
    others = tuple(m for m in memo.hooks if (m.kind, m.container) != (HookKind.POST_START, container.name))
    if container.lifecycle is None or container.lifecycle.post_start is None:
        return memo if len(others) == len(memo.hooks) else replace(memo, hooks=others)
    pending = mark_of(memo.hooks, HookKind.POST_START, container.name, attempt)
    if pending is not None and not pending.failure:
        return memo
    pause = container.lifecycle.post_start.sleep is not None
    mark = HookMark(kind=HookKind.POST_START, container=container.name, attempt=attempt, pause=pause)
    return replace(memo, hooks=with_mark(others, mark))


def post_start_of(state: PodState, instance: Instance | None) -> HookMark | None:
    """Return the mark of an instance whose postStart hook is not done, None for one that is past it."""
    if instance is None or not state.memo.hooks:
        return None
    return mark_of(state.memo.hooks, HookKind.POST_START, instance.name, instance.attempt)


def holding_up(state: PodState, container: Container) -> HookMark | None:
    """Return the mark of the hook that the containers after this one wait for, None when there is none."""
    newest = newest_of(state.observed, container.name)
    if newest is None or newest.state is not RuntimeContainerState.RUNNING:
        return None
    return post_start_of(state, newest)


def instance_of(state: PodState, mark: HookMark) -> Instance | None:
    """Return the instance that a mark is about, as the runtime shows it."""
    for instance in state.observed.containers if state.observed is not None else ():
        if instance.name == mark.container and instance.attempt == mark.attempt:
            return instance
    return None


def run_of(state: PodState, mark: HookMark) -> HookRun | None:
    """Return the hook under way of a mark, None when it is not."""
    return next((run for run in state.hooks if is_of(run, mark)), None)


def is_of(run: HookRun, mark: HookMark) -> bool:
    """Tell whether a hook under way is that of a mark."""
    return (run.kind, run.container, run.attempt) == (mark.kind, mark.container, mark.attempt)


def grace_left_s(state: PodState, mark: HookMark, wall: WallNs) -> float:
    """Return how much of its grace the stop of a marked instance has left."""
    kill = state.killed
    if kill is not None:
        return min(max(0.0, (kill.stop_by - wall) / NS), float(kill.grace_s))
    return mark.grace_s - min(max(0.0, (wall - mark.begun_at) / NS), float(mark.grace_s))


# ---------------------------------------------------------------- time and the runtime's view


def progressed(state: PodState, now: Instant, wall: WallNs) -> PodState:
    """Return the state after what time, kills and ends of containers do to its hooks."""
    if not state.memo.hooks and not state.hooks:
        return state
    for run in state.hooks:
        state = progressed_run(state, run, now, wall)
    for mark in state.memo.hooks:
        state = progressed_mark(state, mark, now)
    return state


def progressed_run(state: PodState, run: HookRun, now: Instant, wall: WallNs) -> PodState:
    """Return the state in which a hook goes on, is over, or is given up."""
    mark = mark_of(state.memo.hooks, run.kind, run.container, run.attempt)
    if mark is None:
        return dropped(state, run)
    instance = instance_of(state, mark)
    alive = instance is not None and instance.state is RuntimeContainerState.RUNNING
    due = run.until is not None and now >= run.until
    if run.kind is HookKind.POST_START:
        if not isinstance(state.life, Syncing):
            return tried(dropped(state, run), run, now, "interrupted: the pod is being stopped")
        if due and alive:
            return ended_well(dropped(state, run), run, mark, now)
        if alive:
            return state
        why = TERMINATED if run.until is not None else "container terminated before the hook finished"
        return ended_badly(dropped(state, run), run, mark, why, now, wall)
    kill = state.killed
    if not alive:
        return over(dropped(state, run), mark, run, now, "interrupted: the container ended")
    if kill is not None and kill.grace_s < run.grace_s:
        return over(dropped(state, run), mark, run, now, "given up: the grace was shortened")
    if due:
        result = "ok" if mark.pause and is_whole(state, mark, run) else "given up at the end of the grace"
        return over(dropped(state, run), mark, run, now, result)
    return state


def is_whole(state: PodState, mark: HookMark, run: HookRun) -> bool:
    """Tell whether a pause that is over lasted as long as it was to."""
    instance = instance_of(state, mark)
    handler = handler_of(state, instance, mark.kind) if instance is not None else None
    if handler is None or handler.sleep is None or run.until is None:
        return False
    return run.until - run.since >= handler.sleep.seconds - 0.001


def progressed_mark(state: PodState, mark: HookMark, now: Instant) -> PodState:
    """Return the state in which a mark stays, or goes with the instance that it was about."""
    instance = instance_of(state, mark)
    if mark.kind is HookKind.PRE_STOP:
        if state.observed is None or (
            instance is not None and instance.state is RuntimeContainerState.RUNNING
        ):
            return state
        gone = instance is None or instance.state is RuntimeContainerState.EXITED
        kept = (
            without_mark(state.memo.hooks, mark)
            if gone
            else with_mark(state.memo.hooks, replace(mark, ended=True))
        )
        return with_marks(state, kept)
    newest = newest_of(state.observed, mark.container)
    if newest is None or newest.attempt < mark.attempt or not isinstance(state.life, Syncing):
        return state
    if newest.attempt == mark.attempt and newest.state is not RuntimeContainerState.EXITED:
        return state
    # A kubelet's start of this container failed: what it says stays published until the next try.
    state = with_marks(state, without_mark(state.memo.hooks, mark))
    if not mark.failure or newest.attempt != mark.attempt:
        return state
    hold = Hold(
        container=mark.container,
        call="",
        since=now,
        until=now + FIRST_HOLD_S,
        failures=1,
        reason="PostStartHookError",
        message=mark.failure,
    )
    return with_hold(state, hold)


# ---------------------------------------------------------------- beginning


def begun(
    state: PodState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]
) -> tuple[PodState, tuple[Action, ...]]:
    """Return the state in which every hook that is due is under way, and what that takes."""
    actions: list[Action] = [Cancel(op=op) for op in state.calls.to_cancel]
    state = change_calls(state, to_cancel=()) if state.calls.to_cancel else state
    if state.calls.inherited:
        return state, tuple(actions)
    for mark, instance in tuple(due(state)):
        state, action = begun_hook(state, mark, instance, now, wall, new_op)
        if action is not None:
            actions.append(action)
    return state, tuple(actions)


def begun_hook(
    state: PodState,
    mark: HookMark,
    instance: Instance,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> tuple[PodState, Action | None]:
    """Return the state in which one hook is under way, or is over at once, and the call that it takes."""
    before = run_of(state, mark)
    handler = handler_of(state, instance, mark.kind)
    if handler is None:
        return without_hook(state, mark), None
    calls_back = mark.kind is HookKind.PRE_STOP
    left = grace_left_s(state, mark, wall) if calls_back else POST_START_LIMIT_S
    if before is not None and before.until is not None:
        left = max(0.0, before.until - now)
    call = call_of(state, instance, handler, left, mark.kind, plain=before is not None)
    run = HookRun(
        kind=mark.kind,
        container=mark.container,
        attempt=mark.attempt,
        instance=instance.id,
        since=now,
        grace_s=granted_s(state, mark),
        plain=before is not None,
    )
    if isinstance(call, str):
        return with_failure(state, replace(run, what="could not be called"), mark, call, now, wall), None
    if isinstance(call, HookCall):
        op = new_op()
        run = replace(run, op=op, until=now + left if calls_back else None, what=call.what)
        start = Start(op=op, port=call.port, call=call.call, deadline_s=left + MARGIN_S)
        others = tuple(one for one in state.hooks if one is not before)
        return replace(state, hooks=(*others, run)), start
    # A pause that an earlier life of the agent began goes on where it is.
    since = mark.begun_at if calls_back else instance.started_at or wall
    gone_s = min(max(0.0, (wall - since) / NS), float(call))
    run = replace(run, since=now - gone_s, until=now + min(call - gone_s, left), what=f"sleep of {call} s")
    return replace(state, hooks=(*state.hooks, run)), None


def granted_s(state: PodState, mark: HookMark) -> int:
    """Return the grace of the stop that a hook belongs to."""
    return state.killed.grace_s if state.killed is not None else mark.grace_s


def due(state: PodState) -> Iterator[tuple[HookMark, Instance]]:
    """Yield the hooks that are to begin: their marks are written, their containers run."""
    written = state.remembered.hooks if state.remembered is not None else ()
    for mark in state.memo.hooks if not isinstance(state.life, Recalling) else ():
        instance = instance_of(state, mark)
        if (
            instance is None
            or instance.state is not RuntimeContainerState.RUNNING
            or mark.ended
            or mark.failure
        ):
            continue
        if mark.kind is HookKind.POST_START and not isinstance(state.life, Syncing):
            continue
        run = run_of(state, mark)
        if mark in written and (run is None or (run.plain and run.op is None)):
            yield mark, instance


def wake_at(state: PodState) -> Instant | None:
    """Return when the first hook is to be looked at without any message."""
    return min((run.until for run in state.hooks if run.until is not None), default=None)


# ---------------------------------------------------------------- ending


def absorb_hook(state: PodState, outcome: Outcome, now: Instant, wall: WallNs) -> PodState | None:
    """Take in how the call of a hook ended, None when the outcome is not one of a hook."""
    run = next((one for one in state.hooks if one.op == outcome.op), None)
    if run is None:
        return None
    state = replace(state, hooks=tuple(one for one in state.hooks if one.op != outcome.op))
    mark = mark_of(state.memo.hooks, run.kind, run.container, run.attempt)
    if mark is None:
        return state
    if outcome.failure is not None and outcome.failure.reason == PLAIN_HTTP and not run.plain:
        repeated = replace(run, op=None, plain=True)
        return tried(replace(state, hooks=(*state.hooks, repeated)), run, now, "again, without TLS")
    if run.kind is HookKind.PRE_STOP and is_late(outcome.failure):
        return over(state, mark, run, now, "given up at the end of the grace")
    instance = instance_of(state, mark)
    handler = handler_of(state, instance, run.kind) if instance is not None else None
    error = failure_text(state, run.container, handler, outcome)
    if not error:
        if run.plain:
            text = f"request to HTTPS lifecycle hook {run.what} got HTTP response, retry with HTTP succeeded"
            state = with_event(state, wall, "Warning", "LifecycleHTTPFallback", text, run.container)
        return ended_well(state, run, mark, now)
    return with_failure(state, run, mark, error, now, wall)


def is_late(failure: Failure | None) -> bool:
    """Tell whether a call did not end in its time."""
    return failure is not None and failure.kind is FailureKind.TIMED_OUT


def ended_well(state: PodState, run: HookRun, mark: HookMark, now: Instant) -> PodState:
    """Return the state after a hook that did its work."""
    if run.kind is HookKind.PRE_STOP:
        return over(state, mark, run, now, f"ok in {max(0.0, now - run.since):.3f} s")
    return tried(without_hook(state, mark), run, now, f"ok in {max(0.0, now - run.since):.3f} s")


def ended_badly(
    state: PodState, run: HookRun, mark: HookMark, why: str, now: Instant, wall: WallNs
) -> PodState:
    """Return the state after a hook that its container's end interrupted."""
    instance = instance_of(state, mark)
    handler = handler_of(state, instance, run.kind) if instance is not None else None
    text = failure_text(state, run.container, handler, None, why)
    return with_failure(state, run, mark, text, now, wall)


def with_failure(
    state: PodState, run: HookRun, mark: HookMark, error: str, now: Instant, wall: WallNs
) -> PodState:
    """Return the state after a hook that failed. What it printed is published, never told in an event: it may be secret."""
    reason = f"Failed{mark.kind.value[0].upper()}{mark.kind.value[1:]}Hook"
    state = with_event(state, wall, "Warning", reason, WORD[mark.kind], mark.container)
    if mark.kind is HookKind.PRE_STOP:
        return over(state, mark, run, now, "failed")
    failed = replace(mark, failure=error)
    return tried(with_marks(state, with_mark(state.memo.hooks, failed)), run, now, "failed")


def over(state: PodState, mark: HookMark, run: HookRun, now: Instant, result: str) -> PodState:
    """Return the state after a preStop hook, however it ended: the stop follows."""
    marks = with_mark(state.memo.hooks, replace(mark, ended=True))
    return tried(with_marks(state, marks), run, now, result)


def without_hook(state: PodState, mark: HookMark) -> PodState:
    """Return the state in which nothing is to be waited for of a mark."""
    if mark.kind is HookKind.PRE_STOP:
        return with_marks(state, with_mark(state.memo.hooks, replace(mark, ended=True)))
    return with_marks(state, without_mark(state.memo.hooks, mark))


def with_marks(state: PodState, marks: tuple[HookMark, ...]) -> PodState:
    """Return the state with these marks."""
    return replace(state, memo=replace(state.memo, hooks=marks))


def dropped(state: PodState, run: HookRun) -> PodState:
    """Return the state in which a hook is not under way any more; its call is to be cancelled."""
    left = tuple(one for one in state.hooks if one is not run)
    calls = (*state.calls.to_cancel, run.op) if run.op is not None else state.calls.to_cancel
    return replace(change_calls(state, to_cancel=calls), hooks=left)


def tried(state: PodState, run: HookRun, now: Instant, result: str) -> PodState:
    """Return the state that remembers this hook, for `explain`."""
    what = f"{run.kind.value} hook of container {run.container}: {run.what}"
    ended = Tried(at=now, what=what, result=result)
    return change_calls(state, tried=(*state.calls.tried, ended)[-TRIED_LIMIT:])


def sentence(run: HookRun, now: Instant) -> str:
    """Return what is waited for, in words."""
    left = "" if run.until is None else f" (at most {max(0.0, run.until - now):.0f} s more)"
    return f"the {run.kind.value} hook of container {run.container}: {run.what}{left}"


def sentences(state: PodState, now: Instant, names: tuple[str, ...] = ()) -> str:
    """Return the hooks under way in words, all or those of some containers."""
    return ", ".join(sentence(run, now) for run in state.hooks if not names or run.container in names)
