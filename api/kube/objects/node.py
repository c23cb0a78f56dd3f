"""The v1 Node: a machine of the cluster, what it offers, and how it is."""

from collections.abc import Mapping

import msgspec

from api.kube.objects.kubeletconfiguration import Taint
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.strmap import NO_ENTRIES, freeze_maps
from api.kube.objects.wiretype import ApiObject, Quantity, Time


class NodeAddress(ApiObject, frozen=True, kw_only=True):
    """One address: InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS."""

    address: str = msgspec.field(default_factory=str)
    type: str = msgspec.field(default_factory=str)


class NodeCondition(ApiObject, frozen=True, kw_only=True):
    """One condition: True, False or Unknown, since when and why."""

    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = msgspec.field(default_factory=str)
    type: str = msgspec.field(default_factory=str)


class DaemonEndpoint(ApiObject, frozen=True, kw_only=True):
    """A port that a daemon of the node serves."""

    port: int = msgspec.field(name="Port", default_factory=int)


class NodeDaemonEndpoints(ApiObject, frozen=True, kw_only=True):
    """The ports of the node's daemons."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeSwapStatus(ApiObject, frozen=True, kw_only=True):
    """Swap space in bytes."""

    capacity: int | None = None


class NodeSystemInfo(ApiObject, frozen=True, kw_only=True):
    """What the machine is and runs."""

    architecture: str = msgspec.field(default_factory=str)
    boot_id: str = msgspec.field(name="bootID", default_factory=str)
    container_runtime_version: str = msgspec.field(default_factory=str)
    kernel_version: str = msgspec.field(default_factory=str)
    kube_proxy_version: str = msgspec.field(default_factory=str)
    kubelet_version: str = msgspec.field(default_factory=str)
    machine_id: str = msgspec.field(name="machineID", default_factory=str)
    operating_system: str = msgspec.field(default_factory=str)
    os_image: str = msgspec.field(default_factory=str)
    running_in_user_namespace: bool | None = None
    swap: NodeSwapStatus | None = None
    system_uuid: str = msgspec.field(name="systemUUID", default_factory=str)


class ContainerImage(ApiObject, frozen=True, kw_only=True):
    """An image on the node."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeRuntimeHandlerFeatures(ApiObject, frozen=True, kw_only=True):
    """What a runtime handler offers."""

    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(ApiObject, frozen=True, kw_only=True):
    """One runtime handler; the default one has an empty name."""

    features: NodeRuntimeHandlerFeatures | None = None
    name: str = msgspec.field(default_factory=str)


class NodeFeatures(ApiObject, frozen=True, kw_only=True):
    """What the runtime offers whatever the handler."""

    supplemental_groups_policy: bool | None = None


class AttachedVolume(ApiObject, frozen=True, kw_only=True):
    """A volume that a controller attached."""

    device_path: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)


class NodePodPreemptionPolicy(ApiObject, frozen=True, kw_only=True):
    """When pods of the node are not preempted."""

    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(ApiObject, frozen=True, kw_only=True):
    """What others decided about the node."""

    pod_cidr: str = msgspec.field(name="podCIDR", default="")
    pod_cidrs: tuple[str, ...] = msgspec.field(name="podCIDRs", default=())
    pod_preemption_policy: NodePodPreemptionPolicy | None = None
    provider_id: str = msgspec.field(name="providerID", default="")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(ApiObject, frozen=True, kw_only=True):
    """How the node is."""

    addresses: tuple[NodeAddress, ...] = ()
    allocatable: Mapping[str, Quantity] = NO_ENTRIES
    capacity: Mapping[str, Quantity] = NO_ENTRIES
    conditions: tuple[NodeCondition, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    declared_features: tuple[str, ...] = ()
    features: NodeFeatures | None = None
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = msgspec.field(default_factory=NodeSystemInfo)
    phase: str = ""
    runtime_handlers: tuple[NodeRuntimeHandler, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze_maps(self, "allocatable", "capacity")


class Node(ApiObject, frozen=True, kw_only=True):
    """A machine of the cluster."""

    api_version: str = msgspec.field(default_factory=lambda: "v1")
    kind: str = msgspec.field(default_factory=lambda: "Node")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
