"""What machine and runtime are, the images they hold and what they offer (specification 3.11, 3.12)."""

from msgspec.structs import replace

from api.kube.objects.node import (
    ContainerImage,
    Node,
    NodeFeatures,
    NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures,
    NodeSwapStatus,
    NodeSystemInfo,
)
from api.messages.node import NodeHealthSeen
from api.ports.images import ImageRow
from api.version import KUBELET_VERSION

NAMES_PER_IMAGE = 5
DECLARED = ("RestartAllContainersOnContainerExits",)
"""Features of pods that schedulers ask for by name and that work here, ascending."""


def with_info(node: Node, health: NodeHealthSeen) -> Node:
    """Return the Node with what the machine is and runs."""
    machine, runtime = health.machine, health.runtime
    name = runtime.name if runtime is not None else ""
    version = runtime.version if runtime is not None and health.is_answering else ""
    info = NodeSystemInfo(
        machine_id=machine.identity.machine_id,
        system_uuid=machine.identity.system_uuid,
        boot_id=machine.identity.boot_id,
        kernel_version=machine.identity.kernel_version,
        os_image=machine.identity.os_image,
        container_runtime_version=f"{name}://{version or 'Unknown'}",
        kubelet_version=KUBELET_VERSION,
        operating_system="linux",
        architecture=machine.identity.architecture,
        swap=NodeSwapStatus(capacity=machine.swap_bytes) if machine.swap_bytes else None,
    )
    return replace(node, status=replace(node.status, node_info=info))


def with_images(node: Node, rows: tuple[ImageRow, ...], most: int) -> Node:
    """Return the Node with the largest images, at most so many (-1: all)."""
    ordered = sorted(rows, key=lambda row: (row.size_bytes, row.id), reverse=True)
    kept = ordered if most < 0 else ordered[:most]
    images = tuple(ContainerImage(names=names_of(row), size_bytes=row.size_bytes) for row in kept)
    return replace(node, status=replace(node.status, images=images))


def names_of(row: ImageRow) -> tuple[str, ...]:
    """Return an image's digests, then its tags, the first few."""
    digests = tuple(name for name in row.names if "@" in name)
    tags = tuple(name for name in row.names if "@" not in name)
    return (*digests, *tags)[:NAMES_PER_IMAGE]


def with_features(node: Node, health: NodeHealthSeen) -> Node:
    """Return the Node with what runtime and agent offer; while the runtime has never answered, its part stays."""
    status = replace(node.status, declared_features=DECLARED)
    if health.runtime is not None:
        handlers = tuple(
            NodeRuntimeHandler(
                name=one.name,
                features=NodeRuntimeHandlerFeatures(
                    recursive_read_only_mounts=one.recursive_read_only_mounts,
                    user_namespaces=one.user_namespaces,
                ),
            )
            for one in sorted(health.runtime.handlers, key=lambda one: one.name)
        )
        features = NodeFeatures(supplemental_groups_policy=health.runtime.supplemental_groups_policy)
        status = replace(status, runtime_handlers=handlers, features=features)
    return replace(node, status=status)
