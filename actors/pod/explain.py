"""Explain a pod: a pure view of its state for users. The next steps are the output of `plan` on that state."""

from actors.pod.cgroup.resize import resize_problems
from actors.pod.container.due import AnyContainer
from actors.pod.container.hook import hooks_text
from actors.pod.container.situation import Situation
from actors.pod.container.stop import waiting_stops
from actors.pod.life.deadline import deadline_left_s
from actors.pod.life.event import namespace_and_name
from actors.pod.life.refusal import what_next
from actors.pod.life.stage import Stage
from actors.pod.plan import SYNC_STEPS
from actors.pod.planned import Planned
from actors.pod.state import (
    LIMITING,
    NON_BLOCKING,
    Finished,
    Gone,
    Kill,
    PodState,
    PortCall,
    Recalling,
    Syncing,
    Terminated,
    Terminating,
)
from actors.pod.status.history import status_named
from actors.pod.status.initstatus import did_its_part
from actors.rules.container.instance import newest_of
from actors.rules.container.role import in_order, is_init, is_sidecar, lasting, sidecars
from api import duration
from api.ids import Instant, WallNs
from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.podstatus import ContainerStatus, PodStatus
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState, StopContainer
from api.shown.introspection import Explanation, PodRow, Step
from api.wallclock import wall_ns

NS = 1_000_000_000
PAST_S = 0.001
"""Margin past the end of a wait: two clocks, which round differently, measure it."""


def explain(state: PodState, now: Instant, wall: WallNs) -> Explanation:
    """Return the answer to ``explain pod``."""
    namespace, name = namespace_and_name(state)
    planned = Planned(state, now, wall)
    waits, since, coming = outlook(planned)
    kill = state.killed
    return Explanation(
        namespace=namespace,
        name=name,
        uid=state.uid,
        state=state_sentence(state),
        waits_for=waits,
        since_s=since,
        sync_step=planned.stage.step,
        sync_steps=tuple(step.__name__ for step in SYNC_STEPS),
        tried=tuple(Step(in_s=t.at - now, what=t.what, result=t.result) for t in state.calls.tried),
        next=(*coming, *retries(state, now), *deadline_step(state, wall)),
        kill=kill_sentence(kill, wall) if kill else "",
        containers=tuple(container_sentence(planned, c) for c in all_of(state)),
        problems=problems_of(state),
    )


def problems_of(state: PodState) -> tuple[str, ...]:
    """Return the problems of the pod, with advice."""
    said = [state.base.message] if state.base.message else []
    said += state.wanted.refusal.advice if state.wanted.refusal is not None else ()
    said += resize_problems(state)
    limits = state.call_backoff(LIMITING)
    said += [f"some limits of its cgroup are not set: {limits.message}"] if limits is not None else ()
    return tuple(said)


def outlook(planned: Planned) -> tuple[str, float | None, tuple[Step, ...]]:
    """Return what the pod waits for, since when, and what happens next."""
    state, now, wall = planned.state, planned.now, planned.wall
    stage = planned.stage
    if state.calls.inflight:
        oldest = min(f.since for f in state.calls.inflight)
        calls = ", ".join(call_sentence(f.what, now - f.since) for f in state.calls.inflight)
        text = ", ".join(
            text for text in (calls, hooks_text(state, now), *waiting_stops(state, wall)) if text
        )
        return text, now - oldest, (Step(in_s=0.0, what=afterwards(state)),)
    if stage.calls:
        steps = tuple(Step(in_s=0.0, what=brief(c), result=stage.why) for c in stage.calls)
        return "", None, steps
    if stage.wake_at is not None and not state.hooks:
        return awaited(stage), stage.since_s, steps_after(state, stage, now, wall)
    if stage.since_s is not None:
        return awaited(stage), stage.since_s, ()
    if state.hooks:
        return hooks_text(state, now), now - min(run.since for run in state.hooks), ()
    if state.wanted.refusal is not None and isinstance(state.life, Finished):
        return what_next(state.wanted.refusal, state.wanted.source), max(0.0, now - state.life_since), ()
    if isinstance(state.life, Syncing) and state.desired is not None and not stage.pod_reason:
        return *wait_for_others(state, wall), ()
    return awaited(stage), max(0.0, now - state.life_since), ()


