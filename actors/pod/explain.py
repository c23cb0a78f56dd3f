"""Explain a pod: a pure view of its state for people. What comes next is `plan`'s own output on that state."""

from actors.pod.plan import next_stage
from actors.pod.state import Finished, Gone, Kill, PodState, Recalling, Syncing, Terminated, Terminating
from actors.rules.instance import newest_of
from actors.rules.restart import should_start
from api.containers import Container as Instance
from api.containers import ContainerState
from api.ids import Instant, WallNs
from api.introspection import EventRow, Explanation, PodRow, Step
from api.objects.container import Container
from api.objects.podstatus import ContainerStatus
from api.wallclock import wall_ns

NS = 1_000_000_000


def explain(state: PodState, now: Instant, wall: WallNs) -> Explanation:
    """Return the answer to ``explain pod``."""
    namespace, name = full_name(state)
    waits, since, coming = outlook(state, now, wall)
    kill = state.killed
    return Explanation(
        namespace=namespace,
        name=name,
        uid=state.uid,
        state=state_sentence(state),
        waits_for=waits,
        since_s=since,
        tried=tuple(Step(in_s=t.at - now, what=t.what, result=t.result) for t in state.tried),
        next=coming,
        kill=kill_sentence(kill, wall) if kill else "",
        containers=tuple(container_sentence(state, c, wall) for c in containers_of(state)),
        problems=(state.base.message,) if state.base.message else (),
    )


def outlook(state: PodState, now: Instant, wall: WallNs) -> tuple[str, float | None, tuple[Step, ...]]:
    """Return what the pod waits for, since when, and what happens next."""
    stage = next_stage(state, now, wall)
    if state.inflight:
        oldest = min(f.since for f in state.inflight)
        calls = ", ".join(f"{brief(f.what.call)} (at most {f.what.deadline_s:.0f} s)" for f in state.inflight)
        after = Step(in_s=0.0, what="the next stage is chosen from what these calls show")
        return f"the outcome of: {calls}", now - oldest, (after,)
    if stage.calls:
        steps = tuple(Step(in_s=0.0, what=brief(c.call), result=stage.why) for c in stage.calls)
        return "", None, steps
    if stage.wake_at is not None:
        again = Step(in_s=max(0.0, stage.wake_at - now), what="try again", result=stage.why)
        return stage.why.removeprefix("waiting: ").removeprefix("waiting "), stage.since_s, (again,)
    if stage.since_s is not None:
        return stage.why.removeprefix("waiting: "), stage.since_s, ()
    if isinstance(state.life, Syncing) and state.desired is not None and not stage.pod_reason:
        return "", None, ()
    return stage.why.removeprefix("waiting for "), max(0.0, now - state.life_since), ()


def state_sentence(state: PodState) -> str:
    """Return in one sentence how the pod is."""
    match state.life:
        case Recalling():
            return "its actor is asking the ledger and the runtime what they know of it"
        case Syncing():
            phase = state.base.phase or "Pending"
            ready = sum(1 for s in state.base.container_statuses if s.ready)
            return f"{phase}, {ready} of {len(state.base.container_statuses)} containers ready"
        case Terminating(kill=kill):
            return f"it is being stopped for good: {kill.cause.value}"
        case Terminated():
            return "all its containers are stopped; that is being made durable"
        case Finished():
            return f"{state.base.phase or 'finished'}; nothing of it will run again"
        case Gone():
            return "nothing is left of it"


def kill_sentence(kill: Kill, wall: WallNs) -> str:
    """Return who stopped it and why."""
    ago = max(0, wall - kill.asked_at) / NS
    if not kill.asked_by:
        return f"{kill.cause.value} {ago:.0f} s ago"
    return f"{kill.cause.value}: asked for by {kill.asked_by} {ago:.0f} s ago, with {kill.grace_s} s of grace"


def container_sentence(state: PodState, container: Container, wall: WallNs) -> str:
    """Return in one sentence how a container is and how it got there."""
    status = next((s for s in state.base.container_statuses if s.name == container.name), None)
    if status is None:
        return f"{container.name}: not looked at yet"
    parts = [f"{container.name}: {doing(status, wall)}"]
    last = status.last_state.terminated
    if last is not None:
        why_ended = f": {last.message}" if last.message else ""
        parts.append(f"last ended with exit code {last.exit_code} ({last.reason or 'no reason'}){why_ended}")
    if status.restart_count:
        parts.append("1 restart" if status.restart_count == 1 else f"{status.restart_count} restarts")
    newest = newest_of(state.observed, container.name)
    ended = newest is not None and newest.state is ContainerState.EXITED
    said = said_while_running(newest)
    if said:
        parts.append(said)
    if state.desired and ended and not should_start(state.desired.spec, container, newest):
        parts.append("not to be started again")
    return "; ".join(parts)


