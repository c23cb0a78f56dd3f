"""Fields of a container's status beside its state: resources, ids, mounts (reference ``pod-lifecycle`` 10.1 step 8)."""

from collections.abc import Mapping

import msgspec

from actors.pod.spec.mount import recursive_read_only
from actors.pod.spec.problem import Unfit
from actors.rules.resources.request import added, amounts, pod_total
from api.kube.objects.container import Container, EphemeralContainer, ResourceRequirements, VolumeMount
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.podstatus import ContainerUser, LinuxContainerUser, VolumeMountStatus
from api.kube.quantity import NANO, Amount, ceil_div, parse
from api.ports.confinement import Resources
from api.ports.node import NodeFacts
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState

SHARES_PER_CPU = 1024
LEAST_SHARES = 2
"""What a runtime shows for no request or a very small one."""
LEAST_LIMIT_MILLI = 10
"""A smaller limit looks like this one: the kernel's quota has a minimum."""
MILLI = NANO // 1000

AnyContainer = Container | EphemeralContainer


def user_of(instance: Instance) -> ContainerUser | None:
    """Return the user of a container, None when the runtime does not show it."""
    ids = instance.ids
    if ids is None:
        return None
    return ContainerUser(
        linux=LinuxContainerUser(uid=ids.user, gid=ids.group, supplemental_groups=ids.groups)
    )


def resources_of(container: AnyContainer, instance: Instance) -> ResourceRequirements:
    """Return the resources of a container: as specified, with what the runtime shows of a running one."""
    granted = container.resources
    told = instance.resources
    if told is None or instance.state is not RuntimeContainerState.RUNNING:
        return granted
    return msgspec.structs.replace(
        granted, limits=limits_shown(granted.limits, told), requests=requests_shown(granted.requests, told)
    )


def pod_resources(spec: PodSpec) -> ResourceRequirements | None:
    """Return what the pod as a whole was allocated, None for nothing."""
    limits, requests = pod_amounts(spec, "limits"), pod_amounts(spec, "requests")
    return ResourceRequirements(limits=limits, requests=requests) if limits or requests else None


def pod_amounts(spec: PodSpec, which: str) -> dict[str, str]:
    """Return the sum of ``requests`` or ``limits`` with the pod's overhead, which limits nothing that has no limit."""
    total, overhead = pod_total(spec, which), amounts(spec.overhead)
    if which == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return {name: str(amount) for name, amount in sorted(added(total, overhead).items())}


def limits_shown(granted: Mapping[str, str], told: Resources) -> dict[str, str]:
    """Return the limits, with CPU and memory as the runtime shows them."""
    limits = dict(granted)
    period = told.cpu_period_us
    milli = told.cpu_quota_us * 1000 // period if period and told.cpu_quota_us > 0 else 0
    if "cpu" in limits and milli > LEAST_LIMIT_MILLI:
        limits["cpu"] = written(limits["cpu"], Amount(milli * MILLI))
    if "memory" in limits and told.memory_limit_bytes > 0:
        limits["memory"] = written(limits["memory"], Amount(told.memory_limit_bytes * NANO))
    return limits


def requests_shown(granted: Mapping[str, str], told: Resources) -> dict[str, str]:
    """Return the requests, with CPU as the runtime shows it; a runtime does not know memory requests."""
    requests = dict(granted)
    if "cpu" in requests and told.cpu_shares > LEAST_SHARES:
        milli = ceil_div(told.cpu_shares * 1000, SHARES_PER_CPU)
        requests["cpu"] = written(requests["cpu"], Amount(milli * MILLI))
    return requests


def written(granted: str, told: Amount) -> str:
    """Return an amount as it was specified where the runtime shows the same, else the shown one."""
    return granted if parse(granted) == told else str(told)


def mounts_of(pod: Pod, container: AnyContainer, node: NodeFacts) -> tuple[VolumeMountStatus, ...]:
    """Return how the volumes of a container are mounted."""
    return tuple(
        VolumeMountStatus(
            name=mount.name,
            mount_path=mount.mount_path,
            read_only=mount.read_only,
            recursive_read_only=recursion_of(pod, mount, node) if mount.read_only else "",
        )
        for mount in container.volume_mounts
    )


def recursion_of(pod: Pod, mount: VolumeMount, node: NodeFacts) -> str:
    """Return the recursive read-only mode of a read-only mount."""
    try:
        return (
            "Enabled" if recursive_read_only(mount, node.handler(pod.spec.runtime_class_name)) else "Disabled"
        )
    except Unfit:
        return "Disabled"
