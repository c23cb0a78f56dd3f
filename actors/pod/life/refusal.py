"""A pod that was not admitted: it fails at once, with the reason (reference ``pod-lifecycle`` section 12).

Nothing is created for it. Its end is recorded and proven like any other, and its status has only phase, reason, message
and QoS class: no conditions, no containers. An invalid configuration of a container or sandbox is refused by an event.
"""

from msgspec.structs import replace

from actors.pod.life.event import with_event
from actors.pod.life.stage import Stage
from actors.pod.spec.identity import own_grace_s
from actors.pod.spec.problem import CONTAINER, SANDBOX
from actors.pod.state import Kill, PodState, Terminating
from actors.pod.status.history import status_named
from actors.pod.status.phase import TERMINAL
from actors.rules.resources.qos import qos_class
from api import paths
from api.ids import WallNs
from api.kube.objects.pod import Pod
from api.kube.objects.podstatus import HostIP, PodStatus
from api.messages.pod import KillCause, Refusal
from api.wallclock import rfc3339

NS = 1_000_000_000
REJECTED = "Pod was rejected: "


def rejected(state: PodState, refusal: Refusal, pod: Pod, wall: WallNs) -> PodState:
    """Return the state in which a pod that is not admitted terminates."""
    grace_s = own_grace_s(pod) or 1
    kill = Kill(
        cause=KillCause.REJECTED,
        grace_s=grace_s,
        asked_at=wall,
        stop_by=wall + grace_s * NS,
        asked_by=paths.PODS,
        reason=refusal.reason,
        message=REJECTED + refusal.message,
    )
    state = with_event(state, wall, "Warning", refusal.reason, refusal.message)
    return replace(state, life=Terminating(kill=kill))


def is_rejected(state: PodState) -> bool:
    """Return whether the pod was not admitted, now or by an earlier life of the agent."""
    kill = state.killed
    return kill.cause is KillCause.REJECTED if kill is not None else state.wanted.refusal is not None


def has_containers(state: PodState) -> bool:
    """Return whether the runtime shows containers of the pod: then it was admitted once."""
    return state.observed is not None and bool(state.observed.containers)


def rejected_status(state: PodState, pod: Pod, wall: WallNs, *, over: bool) -> PodStatus:
    """Return the status of a pod that was not admitted; `over`: it is proven that nothing of it runs."""
    base, kill = state.base, state.killed
    if not over or kill is None or base.phase in TERMINAL:
        return base
    return PodStatus(
        phase="Failed",
        reason=kill.reason,
        message=kill.message,
        host_ip=state.settings.node_ip,
        host_ips=(HostIP(ip=state.settings.node_ip),) if state.settings.node_ip else (),
        qos_class=qos_class(pod.spec),
        start_time=base.start_time or rfc3339(wall),
        observed_generation=max(pod.metadata.generation, base.observed_generation),
    )


def with_refusals(state: PodState, stage: Stage, wall: WallNs) -> PodState:
    """Return the state with one event for each invalid configuration that the stage found."""
    for name, reason, message in stage.waiting:
        old = status_named(state.base, name)
        known = old.state.waiting if old is not None else None
        if reason == CONTAINER and (known is None or (known.reason, known.message) != (reason, message)):
            state = with_event(state, wall, "Warning", "Failed", f"Error: {message}", name)
    if stage.pod_reason == SANDBOX and state.base.message != stage.pod_message:
        text = f"Failed to create pod sandbox: {stage.pod_message}"
        state = with_event(state, wall, "Warning", "FailedCreatePodSandBox", text)
    return state


def what_next(refusal: Refusal, source: str) -> str:
    """Return in words what to do about a pod that was not admitted."""
    if source in ("file", "http"):
        return (
            f"a changed manifest: a pod that was rejected ({refusal.reason}) is not retried; make room or fix the"
            " manifest; the changed pod is admitted again (one with a fixed UID must be removed first)"
        )
    return f"its removal: a pod that was rejected ({refusal.reason}) is not retried"
