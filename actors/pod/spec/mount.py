"""Mounts, ports and devices of a container: volumes, the hosts file, the file of its termination message.

Reference ``runtime-cri`` sections 4.2, 5.3, 5.11 and 10.3, ``volumes`` section 19.
"""

import posixpath

import msgspec

from actors.pod.spec.problem import refuse
from api.kube.objects.container import Container, EphemeralContainer, VolumeMount
from api.kube.objects.pod import Pod
from api.ports.confinement import Device, Mount, MountPropagation, PortMapping, Protocol
from api.ports.node import NodeFacts
from api.ports.podfiles import ending_path, hosts_path
from api.ports.runtime import RuntimeHandler

HOSTS = "/etc/hosts"
PROPAGATION = {
    "": MountPropagation.PRIVATE,
    "None": MountPropagation.PRIVATE,
    "HostToContainer": MountPropagation.HOST_TO_CONTAINER,
    "Bidirectional": MountPropagation.BIDIRECTIONAL,
}

AnyContainer = Container | EphemeralContainer


class VolumePath(msgspec.Struct, frozen=True, kw_only=True):
    """Where a volume of the pod is on the host: a folder or file, or the device of a block volume."""

    volume: str
    host_path: str
    read_only: bool = False
    relabel: bool = False
    """Whether its files take the container's SELinux label."""


class SubPath(msgspec.Struct, frozen=True, kw_only=True):
    """Where the part of a volume is bound that one mount of a container asks for."""

    index: int
    host_path: str


def clean(path: str) -> str:
    """Return an absolute path without dots and doubled or trailing slashes."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def mounts(
    pod: Pod,
    container: AnyContainer,
    attempt: int,
    node: NodeFacts,
    ips: tuple[str, ...],
    volumes: tuple[VolumePath, ...],
    sub_paths: tuple[SubPath, ...],
    handler: str,
) -> tuple[Mount, ...]:
    """Return volumes in spec order, then the hosts file, then the file of the termination message."""
    uid = pod.metadata.uid
    found = list(volume_mounts(container, node, volumes, sub_paths, handler))
    if manages_hosts(pod, container, ips):
        found.append(
            Mount(
                container_path=HOSTS,
                host_path=hosts_path(node.root_dir, uid),
                selinux_relabel=node.selinux,
            )
        )
    if container.termination_message_path:
        found.append(
            Mount(
                container_path=clean(container.termination_message_path),
                host_path=ending_path(node.root_dir, uid, container.name, attempt),
                selinux_relabel=node.selinux,
            )
        )
    return tuple(found)


def volume_mounts(
    container: AnyContainer,
    node: NodeFacts,
    volumes: tuple[VolumePath, ...],
    sub_paths: tuple[SubPath, ...],
    handler: str,
) -> tuple[Mount, ...]:
    """Return the volumes of a container in the order of the spec. Raises `Unfit`."""
    offered = node.handler(handler)
    return tuple(
        msgspec.structs.replace(
            volume_mount(mount, container.name, volumes, offered, node),
            host_path=source_of(mount, index, container.name, volumes, sub_paths),
        )
        for index, mount in enumerate(container.volume_mounts)
    )


def manages_hosts(pod: Pod, container: AnyContainer, ips: tuple[str, ...]) -> bool:
    """Return whether we write the container's hosts file: the addresses are known and it mounts none of its own."""
    brings = any(clean(mount.mount_path) == HOSTS for mount in container.volume_mounts)
    return (bool(ips) or pod.spec.host_network) and not brings


def volume_mount(
    mount: VolumeMount,
    container: str,
    volumes: tuple[VolumePath, ...],
    offered: RuntimeHandler | None,
    node: NodeFacts,
) -> Mount:
    """Return the mount of one volume. Raises `Unfit` when it is not ready, or cannot be mounted as specified."""
    volume = ready_volume(volumes, mount.name, f'mount into container "{container}"')
    if mount.mount_propagation not in PROPAGATION:
        refuse(f'volumeMount "{mount.name}" has an unknown mountPropagation "{mount.mount_propagation}"')
    return Mount(
        container_path=mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}",
        host_path=volume.host_path,
        read_only=mount.read_only or volume.read_only,
        recursive_read_only=recursive_read_only(mount, offered),
        propagation=PROPAGATION[mount.mount_propagation],
        selinux_relabel=node.selinux and volume.relabel,
    )


def source_of(
    mount: VolumeMount,
    index: int,
    container: str,
    volumes: tuple[VolumePath, ...],
    sub_paths: tuple[SubPath, ...],
) -> str:
    """Return the host path of a mount: the volume, or its prepared subPath. Raises `Unfit`."""
    if not (mount.sub_path or mount.sub_path_expr):
        return ready_volume(volumes, mount.name, f'mount into container "{container}"').host_path
    bound = next((one.host_path for one in sub_paths if one.index == index), None)
    return bound or refuse(sub_path_error(mount.name, container))


def sub_path_error(volume: str, container: str) -> str:
    """Return the error of a subPath that cannot be prepared, without paths of the host, which a pod must not see."""
    return f'failed to prepare subPath for volumeMount "{volume}" of container "{container}"'


def recursive_read_only(mount: VolumeMount, offered: RuntimeHandler | None) -> bool:
    """Return whether a mount is recursively read-only. Only ``IfPossible`` works without the runtime's support."""
    mode = mount.recursive_read_only
    if mode in ("", "Disabled"):
        return False
    failed = "failed to resolve recursive read-only mode: "
    what = f'{failed}volume "{mount.name}" requested recursive read-only mode, but it is not'
    if mode not in ("IfPossible", "Enabled"):
        refuse(f'{failed}unknown recursive read-only mode "{mode}"')
    if not mount.read_only:
        refuse(f"{what} read-only")
    if mount.mount_propagation not in ("", "None"):
        refuse(f'{what} compatible with propagation "{mount.mount_propagation}"')
    supported = offered is not None and offered.recursive_read_only_mounts
    if mode == "Enabled" and not supported:
        refuse(f"{what} supported by the runtime")
    return supported


def devices(container: AnyContainer, volumes: tuple[VolumePath, ...]) -> tuple[Device, ...]:
    """Return the block volumes of a container as devices."""
    found = []
    for device in container.volume_devices:
        volume = ready_volume(volumes, device.name, f'map into container "{container.name}"')
        permissions = "r" if volume.read_only else "mrw"
        found.append(
            Device(container_path=device.device_path, host_path=volume.host_path, permissions=permissions)
        )
    return tuple(found)


def ready_volume(volumes: tuple[VolumePath, ...], name: str, purpose: str) -> VolumePath:
    """Return a volume that is ready. Raises `Unfit` when there is none of this name."""
    for volume in volumes:
        if volume.volume == name:
            return volume
    return refuse(f'cannot find volume "{name}" to {purpose}')


def port_mappings(pod: Pod) -> tuple[PortMapping, ...]:
    """Return the ports of the regular containers; of equal ones within one container the first."""
    found = []
    for container in pod.spec.containers:
        seen = set()
        for port in container.ports:
            family = ("v6" if ":" in port.host_ip else "v4") if port.host_ip else "any"
            key = port.name or (family, port.protocol, port.host_ip, port.container_port, port.host_port)
            if key in seen:
                continue
            seen.add(key)
            found.append(
                PortMapping(
                    protocol=Protocol(port.protocol or "TCP"),
                    container_port=port.container_port,
                    host_port=port.host_port,
                    host_ip=port.host_ip,
                )
            )
    return tuple(found)
