"""A new status for the Node: every part set in a kubelet's order (specification 3.3, 3.5)."""

import msgspec
from msgspec.structs import replace

from actors.nodestatus.address import with_addresses
from actors.nodestatus.capacity import with_capacity
from actors.nodestatus.condition import with_pressure, with_ready
from actors.nodestatus.info import with_features, with_images, with_info
from actors.nodestatus.state import Composed, NodeStatusState, StatusEvent
from api.eviction import Pressure
from api.ids import Instant, WallNs
from api.kube.objects.node import Node, NodeStatus
from api.kube.objects.strmap import StrMap
from api.messages.node import NodeHealthSeen
from api.wallclock import rfc3339


def composed(
    state: NodeStatusState, health: NodeHealthSeen, original: Node, now: Instant, wall: WallNs
) -> Composed:
    """Return the Node with the status that follows from what is known, and what has happened to it."""
    settings, at = state.settings, rfc3339(wall)
    node = with_platform(original, health)
    node, trouble = with_addresses(node, settings, health.machine)
    node = with_features(
        with_images(
            with_info(with_capacity(node, health.machine), health), state.images.rows, settings.max_images
        ),
        health,
    )
    status_events: tuple[StatusEvent, ...] = ()
    for kind in (Pressure.MEMORY, Pressure.DISK, Pressure.PID):
        node, more = with_pressure(node, kind, state.pressures, at)
        status_events += more
    node, more = with_ready(node, health, state.pleg, now, at)
    before, after = original.status.node_info.boot_id, node.status.node_info.boot_id
    if before and after and before != after and not state.is_reboot_reported:
        text = f"Node {settings.node_name} has been rebooted, boot id: {after}"
        status_events += (StatusEvent(type="Warning", reason="Rebooted", message=text),)
    return Composed(
        original=original,
        node=node,
        status_events=(*status_events, *more),
        troubles=tuple(text for text in (trouble, state.images.trouble) if text),
        is_changed=original.metadata != node.metadata or compared(original.status) != compared(node.status),
    )


def with_platform(node: Node, health: NodeHealthSeen) -> Node:
    """Return the Node with the labels of system and architecture, which nobody may change."""
    architecture = health.machine.identity.architecture
    forced = {"kubernetes.io/os": "linux"} | ({"kubernetes.io/arch": architecture} if architecture else {})
    labels = StrMap({**node.metadata.labels, **forced})
    return node if labels == node.metadata.labels else with_labels(node, labels)


def with_labels(node: Node, labels: StrMap) -> Node:
    """Return the Node with these labels."""
    return replace(node, metadata=replace(node.metadata, labels=labels))


def compared(status: NodeStatus) -> msgspec.Struct:
    """Return a status without what differs although nothing has changed: order of conditions, times of heartbeats."""
    conditions = sorted(status.conditions, key=lambda one: one.type)
    return replace(status, conditions=tuple(replace(one, last_heartbeat_time=None) for one in conditions))
