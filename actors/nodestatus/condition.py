"""The conditions of a node's status (specification 3.9, 3.10): our own four; those of others stay what and where they are."""

from msgspec.structs import replace

from actors.nodestatus.state import StatusEvent
from api import duration
from api.eviction import Pressure
from api.ids import Instant
from api.kube.objects.node import Node, NodeCondition
from api.messages.node import NodeHealthSeen
from api.messages.nodestatus import PlegHealthSeen
from api.ports.runtime import RuntimeInfo
from api.shortening import shortened

DOWN_AFTER_S = 30.0
PLEG_LIMIT = "3m0s"
TEXT_LIMIT = 1024
"""Characters of what a runtime says of itself."""
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
READY = "Ready"
REQUIRED = ("cpu", "memory", "pods", "ephemeral-storage")

TEXTS: dict[tuple[Pressure, str], tuple[str, str, str]] = {
    (Pressure.MEMORY, TRUE): (
        "KubeletHasInsufficientMemory",
        "kubelet has insufficient memory available",
        "NodeHasInsufficientMemory",
    ),
    (Pressure.MEMORY, FALSE): (
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
        "NodeHasSufficientMemory",
    ),
    (Pressure.DISK, TRUE): ("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"),
    (Pressure.DISK, FALSE): (
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
        "NodeHasNoDiskPressure",
    ),
    (Pressure.PID, TRUE): (
        "KubeletHasInsufficientPID",
        "kubelet has insufficient PID available",
        "NodeHasInsufficientPID",
    ),
    (Pressure.PID, FALSE): (
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
        "NodeHasSufficientPID",
    ),
}
"""By condition and status: reason, message and event."""


def status_event(node_name: str, reason: str) -> StatusEvent:
    """Return the event of a node whose status is now this."""
    return StatusEvent(reason=reason, message=f"Node {node_name} status is now: {reason}")


def condition_of(node: Node, kind: str) -> NodeCondition | None:
    """Return the condition of this type, None where the Node has none."""
    return next((one for one in node.status.conditions if one.type == kind), None)


def with_condition(node: Node, condition: NodeCondition) -> Node:
    """Return the Node with this condition in the place of the one of its type, else at the end."""
    known = node.status.conditions
    if condition_of(node, condition.type) is None:
        conditions = (*known, condition)
    else:
        conditions = tuple(condition if one.type == condition.type else one for one in known)
    return replace(node, status=replace(node.status, conditions=conditions))


def with_pressure(
    node: Node, kind: Pressure, pressures: tuple[Pressure, ...], at: str
) -> tuple[Node, tuple[StatusEvent, ...]]:
    """Return the Node with the condition of one pressure, and the event of a change. `at` is now, as Kubernetes writes it."""
    status = TRUE if kind in pressures else FALSE
    known = condition_of(node, kind)
    if known is not None and known.status == status:
        return with_condition(node, replace(known, last_heartbeat_time=at)), ()
    reason, message, event = TEXTS[kind, status]
    condition = NodeCondition(
        type=kind.value,
        status=status,
        reason=reason,
        message=message,
        last_heartbeat_time=at,
        last_transition_time=at,
    )
    return with_condition(node, condition), (status_event(node.metadata.name, event),)


def with_ready(
    node: Node, health: NodeHealthSeen, pleg: PlegHealthSeen | None, now: Instant, at: str
) -> tuple[Node, tuple[StatusEvent, ...]]:
    """Return the Node with its condition Ready, and the event of a change."""
    why = why_not_ready(node, health, pleg, now)
    status = FALSE if why else TRUE
    known = condition_of(node, READY)
    is_same = known is not None and known.status == status
    condition = NodeCondition(
        type=READY,
        status=status,
        reason="KubeletNotReady" if why else "KubeletReady",
        message=why or "kubelet is posting ready status",
        last_heartbeat_time=at,
        last_transition_time=known.last_transition_time if known is not None and is_same else at,
    )
    event = "NodeNotReady" if why else "NodeReady"
    status_events = () if known is None or is_same else (status_event(node.metadata.name, event),)
    return with_condition(node, condition), status_events


def why_not_ready(node: Node, health: NodeHealthSeen, pleg: PlegHealthSeen | None, now: Instant) -> str:
    """Return every reason for which the node is not ready, as a kubelet words them; empty if it is ready."""
    found = [*runtime_errors(health, now), *pleg_errors(pleg, now)]
    runtime = health.runtime
    if runtime is not None and not runtime.ready:
        found.append(f"container runtime not ready: {said(runtime, 'RuntimeReady', runtime.ready_condition)}")
    if runtime is None:
        found.append("network state unknown")
    elif not runtime.network_ready:
        text = said(runtime, "NetworkReady", runtime.network_condition)
        found.append(f"container runtime network not ready: {text}")
    missing = [name for name in REQUIRED if name not in node.status.capacity]
    if missing:
        found.append(f"missing node capacity for resources: {', '.join(missing)}")
    unique = list(dict.fromkeys(found))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]" if unique else ""


def runtime_errors(health: NodeHealthSeen, now: Instant) -> tuple[str, ...]:
    """Return whether the runtime has been ready lately."""
    if health.ready_until is None or now < health.ready_until + DOWN_AFTER_S:
        return ()
    if health.ready_until == float("-inf"):
        return ("container runtime status check may not have completed yet",)
    return ("container runtime is down",)


def pleg_errors(pleg: PlegHealthSeen | None, now: Instant) -> tuple[str, ...]:
    """Return whether the runtime's pods have been listed lately."""
    if pleg is not None and pleg.is_healthy:
        return ()
    if pleg is None or pleg.listed_at is None:
        return ("PLEG is not healthy: pleg has yet to be successful",)
    ago = duration.write(int(now - pleg.listed_at) * duration.SECOND)
    return (f"PLEG is not healthy: pleg was last seen active {ago} ago; threshold is {PLEG_LIMIT}",)


def said(runtime: RuntimeInfo, kind: str, condition: str) -> str:
    """Return a condition of the runtime; one that has none says it in its own words."""
    return shortened(condition or f"{kind}=false reason: message:{runtime.detail}", TEXT_LIMIT)
