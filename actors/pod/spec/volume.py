"""Plans of a pod's volumes, and the subPaths that a container mounts.

Reference ``volumes`` sections 3, 10, 11, 17 and 18, ``runtime-cri`` section 5.3.
"""

from actors.pod.spec.environment import REFERENCE
from actors.pod.spec.mount import VolumePath
from actors.pod.spec.problem import refuse
from actors.rules.resources.request import pod_total
from api.ids import Uid
from api.kube.objects.container import Container, EphemeralContainer, VolumeMount
from api.kube.objects.pod import Pod, PodSecurityContext
from api.kube.objects.volume import EmptyDirVolumeSource, Volume
from api.kube.quantity import ZERO, parse
from api.ports.node import NodeFacts
from api.ports.volumes import EmptyDir, HostPath, Medium, PrepareSubPath, VolumePlan

PROPAGATING = ("HostToContainer", "Bidirectional")


def has_volumes(pod: Pod) -> bool:
    """Return whether a container of the pod mounts a volume. A volume that none mounts is not prepared."""
    return bool(pod.spec.volumes) and any(
        one.volume_mounts or one.volume_devices for one in containers_of(pod)
    )


def containers_of(pod: Pod) -> tuple[Container | EphemeralContainer, ...]:
    """Return all containers of a pod."""
    spec = pod.spec
    return (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)


def volume_plans(pod: Pod, node: NodeFacts) -> tuple[tuple[str, VolumePlan], ...]:
    """Return name and plan of each volume that a container refers to, in the order of the spec."""
    if not has_volumes(pod):
        return ()
    containers = containers_of(pod)
    mounts = [mount for one in containers for mount in one.volume_mounts]
    wanted = {mount.name for mount in mounts} | {dev.name for one in containers for dev in one.volume_devices}
    found: list[tuple[str, VolumePlan]] = []
    for volume in pod.spec.volumes:
        plan = plan_of(pod, volume, mounts, node) if volume.name in wanted else None
        if plan is not None:
            found.append((volume.name, plan))
    return tuple(found)


def plan_of(pod: Pod, volume: Volume, mounts: list[VolumeMount], node: NodeFacts) -> VolumePlan | None:
    """Return the plan of one volume, None for an unsupported kind."""
    if volume.empty_dir is not None:
        context = pod.spec.security_context or PodSecurityContext()
        shared = any(mount.name == volume.name and mount.mount_propagation in PROPAGATING for mount in mounts)
        medium = Medium(volume.empty_dir.medium)
        size = memory_size(pod, volume.empty_dir, node) if medium is Medium.MEMORY else 0
        return EmptyDir(medium=medium, size_bytes=size, group=context.fs_group, shared=shared)
    if volume.host_path is not None:
        return HostPath(path=volume.host_path.path, kind=volume.host_path.type)
    return None


def memory_size(pod: Pod, source: EmptyDirVolumeSource, node: NodeFacts) -> int:
    """Return the size of a file system in memory: the minimum of node allocatable, the pod's memory limit and its own.

    A limit of 0 is none: written data still counts as memory of the container that writes it.
    """
    limits = [node.allocatable_memory_bytes, pod_memory_limit(pod)]
    if source.size_limit:
        limits.append(parse(source.size_limit).value())
    return min((limit for limit in limits if limit > 0), default=0)


def pod_memory_limit(pod: Pod) -> int:
    """Return the memory limit of the pod in bytes, 0 for none: one of its containers has no limit."""
    spec = pod.spec
    whole = spec.resources is not None and "memory" in spec.resources.limits
    containers = (*spec.containers, *spec.init_containers)
    if not whole and any(parse(one.resources.limits.get("memory", "0")) <= ZERO for one in containers):
        return 0
    return pod_total(spec, "limits").get("memory", ZERO).value()


def volume_path(name: str, plan: VolumePlan, host_path: str) -> VolumePath:
    """Return the mount source of a ready volume: none of these kinds is read-only by itself."""
    return VolumePath(volume=name, host_path=host_path, relabel=isinstance(plan, EmptyDir))


def sub_path_of(mount: VolumeMount, values: dict[str, str]) -> str:
    """Return the subPath of a mount, empty for the whole volume. Raises `Unfit`."""
    path = mount.sub_path
    if mount.sub_path_expr:
        path = expanded(mount.sub_path_expr, values)
    if path.startswith("/"):
        refuse(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        refuse(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def expanded(text: str, values: dict[str, str]) -> str:
    """Replace references to the container's variables, each of which must have a value. Raises `Unfit`."""
    names = {match[2] for match in REFERENCE.finditer(text) if match[2] is not None}
    missing = sorted(name for name in names if not values.get(name))
    if missing:
        refuse(f"missing value for {', '.join(missing)}")
    return REFERENCE.sub(lambda match: "$" if match[2] is None else values[match[2]], text)


def sub_path_calls(
    pod: Pod,
    container: Container | EphemeralContainer,
    attempt: int,
    values: dict[str, str],
    volumes: tuple[VolumePath, ...],
) -> tuple[PrepareSubPath, ...]:
    """Return the calls that prepare the subPaths of a container. Raises `Unfit`."""
    found = []
    paths = {volume.volume: volume.host_path for volume in volumes}
    for index, mount in enumerate(container.volume_mounts):
        path = sub_path_of(mount, values) if mount.sub_path or mount.sub_path_expr else ""
        if not path:
            continue
        if mount.name not in paths:
            refuse(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
        found.append(
            PrepareSubPath(
                uid=Uid(pod.metadata.uid),
                volume=mount.name,
                host_path=paths[mount.name],
                sub_path=path,
                container=container.name,
                attempt=attempt,
                index=index,
            )
        )
    return tuple(found)