def call_sentence(what: PortCall, since_s: float) -> str:
    """Return what a call under way waits for, and when that ends at the latest."""
    if isinstance(what.call, StopContainer):
        left_s = what.call.grace_s - since_s
        kill = f"SIGKILL in {span(left_s)}" if left_s > 0 else "SIGKILL sent"
        return f"container {what.container} to exit; {kill}"
    return f"{brief(what)} to return; timeout in {span(max(0.0, what.deadline_s - since_s))}"


def afterwards(state: PodState) -> str:
    """Return what follows when the calls under way have returned."""
    match state.life:
        case Recalling() | Syncing():
            return "continue to sync the pod"
        case Terminating():
            return "stop the remaining containers and the sandbox, then publish the final status"
        case Terminated():
            return "record that the pod has ended"
        case Finished() | Gone():
            return "remove the pod's sandboxes, cgroup, folders and logs"


def span(seconds: float) -> str:
    """Return a duration in whole seconds: ``3m38s``."""
    return duration.write(round(seconds) * NS)


def awaited(wait: Stage) -> str:
    """Return what a stage without calls waits for, as the continuation of "waits for"."""
    return wait.why.removeprefix("waiting: ").removeprefix("waiting ").removeprefix("for ")


def wait_for_others(state: PodState, wall: WallNs) -> tuple[str, float | None]:
    """Return what a running pod still waits for, and since when: resources for a resize, a readiness gate."""
    for condition in state.base.conditions:
        match condition.type, condition.reason:
            case "PodResizePending", "Deferred":
                what = f"free resources for its resize: {condition.message}"
            case "Ready", "ReadinessGatesNotReady":
                what = f"its readiness gates: {condition.message}"
            case _:
                continue
        return what, age_s(condition.last_transition_time, wall)
    return "", None


def retries(state: PodState, now: Instant) -> tuple[Step, ...]:
    """Return the retries that delay nothing else."""
    if not isinstance(state.life, Syncing):
        return ()
    return tuple(
        Step(in_s=max(0.0, backoff.retry.at - now), what=f"retry {backoff.call}", result=backoff.message)
        for backoff in state.call_backoffs
        if backoff.container in NON_BLOCKING
    )


def deadline_step(state: PodState, wall: WallNs) -> tuple[Step, ...]:
    """Return when the active deadline of the pod ends."""
    left = deadline_left_s(state, wall)
    if left is None:
        return ()
    return (Step(in_s=max(0.0, left), what="active deadline exceeded: stop the pod, phase Failed"),)


def steps_after(state: PodState, wait: Stage, now: Instant, wall: WallNs) -> tuple[Step, ...]:
    """Return the steps after a wait, if nothing changes before."""
    in_s = max(0.0, (wait.wake_at or now) - now)
    then_s = in_s + PAST_S
    stage = Planned(state, now + then_s, WallNs(wall + round(then_s * NS))).stage
    if stage.calls:
        return tuple(Step(in_s=in_s, what=brief(c), result=stage.why) for c in stage.calls)
    if stage.why == wait.why:
        return (Step(in_s=in_s, what="check again"),)
    return (Step(in_s=in_s, what=f"wait for {awaited(stage)}" if awaited(stage) else "sync the pod"),)


def state_sentence(state: PodState) -> str:
    """Return the state of the pod in one sentence."""
    match state.life:
        case Recalling():
            return "reading ledger and runtime"
        case Syncing():
            phase = state.base.phase or "Pending"
            ready, of = ready_count(state)
            return f"{phase}, {ready} of {of} containers ready"
        case Terminating(kill=kill):
            return f"terminating: {kill.cause.value}"
        case Terminated():
            return "all containers are stopped; the final status is being written"
        case Finished():
            return f"{state.base.phase or 'finished'}, no container will be started again"
        case Gone():
            return "removed"


