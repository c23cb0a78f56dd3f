"""The v1 Pod: what is to run and what became of it.

Its parts live in the modules beside this one; those in daily use can be imported from here.
"""

from collections.abc import Mapping

import msgspec

from api.kube.objects.container import (
    AppArmorProfile,
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    Container,
    ContainerPort,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    EphemeralContainer,
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    Lifecycle,
    LifecycleHandler,
    Probe,
    ResourceClaim,
    ResourceRequirements,
    SeccompProfile,
    SecretEnvSource,
    SecretKeySelector,
    SecurityContext,
    SELinuxOptions,
    SleepAction,
    TCPSocketAction,
    VolumeDevice,
    VolumeMount,
    WindowsSecurityContextOptions,
)
from api.kube.objects.meta import (
    LabelSelector,
    ListMeta,
    LocalObjectReference,
    ObjectFieldSelector,
    ObjectMeta,
    OwnerReference,
    ResourceFieldSelector,
)
from api.kube.objects.placement import Affinity, NodeSelector, Toleration, TopologySpreadConstraint
from api.kube.objects.podstatus import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ContainerUser,
    HostIP,
    LinuxContainerUser,
    PodCondition,
    PodIP,
    PodStatus,
    VolumeMountStatus,
)
from api.kube.objects.strmap import NO_ENTRIES, StrMap, freeze_maps
from api.kube.objects.volume import (
    ConfigMapVolumeSource,
    CSIVolumeSource,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    KeyToPath,
    PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource,
    SecretVolumeSource,
    Volume,
    VolumeProjection,
)
from api.kube.objects.wiretype import ApiObject, IntOrString, Quantity, Time

__all__ = [
    "NO_ENTRIES",
    "Affinity",
    "AppArmorProfile",
    "CSIVolumeSource",
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapVolumeSource",
    "Container",
    "ContainerPort",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "ContainerUser",
    "DownwardAPIVolumeFile",
    "DownwardAPIVolumeSource",
    "EmptyDirVolumeSource",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "EphemeralContainer",
    "EphemeralVolumeSource",
    "EvictionResponder",
    "ExecAction",
    "GRPCAction",
    "HTTPGetAction",
    "HTTPHeader",
    "HostAlias",
    "HostIP",
    "HostPathVolumeSource",
    "ImageVolumeSource",
    "IntOrString",
    "KeyToPath",
    "LabelSelector",
    "Lifecycle",
    "LifecycleHandler",
    "LinuxContainerUser",
    "ListMeta",
    "LocalObjectReference",
    "NodeSelector",
    "ObjectFieldSelector",
    "ObjectMeta",
    "OwnerReference",
    "PersistentVolumeClaimVolumeSource",
    "Pod",
    "PodCondition",
    "PodDNSConfig",
    "PodDNSConfigOption",
    "PodIP",
    "PodList",
    "PodOS",
    "PodReadinessGate",
    "PodResourceClaim",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSecurityContext",
    "PodSpec",
    "PodStatus",
    "Probe",
    "ProjectedVolumeSource",
    "Quantity",
    "ResourceClaim",
    "ResourceFieldSelector",
    "ResourceRequirements",
    "SELinuxOptions",
    "SeccompProfile",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretVolumeSource",
    "SecurityContext",
    "SleepAction",
    "StrMap",
    "Sysctl",
    "TCPSocketAction",
    "Time",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeDevice",
    "VolumeMount",
    "VolumeMountStatus",
    "VolumeProjection",
    "WindowsSecurityContextOptions",
]


class PodDNSConfigOption(ApiObject, frozen=True, kw_only=True):
    """One resolver option."""

    name: str = ""
    value: str = ""


class PodDNSConfig(ApiObject, frozen=True, kw_only=True):
    """Name servers, search domains and options beside those of the DNS policy."""

    nameservers: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()
    searches: tuple[str, ...] = ()


class EvictionResponder(ApiObject, frozen=True, kw_only=True):
    """Who is asked before the pod is evicted, and in which order."""

    name: str = msgspec.field(default_factory=str)
    priority: int = msgspec.field(default_factory=int)


