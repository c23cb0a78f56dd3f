"""Containers of a pod as its spec asks for them: command, environment, probes, hooks, limits, rights."""

from collections.abc import Mapping

import msgspec

from api.kube.objects.meta import ObjectFieldSelector, ResourceFieldSelector
from api.kube.objects.strmap import NO_ENTRIES, freeze_maps
from api.kube.objects.wiretype import ApiObject, IntOrString, Quantity, SecretText


class ConfigMapKeySelector(ApiObject, frozen=True, kw_only=True):
    """One key of a ConfigMap."""

    key: str = msgspec.field(default_factory=str)
    name: str = ""
    optional: bool | None = None


class FileKeySelector(ApiObject, frozen=True, kw_only=True):
    """One key of an env file in a volume."""

    key: str = msgspec.field(default_factory=str)
    optional: bool | None = None
    path: str = msgspec.field(default_factory=str)
    volume_name: str = msgspec.field(default_factory=str)


class SecretKeySelector(ApiObject, frozen=True, kw_only=True):
    """One key of a Secret."""

    key: str = msgspec.field(default_factory=str)
    name: str = ""
    optional: bool | None = None


class EnvVarSource(ApiObject, frozen=True, kw_only=True):
    """Where an environment variable's value comes from: exactly one member is set."""

    config_map_key_ref: ConfigMapKeySelector | None = None
    field_ref: ObjectFieldSelector | None = None
    file_key_ref: FileKeySelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    secret_key_ref: SecretKeySelector | None = None


class EnvVar(ApiObject, frozen=True, kw_only=True):
    """One environment variable; its value never shows in a text made of it."""

    name: str = msgspec.field(default_factory=str)
    value: SecretText = ""
    value_from: EnvVarSource | None = None

    def __repr__(self) -> str:
        return f"EnvVar(name={self.name!r}, value=<hidden>, value_from={self.value_from!r})"


class ConfigMapEnvSource(ApiObject, frozen=True, kw_only=True):
    """A ConfigMap whose keys become variables."""

    name: str = ""
    optional: bool | None = None


class SecretEnvSource(ApiObject, frozen=True, kw_only=True):
    """A Secret whose keys become variables."""

    name: str = ""
    optional: bool | None = None


class EnvFromSource(ApiObject, frozen=True, kw_only=True):
    """All keys of a ConfigMap or Secret as variables, each with `prefix`."""

    config_map_ref: ConfigMapEnvSource | None = None
    prefix: str = ""
    secret_ref: SecretEnvSource | None = None


class ExecAction(ApiObject, frozen=True, kw_only=True):
    """A command run inside the container, without a shell."""

    command: tuple[str, ...] = ()


class HTTPHeader(ApiObject, frozen=True, kw_only=True):
    """One header of a request; its value never shows in a text made of it."""

    name: str = msgspec.field(default_factory=str)
    value: SecretText = msgspec.field(default_factory=str)

    def __repr__(self) -> str:
        return f"HTTPHeader(name={self.name!r}, value=<hidden>)"


class HTTPGetAction(ApiObject, frozen=True, kw_only=True):
    """An HTTP GET; `port` is a number or a port's name."""

    host: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()
    path: str = ""
    port: IntOrString = msgspec.field(default_factory=int)
    protocol: str = ""
    scheme: str = ""


class SleepAction(ApiObject, frozen=True, kw_only=True):
    """Wait this many seconds."""

    seconds: int = msgspec.field(default_factory=int)


class TCPSocketAction(ApiObject, frozen=True, kw_only=True):
    """Open a TCP connection; `port` is a number or a port's name."""

    host: str = ""
    port: IntOrString = msgspec.field(default_factory=int)


class LifecycleHandler(ApiObject, frozen=True, kw_only=True):
    """One hook: exactly one member is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = None


class Lifecycle(ApiObject, frozen=True, kw_only=True):
    """What to call after a container's start and before its stop, and with which signal to stop it."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str = ""


class GRPCAction(ApiObject, frozen=True, kw_only=True):
    """A gRPC health check."""

    mode: str = ""
    port: int = msgspec.field(default_factory=int)
    service: str = ""


class Probe(ApiObject, frozen=True, kw_only=True):
    """How and how often to ask a container whether it is well. Seconds throughout."""

    exec: ExecAction | None = None
    failure_threshold: int = 0
    grpc: GRPCAction | None = None
    http_get: HTTPGetAction | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 0
    success_threshold: int = 0
    tcp_socket: TCPSocketAction | None = None
    termination_grace_period_seconds: int | None = None
    timeout_seconds: int = 0