def kill_sentence(kill: Kill, wall: WallNs) -> str:
    """Return why and when the pod was stopped."""
    ago = max(0, wall - kill.asked_at) / NS
    return f"{kill.cause.value}, {span(ago)} ago, grace period {kill.grace_s} s"


def container_sentence(situation: Situation, container: AnyContainer) -> str:
    """Return the state of a container and its previous run in one sentence."""
    state, wall = situation.state, situation.wall
    status = status_named(state.base, container.name)
    title = titled(state, container)
    if status is None:
        return f"{title}: never started"
    parts = [f"{title}: {doing(status, wall)}"]
    last = status.last_state.terminated
    if last is not None:
        why_ended = f": {last.message}" if last.message else ""
        parts.append(f"last ended with exit code {last.exit_code} ({last.reason or 'no reason'}){why_ended}")
    if status.restart_count:
        parts.append("1 restart" if status.restart_count == 1 else f"{status.restart_count} restarts")
    newest = newest_of(state.observed, container.name)
    ended = newest is not None and newest.state is RuntimeContainerState.EXITED
    said = said_while_running(newest)
    if said:
        parts.append(said)
    if state.desired and ended and container not in situation.containers_to_start:
        parts.append("will not be started again")
    return "; ".join(parts)


def titled(state: PodState, container: AnyContainer) -> str:
    """Return a container's name, and its kind unless it is a regular one."""
    if isinstance(container, EphemeralContainer):
        return f"{container.name} (ephemeral)"
    if state.desired is None or not is_init(state.desired.spec, container.name):
        return container.name
    return f"{container.name} ({'sidecar' if is_sidecar(state.desired.spec, container) else 'init'})"


def doing(status: ContainerStatus, wall: WallNs) -> str:
    """Return the state of a container: running, ended or waiting."""
    state = status.state
    if state.running is not None:
        since = age_s(state.running.started_at, wall)
        return "running" if since is None else f"running for {span(since)}"
    if state.terminated is not None:
        how = f"ended with exit code {state.terminated.exit_code} ({state.terminated.reason})"
        return f"{how}: {state.terminated.message}" if state.terminated.message else how
    waiting = state.waiting
    if waiting is None or not waiting.reason:
        return "waiting"
    return (
        f"waiting: {waiting.reason}: {waiting.message}" if waiting.message else f"waiting: {waiting.reason}"
    )


def pod_row(state: PodState, now: Instant, wall: WallNs) -> PodRow:
    """Return the pod's line of ``nodeagent pods``."""
    namespace, name = namespace_and_name(state)
    statuses = counted_statuses(state)
    ready, of = ready_count(state)
    ended = [
        at
        for s in statuses
        if s.restart_count and s.last_state.terminated
        for at in [age_s(s.last_state.terminated.finished_at, wall)]
        if at is not None
    ]
    waits, _, coming = outlook(Planned(state, now, wall))
    return PodRow(
        namespace=namespace,
        name=name,
        uid=state.uid,
        ready=f"{ready}/{of}",
        status=word(state),
        restarts=sum(s.restart_count for s in statuses),
        last_restart_ago_s=min(ended) if ended else None,
        age_s=age_s(state.base.start_time, wall),
        ip=state.base.pod_ip,
        source=state.wanted.source or "orphan",
        why=state.base.message or why(waits, coming) or trouble(state),
        containers=tuple(c.name for c in containers_of(state)),
    )


def why(waits: str, coming: tuple[Step, ...]) -> str:
    """Return in a few words what the pod waits for, empty when it waits for nothing."""
    if not coming or coming[0].in_s <= 0:
        return waits
    what, colon, message = waits.partition(": ")
    return f"{what}, next in {span(coming[0].in_s)}{colon}{message}"


def trouble(state: PodState) -> str:
    """Return the runtime's messages on running containers."""
    said = [(c.name, said_while_running(newest_of(state.observed, c.name))) for c in containers_of(state)]
    return "; ".join(f"container {name}: {text}" for name, text in said if text)


