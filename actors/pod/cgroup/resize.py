"""In-place resize: running containers get their allocated resources, without a restart where that is possible.

Level-triggered: what the runtime shows of each running container is compared with what it would be created with now, in
the runtime's own units (two shares are no request). Reference ``pod-lifecycle`` section 14, ``runtime-cri`` section 6.8.

```text
memory that shrinks -> memory that grows -> CPU that shrinks -> CPU that grows        (each side by side over containers)
```

A refused resource delays no other. The removal of a limit is not possible in place, and a resource whose policy asks for
it is changed by a restart.
"""

from enum import StrEnum

import msgspec

from actors.pod.life.event import with_event
from actors.pod.life.stage import Stage, runtime_call
from actors.pod.spec.resource import container_resources
from actors.pod.state import RESIZING, PodState, Syncing, change_sent, with_instance
from actors.rules.container.instance import newest_of
from api.ids import Instant, WallNs
from api.kube.objects import pod as v1
from api.kube.objects.podstatus import PodCondition, PodStatus
from api.ports.confinement import Resources
from api.ports.node import NodeFacts
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState, UpdateContainer

RESTARTS = "RestartContainer"
PENDING = "PodResizePending"
IN_PROGRESS = "PodResizeInProgress"


class Change(StrEnum):
    """Kinds of change, in their order."""

    MEMORY_SHRINKS = "less memory"
    MEMORY_GROWS = "more memory"
    CPU_SHRINKS = "less CPU"
    CPU_GROWS = "more CPU"


class ResizeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one container that runs."""

    container: str
    instance: Instance
    change: Change
    resources: Resources
    """What the runtime gets: this resource alone."""
    restart: bool
    """It needs a restart of the container."""


LIVE = (RuntimeContainerState.CREATED, RuntimeContainerState.RUNNING)


def resize_steps(state: PodState) -> tuple[ResizeStep, ...]:
    """Return every change that running or created instances still need, in the order of `Change`, then of the spec."""
    pod = state.desired
    if pod is None or not state.node.confined or state.observed is None:
        return ()
    found: list[ResizeStep] = []
    for container, wanted in amounts_by_container(pod, state.node):
        newest = newest_of(state.observed, container.name)
        if newest is not None and newest.state in LIVE and newest.resources is not None:
            found += changes_of(container, newest, wanted, state.instance(newest.id).taken or Resources())
    order = tuple(Change)
    return tuple(sorted(found, key=lambda due: order.index(due.change))) if found else ()


def amounts_by_container(pod: v1.Pod, node: NodeFacts) -> tuple[tuple[v1.Container, Resources], ...]:
    """Return the resources that each container would be created with now, in spec order."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return tuple((container, container_resources(pod, container, node)) for container in containers)


def with_confined(state: PodState, due: tuple[ResizeStep, ...]) -> PodState:
    """Return the state with the generation of the update that confines every running container."""
    if (
        state.sent.confined == state.wanted.generation
        or state.calls.inflight
        or state.view.must_inspect
        or state.observed is None
    ):
        return state
    return state if due else change_sent(state, confined=state.wanted.generation)


def changes_of(
    container: v1.Container, instance: Instance, wanted: Resources, asked: Resources
) -> tuple[ResizeStep, ...]:
    """Return the changes that one container still needs; `asked` is what the runtime accepted already."""
    shown = instance.resources
    assert shown is not None
    found = []
    memory = (wanted.memory_limit_bytes, shown.memory_limit_bytes)
    # No limit is never set in place, so what the runtime accepted does not tell whether it has none.
    if memory[0] != memory[1] and (not memory[0] or memory[0] != asked.memory_limit_bytes):
        given = Resources(
            memory_limit_bytes=wanted.memory_limit_bytes,
            memory_swap_limit_bytes=wanted.memory_swap_limit_bytes,
        )
        change = Change.MEMORY_GROWS if grows(*memory) else Change.MEMORY_SHRINKS
        restart = by_restart(container, "memory") or not memory[0]
        found.append(
            ResizeStep(
                container=container.name, instance=instance, change=change, resources=given, restart=restart
            )
        )
    cpu = (cpu_of(wanted), cpu_of(shown))
    if cpu[0] != cpu[1] and (not asked.cpu_shares or cpu[0] != cpu_of(asked)):
        given = Resources(
            cpu_shares=wanted.cpu_shares,
            cpu_period_us=wanted.cpu_period_us if wanted.cpu_quota_us else 0,
            cpu_quota_us=wanted.cpu_quota_us,
        )
        quotas = (wanted.cpu_quota_us, shown.cpu_quota_us)
        more = grows(*quotas) if quotas[0] != quotas[1] else wanted.cpu_shares > shown.cpu_shares
        change = Change.CPU_GROWS if more else Change.CPU_SHRINKS
        restart = by_restart(container, "cpu") or (not quotas[0] and bool(quotas[1]))
        found.append(
            ResizeStep(
                container=container.name, instance=instance, change=change, resources=given, restart=restart
            )
        )
    return tuple(found)


def grows(wanted: int, shown: int) -> bool:
    """Return whether a limit rises; 0 is unlimited."""
    return bool(shown) and (not wanted or wanted > shown)


def cpu_of(resources: Resources) -> tuple[int, int]:
    """Return CPU shares, where two are as good as none, and quota per period (us)."""
    return max(resources.cpu_shares, 2), max(resources.cpu_quota_us, 0)


def by_restart(container: v1.Container, resource: str) -> bool:
    """Return whether the resize policy of this resource is a restart."""
    return any(
        policy.resource_name == resource and policy.restart_policy == RESTARTS
        for policy in container.resize_policy
    )