class HostAlias(ApiObject, frozen=True, kw_only=True):
    """Extra names of an address in the pod's hosts file."""

    hostnames: tuple[str, ...] = ()
    ip: str = msgspec.field(default_factory=str)


class PodOS(ApiObject, frozen=True, kw_only=True):
    """The operating system that the pod needs."""

    name: str = msgspec.field(default_factory=str)


class PodReadinessGate(ApiObject, frozen=True, kw_only=True):
    """A condition beside the containers that the pod's readiness waits for."""

    condition_type: str = msgspec.field(default_factory=str)


class PodResourceClaim(ApiObject, frozen=True, kw_only=True):
    """A claim on devices that containers name."""

    name: str = msgspec.field(default_factory=str)
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSchedulingGate(ApiObject, frozen=True, kw_only=True):
    """A reason not to schedule the pod yet."""

    name: str = msgspec.field(default_factory=str)


class PodSchedulingGroup(ApiObject, frozen=True, kw_only=True):
    """The group that the pod is scheduled with."""

    pod_group_name: str = ""


class Sysctl(ApiObject, frozen=True, kw_only=True):
    """One kernel parameter of the pod."""

    name: str = msgspec.field(default_factory=str)
    value: str = msgspec.field(default_factory=str)


class PodSecurityContext(ApiObject, frozen=True, kw_only=True):
    """With which rights the pod's containers run, where they do not say it themselves."""

    app_armor_profile: AppArmorProfile | None = None
    fs_group: int | None = None
    fs_group_change_policy: str = ""
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_change_policy: str = ""
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = ""
    sysctls: tuple[Sysctl, ...] = ()
    windows_options: WindowsSecurityContextOptions | None = None


class PodSpec(ApiObject, frozen=True, kw_only=True):
    """What is to run. A number that may be unset is None; a text that is unset is empty."""

    active_deadline_seconds: int | None = None
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    containers: tuple[Container, ...] = msgspec.field(default_factory=tuple)
    dns_config: PodDNSConfig | None = None
    dns_policy: str = ""
    enable_service_links: bool | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    eviction_responders: tuple[EvictionResponder, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    host_network: bool = False
    host_pid: bool = msgspec.field(name="hostPID", default=False)
    host_users: bool | None = None
    hostname: str = ""
    hostname_override: str = ""
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    node_selector: Mapping[str, str] = NO_ENTRIES
    os: PodOS | None = None
    overhead: Mapping[str, Quantity] = NO_ENTRIES
    preemption_policy: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str = ""
    runtime_class_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    security_context: PodSecurityContext | None = None
    service_account: str = ""
    service_account_name: str = ""
    set_hostname_as_fqdn: bool | None = msgspec.field(name="setHostnameAsFQDN", default=None)
    share_process_namespace: bool | None = None
    subdomain: str = ""
    termination_grace_period_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()

    def __post_init__(self) -> None:
        freeze_maps(self, "node_selector", "overhead")

    def container_groups(self) -> tuple[tuple[str, tuple[Container | EphemeralContainer, ...]], ...]:
        """Return all containers under the wire names of their lists, in the order in which they begin."""
        return (
            ("initContainers", self.init_containers),
            ("containers", self.containers),
            ("ephemeralContainers", self.ephemeral_containers),
        )


class Pod(ApiObject, frozen=True, kw_only=True):
    """One pod: what is to run on one node, and what became of it."""

    api_version: str = msgspec.field(default_factory=lambda: "v1")
    kind: str = msgspec.field(default_factory=lambda: "Pod")
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodList(ApiObject, frozen=True, kw_only=True):
    """Several pods."""

    api_version: str = msgspec.field(default_factory=lambda: "v1")
    items: tuple[Pod, ...] = msgspec.field(default_factory=tuple)
    kind: str = msgspec.field(default_factory=lambda: "PodList")
    metadata: ListMeta = ListMeta()