def said_while_running(instance: Instance | None) -> str:
    """Return the runtime's message on a running container, such as dropped log lines."""
    return (
        instance.message if instance is not None and instance.state is RuntimeContainerState.RUNNING else ""
    )


def word(state: PodState) -> str:
    """Return the pod's status as in kubectl's STATUS column."""
    if isinstance(state.life, Terminating) and state.life.kill.deleted:
        return "Terminating"
    status = state.base
    if status.reason:
        return status.reason
    first = init_word(state)
    if first:
        return first
    for container in status.container_statuses:
        waiting, ended = container.state.waiting, container.state.terminated
        if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            return waiting.reason
        if ended is not None and ended.exit_code != 0 and status.phase != "Running":
            return ended.reason or "Error"
    if status.phase == "Succeeded":
        return "Completed"
    waits = [c.state.waiting.reason for c in status.container_statuses if c.state.waiting]
    if status.phase == "Pending" and waits and (state.calls.inflight or waits[0] == "PodInitializing"):
        return waits[0] or "ContainerCreating"
    return status.phase or "Pending"


def init_word(state: PodState) -> str:
    """Return the same of a pod whose init containers are not done, empty for any other."""
    if state.desired is None or is_initialised(state.base):
        return ""
    spec = state.desired.spec
    by_name = {status.name: status for status in state.base.init_container_statuses}
    for index, container in enumerate(spec.init_containers):
        status = by_name.get(container.name)
        if did_its_part(spec, container, status):
            continue
        ended = status.state.terminated if status is not None else None
        waiting = status.state.waiting if status is not None else None
        if ended is not None and ended.exit_code != 0:
            return f"Init:{ended.reason or f'ExitCode:{ended.exit_code}'}"
        if waiting is not None and waiting.reason not in ("", "PodInitializing"):
            return f"Init:{waiting.reason}"
        return f"Init:{index}/{len(spec.init_containers)}"
    return ""


def is_initialised(status: PodStatus) -> bool:
    """Return whether the pod's init containers are done, now or once before."""
    return any(c.type == "Initialized" and c.status == "True" for c in status.conditions)


def counted_statuses(state: PodState) -> tuple[ContainerStatus, ...]:
    """Return the statuses whose restarts kubectl counts: without init containers once the pod is initialized."""
    inits = state.base.init_container_statuses
    if state.desired is not None and is_initialised(state.base):
        beside = {container.name for container in sidecars(state.desired.spec)}
        inits = tuple(status for status in inits if status.name in beside)
    return (*inits, *state.base.container_statuses)


def ready_count(state: PodState) -> tuple[int, int]:
    """Return the number of ready containers, and of all regular containers and sidecars."""
    names = (
        {container.name for container in lasting(state.desired.spec)} if state.desired is not None else set()
    )
    statuses = (*state.base.init_container_statuses, *state.base.container_statuses)
    return sum(1 for status in statuses if status.ready and status.name in names), len(names)


def containers_of(state: PodState) -> tuple[Container, ...]:
    """Return the pod's init and regular containers as specified, none for an orphan."""
    return in_order(state.effective.spec) if state.effective else ()


def all_of(state: PodState) -> tuple[AnyContainer, ...]:
    """Return the pod's containers of every kind, none for an orphan."""
    if state.desired is None:
        return ()
    spec = state.desired.spec
    return (*in_order(spec), *spec.ephemeral_containers)


def age_s(text: str | None, wall: WallNs) -> float | None:
    """Return the age of a timestamp of the API, None when it is unset."""
    return None if not text else max(0.0, (wall - wall_ns(text)) / NS)


def brief(what: PortCall) -> str:
    """Return a call in one line, with the container's name instead of its id."""
    short = getattr(what.call, "brief", None)
    text = str(short()) if callable(short) else type(what.call).__name__
    identity = getattr(what.call, "container_id", "")
    return text.replace(identity, f"container {what.container}") if identity and what.container else text
