"""What became of a pod: its conditions and the state of each container, as published to Kubernetes."""

from collections.abc import Mapping

import msgspec

from api.kube.objects.container import ResourceRequirements
from api.kube.objects.strmap import NO_ENTRIES, freeze_maps
from api.kube.objects.wiretype import ApiObject, Quantity, Time


class PodCondition(ApiObject, frozen=True, kw_only=True):
    """One yes, no or unknown about a pod, and since when."""

    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str = ""
    observed_generation: int = 0
    reason: str = ""
    status: str = msgspec.field(default_factory=str)
    type: str = msgspec.field(default_factory=str)


class ResourceHealth(ApiObject, frozen=True, kw_only=True):
    """Health of one device."""

    health: str = ""
    message: str = ""
    resource_id: str = msgspec.field(name="resourceID", default_factory=str)


class ResourceStatus(ApiObject, frozen=True, kw_only=True):
    """Health of the devices behind one resource of a container."""

    name: str = msgspec.field(default_factory=str)
    resources: tuple[ResourceHealth, ...] = ()


class ContainerStateRunning(ApiObject, frozen=True, kw_only=True):
    """The container runs since then."""

    started_at: Time | None = None


class ContainerStateTerminated(ApiObject, frozen=True, kw_only=True):
    """The container ended, how and when."""

    container_id: str = msgspec.field(name="containerID", default="")
    exit_code: int = msgspec.field(default_factory=int)
    finished_at: Time | None = None
    message: str = ""
    reason: str = ""
    signal: int = 0
    started_at: Time | None = None


class ContainerStateWaiting(ApiObject, frozen=True, kw_only=True):
    """The container does not run yet, and why."""

    message: str = ""
    reason: str = ""


class ContainerState(ApiObject, frozen=True, kw_only=True):
    """Exactly one of the three; none means waiting."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class LinuxContainerUser(ApiObject, frozen=True, kw_only=True):
    """Numeric ids of the first process."""

    gid: int = msgspec.field(default_factory=int)
    supplemental_groups: tuple[int, ...] = ()
    uid: int = msgspec.field(default_factory=int)


class ContainerUser(ApiObject, frozen=True, kw_only=True):
    """The user of the first process."""

    linux: LinuxContainerUser | None = None


class ImageVolumeStatus(ApiObject, frozen=True, kw_only=True):
    """Which image a volume was made from."""

    image_ref: str = msgspec.field(default_factory=str)


class VolumeStatus(ApiObject, frozen=True, kw_only=True):
    """What is known of a mounted volume."""

    image: ImageVolumeStatus | None = None


class VolumeMountStatus(ApiObject, frozen=True, kw_only=True):
    """How a mount turned out."""

    mount_path: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)
    read_only: bool = False
    recursive_read_only: str = ""
    volume_status: VolumeStatus | None = None


class ContainerStatus(ApiObject, frozen=True, kw_only=True):
    """What became of one container; `last_state` is that of the attempt before."""

    allocated_resources: Mapping[str, Quantity] = NO_ENTRIES
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
    container_id: str = msgspec.field(name="containerID", default="")
    image: str = msgspec.field(default_factory=str)
    image_id: str = msgspec.field(name="imageID", default_factory=str)
    last_state: ContainerState = ContainerState()
    name: str = msgspec.field(default_factory=str)
    ready: bool = msgspec.field(default_factory=bool)
    resources: ResourceRequirements | None = None
    restart_count: int = msgspec.field(default_factory=int)
    started: bool | None = None
    state: ContainerState = ContainerState()
    stop_signal: str = ""
    user: ContainerUser | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()

    def __post_init__(self) -> None:
        freeze_maps(self, "allocated_resources")


class ContainerExtendedResourceRequest(ApiObject, frozen=True, kw_only=True):
    """Which request of the claim serves which resource of which container."""

    container_name: str = msgspec.field(default_factory=str)
    request_name: str = msgspec.field(default_factory=str)
    resource_name: str = msgspec.field(default_factory=str)


class PodExtendedResourceClaimStatus(ApiObject, frozen=True, kw_only=True):
    """The claim that was made for extended resources, and who uses which part."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = msgspec.field(default_factory=tuple)
    resource_claim_name: str = msgspec.field(default_factory=str)


class HostIP(ApiObject, frozen=True, kw_only=True):
    """One address of the node."""

    ip: str = msgspec.field(default_factory=str)


class NodeAllocatableMappedResources(ApiObject, frozen=True, kw_only=True):
    """How much of one node resource a claim stands for."""

    name: str = msgspec.field(default_factory=str)
    quantity: Quantity = msgspec.field(default_factory=lambda: "0")


class NodeAllocatableOverheadResources(ApiObject, frozen=True, kw_only=True):
    """What a claim costs beside what it gives."""

    name: str = msgspec.field(default_factory=str)
    per_container: Quantity = ""
    per_pod: Quantity = ""


class NodeAllocatableResourceClaimStatus(ApiObject, frozen=True, kw_only=True):
    """Node resources that a claim accounts for."""

    containers: tuple[str, ...] = ()
    mapping: tuple[NodeAllocatableMappedResources, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResources, ...] = ()
    resource_claim_name: str = msgspec.field(default_factory=str)


class PodIP(ApiObject, frozen=True, kw_only=True):
    """One address of the pod."""

    ip: str = msgspec.field(default_factory=str)


class PodResourceClaimStatus(ApiObject, frozen=True, kw_only=True):
    """Which claim object stands for a claim of the spec."""

    name: str = msgspec.field(default_factory=str)
    resource_claim_name: str = ""


class VolumeHealthCondition(ApiObject, frozen=True, kw_only=True):
    """One finding about a volume's health."""

    message: str = ""
    reason: str = msgspec.field(default_factory=str)
    status: str = msgspec.field(default_factory=str)


class PodVolumeHealth(ApiObject, frozen=True, kw_only=True):
    """Health of one volume of the pod."""

    health_conditions: tuple[VolumeHealthCondition, ...] = ()
    last_transition_time: Time | None = None
    name: str = msgspec.field(default_factory=str)


class PodStatus(ApiObject, frozen=True, kw_only=True):
    """What became of a pod. The agent that runs the pod writes it."""

    allocated_resources: Mapping[str, Quantity] = NO_ENTRIES
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    host_ip: str = msgspec.field(name="hostIP", default="")
    host_ips: tuple[HostIP, ...] = msgspec.field(name="hostIPs", default=())
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    message: str = ""
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    nominated_node_name: str = ""
    observed_generation: int = 0
    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[PodIP, ...] = msgspec.field(name="podIPs", default=())
    qos_class: str = ""
    reason: str = ""
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    resources: ResourceRequirements | None = None
    start_time: Time | None = None
    volume_health: tuple[PodVolumeHealth, ...] = ()

    def __post_init__(self) -> None:
        freeze_maps(self, "allocated_resources")