def next_changes(due: tuple[ResizeStep, ...]) -> tuple[ResizeStep, ...]:
    """Return the changes to make side by side now: restarts, and updates of the first kind."""
    restarts = tuple(one for one in due if one.restart)
    updates = tuple(one for one in due if not one.restart)
    return (*restarts, *(one for one in updates if one.change is updates[0].change))


def can_restart(spec: v1.PodSpec, container: v1.Container) -> bool:
    """Return whether a container may be restarted for its resize."""
    return (container.restart_policy or spec.restart_policy or "Always") != "Never"


def update_call(state: PodState, due: ResizeStep) -> UpdateContainer:
    """Return the call that makes a change."""
    return UpdateContainer(uid=state.uid, container_id=due.instance.id, resources=due.resources)


def after_update(state: PodState, call: UpdateContainer) -> PodState:
    """Record what the runtime accepted: it may show rounded values, which must not repeat the update."""
    record = state.instance(call.container_id)
    taken = (record.taken or Resources()).updated(call.resources)
    return with_instance(state, call.container_id, msgspec.structs.replace(record, taken=taken))


def after_failed_update(state: PodState, call: UpdateContainer) -> PodState:
    """Forget what the runtime accepted before: the failed update may have taken effect."""
    record = state.instance(call.container_id)
    return with_instance(state, call.container_id, msgspec.structs.replace(record, taken=None))


def is_backing_off(state: PodState, now: Instant) -> bool:
    """Return whether in-place resizes are in back-off."""
    backoff = state.call_backoff(RESIZING)
    return backoff is not None and now < backoff.retry.at


def restarts_among(
    state: PodState, pod: v1.Pod, due: tuple[ResizeStep, ...], now: Instant
) -> tuple[Instance, ...]:
    """Return the running instances to restart for a resize that is not possible in place."""
    if is_backing_off(state, now):
        return ()
    by_name = {container.name: container for container in (*pod.spec.init_containers, *pod.spec.containers)}
    changes = (
        one
        for one in next_changes(due)
        if one.restart and one.instance.state is RuntimeContainerState.RUNNING
    )
    return tuple(
        {c.instance.id: c.instance for c in changes if can_restart(pod.spec, by_name[c.container])}.values()
    )


def resize_stage(state: PodState, due: tuple[ResizeStep, ...], now: Instant) -> Stage | None:
    """Return the stage that resizes running containers in place, None without a change or in back-off."""
    updates = () if is_backing_off(state, now) else tuple(one for one in next_changes(due) if not one.restart)
    if not updates:
        return None
    names = ", ".join(one.container for one in updates)
    return Stage(
        calls=tuple(runtime_call(state, update_call(state, one), one.container) for one in updates),
        why=f"resizing container {names} in place: {updates[0].change}",
    )


def resize_conditions(state: PodState, due: tuple[ResizeStep, ...]) -> tuple[PodCondition, ...]:
    """Return the conditions of the pod's resize; none when the pod terminates or has its resources."""
    pod = state.desired
    if pod is None or not isinstance(state.life, Syncing):
        return ()
    found = []
    if state.wanted.resize is not None:
        waits = state.wanted.resize
        found.append(PodCondition(type=PENDING, status="True", reason=waits.reason, message=waits.message))
    if due:
        backoff = state.call_backoff(RESIZING)
        stuck = backoff.message if backoff is not None else never_restarted(pod.spec, due)
        reason = "Error" if stuck else ""
        found.append(PodCondition(type=IN_PROGRESS, status="True", reason=reason, message=stuck))
    return tuple(found)


def resize_problems(state: PodState) -> tuple[str, ...]:
    """Return in words what keeps a pod's resize pending, with advice; nothing while it makes progress."""
    said = []
    if state.wanted.resize is not None:
        said += [
            f"resize {state.wanted.resize.reason}: {state.wanted.resize.message}",
            *state.wanted.resize.advice,
        ]
    said += [
        f"resize in progress: {one.message}"
        for one in state.base.conditions
        if one.type == IN_PROGRESS and one.message
    ]
    return tuple(said)


def never_restarted(spec: v1.PodSpec, due: tuple[ResizeStep, ...]) -> str:
    """Return in words which containers need a restart that their policy forbids, empty for none."""
    by_name = {container.name: container for container in (*spec.init_containers, *spec.containers)}
    stuck = (one.container for one in due if one.restart and not can_restart(spec, by_name[one.container]))
    names = ", ".join(sorted(set(stuck)))
    if not names:
        return ""
    return (
        f"container {names} must be restarted for the resize, which restartPolicy Never forbids;"
        " delete the pod and create it with the new resources"
    )


def with_resize_events(state: PodState, status: PodStatus, wall: WallNs) -> PodState:
    """Return the state with the events that follow from a new status: a resize waits, begins, or is done."""
    before = {one.type: one for one in state.base.conditions}
    after = {one.type: one for one in status.conditions}
    pending = after.get(PENDING)
    if pending is not None and (PENDING not in before or before[PENDING].reason != pending.reason):
        text = f"Pod resize {pending.reason}: {pending.message}"
        state = with_event(state, wall, "Warning", f"Resize{pending.reason}", text)
    if IN_PROGRESS in after and IN_PROGRESS not in before:
        state = with_event(state, wall, "Normal", "ResizeStarted", "Pod resize started")
    if IN_PROGRESS in before and IN_PROGRESS not in after and isinstance(state.life, Syncing):
        state = with_event(state, wall, "Normal", "ResizeCompleted", "Pod resize completed")
    return state