class ContainerPort(ApiObject, frozen=True, kw_only=True):
    """A port that a container listens on."""

    container_port: int = msgspec.field(default_factory=int)
    host_ip: str = msgspec.field(name="hostIP", default="")
    host_port: int = 0
    name: str = ""
    protocol: str = ""


class ContainerResizePolicy(ApiObject, frozen=True, kw_only=True):
    """Whether changing this resource restarts the container."""

    resource_name: str = msgspec.field(default_factory=str)
    restart_policy: str = msgspec.field(default_factory=str)


class ResourceClaim(ApiObject, frozen=True, kw_only=True):
    """A claim of the pod's `resourceClaims` that a container uses."""

    name: str = msgspec.field(default_factory=str)
    request: str = ""


class ResourceRequirements(ApiObject, frozen=True, kw_only=True):
    """What is reserved (`requests`) and what may be used at most (`limits`)."""

    claims: tuple[ResourceClaim, ...] = ()
    limits: Mapping[str, Quantity] = NO_ENTRIES
    requests: Mapping[str, Quantity] = NO_ENTRIES

    def __post_init__(self) -> None:
        freeze_maps(self, "limits", "requests")


class ContainerRestartRuleOnExitCodes(ApiObject, frozen=True, kw_only=True):
    """Exit codes that a rule matches: In or NotIn."""

    operator: str = msgspec.field(default_factory=str)
    values: tuple[int, ...] = ()


class ContainerRestartRule(ApiObject, frozen=True, kw_only=True):
    """What to do when the exit code matches; the first rule that matches wins."""

    action: str = msgspec.field(default_factory=str)
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class AppArmorProfile(ApiObject, frozen=True, kw_only=True):
    """Which AppArmor profile confines a process."""

    localhost_profile: str = ""
    type: str = msgspec.field(default_factory=str)


class Capabilities(ApiObject, frozen=True, kw_only=True):
    """Linux capabilities to add to and drop from the runtime's own set."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SELinuxOptions(ApiObject, frozen=True, kw_only=True):
    """SELinux labels."""

    level: str = ""
    role: str = ""
    type: str = ""
    user: str = ""


class SeccompProfile(ApiObject, frozen=True, kw_only=True):
    """Which seccomp profile confines a process."""

    localhost_profile: str = ""
    type: str = msgspec.field(default_factory=str)


class WindowsSecurityContextOptions(ApiObject, frozen=True, kw_only=True):
    """Rights on Windows; kept, never honoured by this agent."""

    gmsa_credential_spec: str = ""
    gmsa_credential_spec_name: str = ""
    host_process: bool | None = None
    run_as_user_name: str = ""


class SecurityContext(ApiObject, frozen=True, kw_only=True):
    """With which rights a container runs; a field set here wins over the pod's."""

    allow_privilege_escalation: bool | None = None
    app_armor_profile: AppArmorProfile | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str = ""
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    windows_options: WindowsSecurityContextOptions | None = None


class VolumeDevice(ApiObject, frozen=True, kw_only=True):
    """A block volume mapped into a container."""

    device_path: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)


class VolumeMount(ApiObject, frozen=True, kw_only=True):
    """A volume's place in a container's file system."""

    bind_mount_options: tuple[str, ...] = ()
    mount_path: str = msgspec.field(default_factory=str)
    mount_propagation: str = ""
    name: str = msgspec.field(default_factory=str)
    read_only: bool = False
    recursive_read_only: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class Container(ApiObject, frozen=True, kw_only=True):
    """One container of a pod, as asked for."""

    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str = ""
    image_pull_policy: str = ""
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str = msgspec.field(default_factory=str)
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool = False
    stdin_once: bool = False
    termination_message_path: str = ""
    termination_message_policy: str = ""
    tty: bool = False
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    working_dir: str = ""


class EphemeralContainer(ApiObject, frozen=True, kw_only=True):
    """A container added to a running pod for debugging; never restarted."""

    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str = ""
    image_pull_policy: str = ""
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str = msgspec.field(default_factory=str)
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool = False
    stdin_once: bool = False
    target_container_name: str = ""
    termination_message_path: str = ""
    termination_message_policy: str = ""
    tty: bool = False
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    working_dir: str = ""
