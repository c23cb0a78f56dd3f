"""Rules of hooks and of the order in which a pod is stopped, for `tests.harness.check.check`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.pod.hookrecord import HookKind, HookRun, hook_record_of
from actors.pod.state import Flight, PodState, Syncing, Terminating
from api.kube.objects.container import Lifecycle
from api.ports.runtime import CreateContainer, RuntimeContainerState, StartContainer, StopContainer
from api.ports.runtime import RuntimeContainer as Instance

if TYPE_CHECKING:
    from tests.harness.check.check import Book, Checker


def fresh_flights(before: PodState | None, after: PodState) -> tuple[Flight, ...]:
    """Return the calls that began between two states."""
    old = {flight.op for flight in before.calls.inflight} if before is not None else set()
    return tuple(flight for flight in after.calls.inflight if flight.op not in old)


def fresh_runs(before: PodState | None, after: PodState) -> tuple[HookRun, ...]:
    """Return the hooks that began between two states."""
    old = {(r.kind, r.instance, r.op, r.plain) for r in before.hooks} if before is not None else set()
    return tuple(r for r in after.hooks if (r.kind, r.instance, r.op, r.plain) not in old)


def instance_with(state: PodState, container_id: str) -> Instance | None:
    """Return an instance by its id, as the agent saw it last."""
    shown = state.observed.containers if state.observed is not None else ()
    return next((instance for instance in shown if instance.id == container_id), None)


def pre_stop_runs_once(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A preStop hook never runs twice for one instance within a life of its actor."""
    for run in fresh_runs(before, after):
        if run.plain and run.op is None:
            continue  # It is going to be repeated without TLS.
        how = "pause" if run.op is None else "exec" if run.what.startswith("exec") else "get"
        checker.coverage.note("hook", f"{run.kind} {how}")
        if run.kind is not HookKind.PRE_STOP:
            continue
        key = f"{run.instance} {run.plain}"
        if key in book.hooked:
            return f"the preStop hook of {run.container} ({run.instance}) runs again"
        book.hooked.add(key)
    return ""


def stop_waits_for_its_hook(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A container with a preStop hook is asked to stop when the hook is over, and not before it began."""
    if not isinstance(after.life, Syncing | Terminating) or after.desired is None or after.memo.restarting:
        # Restarting all containers in place gives them no grace, and so no hooks.
        return ""
    hooks = {c.name: (c.lifecycle or Lifecycle()).pre_stop for c in after.desired.spec.containers}
    for flight in fresh_flights(before, after):
        call = flight.what.call
        if not isinstance(call, StopContainer):
            continue
        instance = instance_with(after, call.container_id)
        if (
            instance is None
            or instance.state is not RuntimeContainerState.RUNNING
            or hooks.get(instance.name) is None
        ):
            continue
        if any(run.instance == instance.id and run.kind is HookKind.PRE_STOP for run in after.hooks):
            return f"container {instance.name} is stopped while its hook is under way"
        if hook_record_of(after.memo.hooks, HookKind.PRE_STOP, instance.name, instance.attempt) is None:
            return f"container {instance.name} is stopped and its hook never began"
    return ""


def kill_ends_post_start(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """No postStart hook outlives the kill of its pod."""
    late = [run.container for run in after.hooks if run.kind is HookKind.POST_START]
    if late and not isinstance(after.life, Syncing):
        return f"the postStart hooks of {late} are under way while it is {type(after.life).__name__}"
    return ""


def post_start_holds_up(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """Until its postStart hook is done a container is not called started, and none after it is made or started."""
    under_way = [run for run in after.hooks if run.kind is HookKind.POST_START]
    if not under_way or after.desired is None:
        return ""
    for run in under_way:
        for status in after.base.container_statuses:
            if status.container_id == run.instance and (status.started or status.ready):
                return f"container {run.container} is called started, and its hook is under way"
    names = [container.name for container in after.desired.spec.containers]
    first = min(
        (names.index(run.container) for run in under_way if run.container in names), default=len(names)
    )
    for flight in fresh_flights(before, after):
        name = flight.what.container
        starts = isinstance(flight.what.call, CreateContainer | StartContainer)
        if starts and name in names and names.index(name) > first:
            return f"container {name} is started before the postStart hook of {names[first]} is done"
    return ""


def sidecars_end_last(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A sidecar of a pod that ends is never asked to stop before the regular containers have ended."""
    if not isinstance(after.life, Terminating) or after.desired is None:
        return ""
    spec = after.desired.spec
    sidecars = [c.name for c in spec.init_containers if c.restart_policy == "Always"]
    used_up = checker.world.time.now() >= book.kill_since + after.life.kill.grace_s - 0.1
    if not sidecars or used_up or checker.wall_jumps:
        return ""
    truth = checker.world.runtime._world.pod(after.uid)
    running = {c.name for c in truth.containers if c.state is RuntimeContainerState.RUNNING}
    for flight in fresh_flights(before, after):
        call = flight.what.call
        instance = instance_with(after, call.container_id) if isinstance(call, StopContainer) else None
        if instance is None or instance.name not in sidecars:
            continue
        later = sidecars[sidecars.index(instance.name) + 1 :]
        alive = sorted(running & {*later, *(c.name for c in spec.containers)})
        if alive:
            return f"sidecar {instance.name} is stopped while {alive} run"
    return ""


HOOK_RULES: tuple[Callable[[Checker, Book, PodState | None, PodState], str], ...] = (
    pre_stop_runs_once,
    stop_waits_for_its_hook,
    kill_ends_post_start,
    post_start_holds_up,
    sidecars_end_last,
)