def doing(status: ContainerStatus, wall: WallNs) -> str:
    """Return what a container does now."""
    state = status.state
    if state.running is not None:
        since = age_s(state.running.started_at, wall)
        return "runs" if since is None else f"runs since {since:.0f} s"
    if state.terminated is not None:
        how = f"ended with exit code {state.terminated.exit_code} ({state.terminated.reason})"
        return f"{how}: {state.terminated.message}" if state.terminated.message else how
    waiting = state.waiting
    if waiting is None or not waiting.reason:
        return "waits"
    return f"waits, {waiting.reason}: {waiting.message}" if waiting.message else f"waits, {waiting.reason}"


def pod_row(state: PodState, now: Instant, wall: WallNs) -> PodRow:
    """Return the pod's line of ``nodeagent pods``."""
    namespace, name = full_name(state)
    statuses = state.base.container_statuses
    ended = [
        at
        for s in statuses
        if s.restart_count and s.last_state.terminated
        for at in [age_s(s.last_state.terminated.finished_at, wall)]
        if at is not None
    ]
    waits, _, coming = outlook(state, now, wall)
    return PodRow(
        namespace=namespace,
        name=name,
        uid=state.uid,
        ready=f"{sum(1 for s in statuses if s.ready)}/{len(containers_of(state))}",
        status=word(state),
        restarts=sum(s.restart_count for s in statuses),
        last_restart_ago_s=min(ended) if ended else None,
        age_s=age_s(state.base.start_time, wall),
        ip=state.base.pod_ip,
        source=state.source or "orphan",
        why=state.base.message or why(waits, coming) or trouble(state),
        containers=tuple(c.name for c in containers_of(state)),
    )


def why(waits: str, coming: tuple[Step, ...]) -> str:
    """Return in a few words what the pod waits for, empty when all is well."""
    if coming and coming[0].in_s > 0:
        return f"{waits}, in {coming[0].in_s:.0f} s"
    return waits


def trouble(state: PodState) -> str:
    """Return what the runtime has to say of containers that run, empty when all is well."""
    said = [(c.name, said_while_running(newest_of(state.observed, c.name))) for c in containers_of(state)]
    return "; ".join(f"container {name}: {text}" for name, text in said if text)


def said_while_running(instance: Instance | None) -> str:
    """Return what the runtime has to say of a container that runs: log lines that it had to drop, for one."""
    return instance.message if instance is not None and instance.state is ContainerState.RUNNING else ""


def word(state: PodState) -> str:
    """Return what kubectl's STATUS column would say."""
    if isinstance(state.life, Terminating) and state.life.kill.deleted:
        return "Terminating"
    status = state.base
    if status.reason:
        return status.reason
    for container in status.container_statuses:
        waiting, ended = container.state.waiting, container.state.terminated
        if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            return waiting.reason
        if ended is not None and ended.exit_code != 0 and status.phase != "Running":
            return ended.reason or "Error"
    if status.phase == "Succeeded":
        return "Completed"
    creating = any(c.state.waiting for c in status.container_statuses)
    if status.phase == "Pending" and creating and state.inflight:
        return "ContainerCreating"
    return status.phase or "Pending"


def event_rows(state: PodState) -> tuple[EventRow, ...]:
    """Return the pod's events, oldest first."""
    namespace, name = full_name(state)
    return tuple(
        EventRow(
            at=event.at,
            namespace=namespace,
            pod=name,
            type=event.type,
            reason=event.reason,
            message=event.message,
            count=event.count,
            field_path=f"spec.containers{{{event.container}}}" if event.container else "",
        )
        for event in sorted(state.events, key=lambda e: e.at)
    )


def containers_of(state: PodState) -> tuple[Container, ...]:
    """Return the pod's containers as asked for, none for an orphan."""
    return state.desired.spec.containers if state.desired else ()


def full_name(state: PodState) -> tuple[str, str]:
    """Return namespace and name, from whoever knows them."""
    if state.desired is not None:
        return state.desired.metadata.namespace, state.desired.metadata.name
    if state.observed is not None and state.observed.name:
        return state.observed.namespace, state.observed.name
    return state.memo.namespace, state.memo.name or str(state.uid)


def age_s(text: str | None, wall: WallNs) -> float | None:
    """Return how long ago an instant of the API was, None when it is not set."""
    return None if not text else max(0.0, (wall - wall_ns(text)) / NS)


def brief(call: object) -> str:
    """Return a call in one line."""
    told = getattr(call, "brief", None)
    return str(told()) if callable(told) else type(call).__name__
