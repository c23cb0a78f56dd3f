"""A pod's own cgroup: created before its sandbox, kept at its first path, left when the node's cgroups are moved.

Reference ``node`` sections 9.1 to 9.4, ``pod-lifecycle`` 5.1 step 6.
"""

from msgspec.structs import replace

from actors.pod.cgroup.resize import ResizeStep
from actors.pod.life.event import with_event
from actors.pod.life.stage import Stage, host_call
from actors.pod.spec.cgroup import asked_milli, pod_limits, possible_parents, widest
from actors.pod.state import (
    LIMITING,
    CallBackoff,
    Finished,
    PodState,
    PortCall,
    Recalling,
    Syncing,
    Terminating,
    change_setup,
    with_call_backoff,
    without_call_backoff,
)
from actors.rules.resources.qos import qos_class
from actors.rules.retry import Retry, RetryPolicy
from api import paths
from api.ids import Instant, WallNs
from api.kube.objects.pod import Pod
from api.lifecycle import Action, Tell
from api.messages.cgroups import PodCpuAsked
from api.messages.kernel import KernelMessage, Restarted
from api.messages.pod import PodMessage, UpdatePod
from api.ports.cgroups import CgroupLimits, EnsurePodCgroup, PodCgroupMade, RemovePodCgroup
from api.ports.runtime import SandboxSpec

LIMITS_RETRY = RetryPolicy(base_s=10.0, limit_s=300.0)
"""Of limits that the kernel refused."""


def is_grouped(state: PodState, due: tuple[ResizeStep, ...]) -> bool:
    """Return whether this incarnation gave the pod's cgroup its limits, or the pod has none."""
    if state.desired is None or not state.node.pod_cgroups:
        return True
    if state.setup.grouped != state.memo.cgroup_parent:
        return False
    return state.setup.granted_to is state.desired or state.setup.granted == limits_due(
        state, state.desired, due
    )


def limits_due(state: PodState, pod: Pod, due: tuple[ResizeStep, ...]) -> CgroupLimits:
    """Return the limits that the pod's cgroup must have now.

    During a resize of its containers it is the wider of old and new: a pod grows before its containers and shrinks after
    them (reference ``runtime-cri`` section 6.8).
    """
    wanted = pod_limits(pod, state.node)
    if state.setup.granted is None or not due:
        return wanted
    return widest(state.setup.granted, wanted)


def group_calls(state: PodState, due: tuple[ResizeStep, ...]) -> tuple[PortCall, ...]:
    """Return the calls that create the pod's cgroup and remove its former one; none where that is done."""
    if state.desired is None or is_grouped(state, due):
        return ()
    ensure = EnsurePodCgroup(
        cgroup_parent=state.memo.cgroup_parent,
        driver=state.node.cgroup_driver,
        limits=limits_due(state, state.desired, due),
    )
    old = former_group(state)
    if not old:
        return (host_call("cgroups", ensure),)
    return (host_call("cgroups", RemovePodCgroup(cgroup_parent=old)), host_call("cgroups", ensure))


def former_group(state: PodState) -> str:
    """Return the pod's cgroup before the node's cgroups were moved, empty for none."""
    before = state.remembered.cgroup_parent if state.remembered is not None else ""
    return before if before and before != state.memo.cgroup_parent else ""


def groups_to_remove(state: PodState) -> tuple[PortCall, ...]:
    """Return the calls that remove the pod's cgroup; where its path is unknown, every possible one."""
    if state.memo.cgroup_parent:
        paths: tuple[str, ...] = (state.memo.cgroup_parent,)
    else:
        paths = possible_parents(state.uid, state.node) if state.node.pod_cgroups else ()
    return tuple(host_call("cgroups", RemovePodCgroup(cgroup_parent=path)) for path in paths)


def ungrouped(state: PodState, parent: str) -> PodState:
    """Absorb the removal of an ended pod's cgroup: its own, or the last of the possible ones."""
    if not isinstance(state.life, Finished):
        return state
    own = state.memo.cgroup_parent
    gone = parent == own if own else not state.calls.inflight and state.call_backoff("") is None
    return replace(state, life=replace(state.life, ungrouped=gone))


def in_group(spec: SandboxSpec, state: PodState) -> SandboxSpec:
    """Return the sandbox in the pod's cgroup."""
    parent = state.memo.cgroup_parent
    return replace(spec, cgroup_parent=parent) if parent else spec


def grouped(
    state: PodState, call: EnsurePodCgroup, made: PodCgroupMade, now: Instant, wall: WallNs
) -> PodState:
    """Absorb the creation of the pod's cgroup: limits that the kernel refused get an event and are retried.

    For example a memory limit below the usage is refused on cgroup v1. Where cgroups are not writable the node reports it
    once, not each pod.
    """
    for text in made.unapplied:
        state = with_event(state, wall, "Warning", "FailedPodCgroupLimit", text)
    state = with_limits_backoff(state, made.unapplied, now)
    pod = state.desired
    exact = pod is not None and call.limits == pod_limits(pod, state.node)
    granted_to = pod if exact else None
    return change_setup(state, grouped=call.cgroup_parent, granted=call.limits, granted_to=granted_to)


def with_limits_backoff(state: PodState, unapplied: tuple[str, ...], now: Instant) -> PodState:
    """Return the state with a back-off for limits that the kernel refused, without one when it refused none."""
    before = state.call_backoff(LIMITING)
    if not unapplied:
        return without_call_backoff(state, LIMITING)
    backoff = CallBackoff(
        container=LIMITING,
        call=EnsurePodCgroup.__name__,
        since=before.since if before is not None else now,
        retry=(before.retry if before is not None else Retry()).after(now, LIMITS_RETRY),
        reason="",
        message="; ".join(unapplied),
    )
    return with_call_backoff(state, backoff)


def retry_limits(state: PodState, pod: Pod, due: tuple[ResizeStep, ...], now: Instant) -> Stage | None:
    """Return the stage that retries limits that the kernel refused, None without any or in back-off."""
    backoff = state.call_backoff(LIMITING)
    if backoff is None or now < backoff.retry.at:
        return None
    ensure = EnsurePodCgroup(
        cgroup_parent=state.memo.cgroup_parent,
        driver=state.node.cgroup_driver,
        limits=limits_due(state, pod, due),
    )
    return Stage(calls=(host_call("cgroups", ensure),), why="retrying cgroup limits that the kernel refused")


def cpu_messages(
    before: PodState, after: PodState, message: PodMessage | KernelMessage | None
) -> tuple[Action, ...]:
    """Return the message with the CPU that the pod requests: after a change, and again when it may be lost."""
    again = isinstance(message, UpdatePod) or (
        isinstance(message, Restarted) and message.path == paths.CGROUPS
    )
    if not again and before.desired is after.desired and type(before.life) is type(after.life):
        return ()
    milli = burstable_milli(after)
    if milli == burstable_milli(before) and not (again and milli):
        return ()
    return (Tell(to=paths.CGROUPS, message=PodCpuAsked(uid=after.uid, milli=milli)),)


def burstable_milli(state: PodState) -> int:
    """Return the CPU request of a Burstable pod that may run, in thousandths; 0 for any other."""
    if state.desired is None or not isinstance(state.life, Recalling | Syncing | Terminating):
        return 0
    spec = state.desired.spec
    return asked_milli(spec) if qos_class(spec) == "Burstable" else 0
