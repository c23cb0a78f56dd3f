"""From our words to the runtime's: what a sandbox and a container are to be."""

from api.errors import RejectedError
from api.ports.confinement import (
    Device,
    IdMapping,
    Mount,
    MountPropagation,
    NamespaceMode,
    Namespaces,
    PortMapping,
    ProfileKind,
    Resources,
    Security,
    SecurityProfile,
    SeLinux,
)
from api.ports.images import ImageAuth
from api.ports.runtime import ContainerSpec, SandboxSpec
from runtime.drivers.cri import annotation
from runtime.wire.generated import cri_pb2 as pb

MODES = {
    NamespaceMode.POD: pb.POD,
    NamespaceMode.CONTAINER: pb.CONTAINER,
    NamespaceMode.NODE: pb.NODE,
    NamespaceMode.TARGET: pb.TARGET,
}
PROFILES = {
    ProfileKind.RUNTIME_DEFAULT: pb.SecurityProfile.RuntimeDefault,
    ProfileKind.UNCONFINED: pb.SecurityProfile.Unconfined,
    ProfileKind.LOCALHOST: pb.SecurityProfile.Localhost,
}
PROPAGATIONS = {
    MountPropagation.PRIVATE: pb.PROPAGATION_PRIVATE,
    MountPropagation.HOST_TO_CONTAINER: pb.PROPAGATION_HOST_TO_CONTAINER,
    MountPropagation.BIDIRECTIONAL: pb.PROPAGATION_BIDIRECTIONAL,
}
SIGNALS = frozenset(pb.Signal.keys())
OLD_APPARMOR = {ProfileKind.RUNTIME_DEFAULT: "runtime/default", ProfileKind.UNCONFINED: "unconfined"}


def sandbox_config(spec: SandboxSpec) -> pb.PodSandboxConfig:
    """Return what RunPodSandbox gets, and every CreateContainer in that sandbox again."""
    labels, added = annotation.with_identity(
        spec.labels, uid=spec.uid, name=spec.name, namespace=spec.namespace
    )
    annotations = dict(spec.annotations) | {
        annotation.SPEC: annotation.digest(spec),
        annotation.NETWORK: annotation.HOST if spec.host_network else annotation.OWN_NETWORK,
    }
    if added:
        annotations[annotation.ADDED] = added
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(
            name=spec.name, uid=spec.uid, namespace=spec.namespace, attempt=spec.attempt
        ),
        hostname="" if spec.host_network else spec.hostname,
        log_directory=spec.log_directory,
        # Always there: an absent one would mean the host's resolv.conf.
        dns_config=pb.DNSConfig(
            servers=spec.dns.servers, searches=spec.dns.searches, options=spec.dns.options
        ),
        port_mappings=[port_mapping(port) for port in spec.ports],
        labels=labels,
        annotations=annotations,
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=spec.cgroup_parent,
            sysctls=dict(spec.sysctls),
            overhead=resources(spec.overhead),
            resources=resources(spec.resources),
            security_context=_sandbox_security(spec),
        ),
    )


def _sandbox_security(spec: SandboxSpec) -> pb.LinuxSandboxSecurityContext:
    security = spec.security
    return pb.LinuxSandboxSecurityContext(
        namespace_options=namespace_options(spec.namespaces, host_network=spec.host_network),
        selinux_options=selinux(security.selinux),
        run_as_user=number(spec.user),
        run_as_group=number(spec.group),
        readonly_rootfs=security.read_only_root,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=pb.Strict if security.strict_groups else pb.Merge,
        privileged=security.privileged,
        seccomp=profile(security.seccomp),
        apparmor=profile(security.apparmor),
    )


def container_config(spec: ContainerSpec, sandbox: SandboxSpec) -> pb.ContainerConfig:
    """Return what CreateContainer gets. Raises RejectedError for a signal that has no name here."""
    labels, added = annotation.with_identity(
        spec.labels, uid=sandbox.uid, name=sandbox.name, namespace=sandbox.namespace
    )
    annotations = dict(spec.annotations) | {annotation.SPEC: annotation.digest(spec)}
    if added:
        annotations[annotation.ADDED] = added
    if spec.resources is not None:
        annotations[annotation.AMOUNTS] = annotation.amounts(spec.resources)
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=spec.name, attempt=spec.attempt),
        image=pb.ImageSpec(image=spec.image, user_specified_image=spec.image_asked or spec.image),
        command=spec.command,
        args=spec.args,
        working_dir=spec.working_dir,
        envs=[pb.KeyValue(key=variable.name, value=variable.value.encode()) for variable in spec.env],
        mounts=[mount(one, spec.namespaces.users) for one in spec.mounts],
        devices=[device(one) for one in spec.devices],
        CDI_devices=[pb.CDIDevice(name=name) for name in spec.cdi_devices],
        labels=labels,
        annotations=annotations,
        log_path=spec.log_path,
        stdin=spec.stdin,
        stdin_once=spec.stdin_once,
        tty=spec.tty,
        stop_signal=_signal(spec),
        linux=pb.LinuxContainerConfig(
            resources=resources(spec.resources),
            security_context=_container_security(spec, sandbox),
        ),
    )


def _container_security(spec: ContainerSpec, sandbox: SandboxSpec) -> pb.LinuxContainerSecurityContext:
    security = spec.security
    return pb.LinuxContainerSecurityContext(
        capabilities=pb.Capability(
            add_capabilities=security.add_capabilities, drop_capabilities=security.drop_capabilities
        ),
        privileged=security.privileged,
        # A container cannot be in another network than its sandbox.
        namespace_options=namespace_options(
            spec.namespaces, host_network=spec.host_network or sandbox.host_network
        ),
        selinux_options=selinux(security.selinux),
        run_as_user=number(spec.user),
        run_as_username=spec.user_name if spec.user is None else "",
        run_as_group=number(spec.group),
        readonly_rootfs=security.read_only_root,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=pb.Strict if security.strict_groups else pb.Merge,
        no_new_privs=security.no_new_privileges,
        masked_paths=security.masked_paths,
        readonly_paths=security.readonly_paths,
        seccomp=profile(security.seccomp),
        apparmor=profile(security.apparmor),
        apparmor_profile=_old_apparmor(security),
    )


def _signal(spec: ContainerSpec) -> str:
    """Return the signal's name, which the library turns into its number."""
    if not spec.stop_signal:
        return "RUNTIME_DEFAULT"
    if spec.stop_signal not in SIGNALS:
        raise RejectedError(
            f"container {spec.name}: stop signal {spec.stop_signal!r} is unknown; use a name such as SIGTERM",
            reason="CreateContainerConfigError",
        )
    return spec.stop_signal


def namespace_options(namespaces: Namespaces, *, host_network: bool) -> pb.NamespaceOption:
    """Return whose namespaces a process shares."""
    users = mappings(namespaces.users)
    own = pb.UserNamespace(mode=pb.POD, uids=users, gids=users)
    return pb.NamespaceOption(
        network=pb.NODE if host_network else pb.POD,
        pid=MODES[namespaces.pid],
        ipc=MODES[namespaces.ipc],
        # The id as our words show it carries the runtime's scheme.
        target_id=bare(namespaces.target_id),
        userns_options=own if users else pb.UserNamespace(mode=pb.NODE),
    )


def bare(container_id: str) -> str:
    """Return a container's id as it is on the wire."""
    return container_id.rpartition("://")[2]


def mappings(users: tuple[IdMapping, ...]) -> list[pb.IDMapping]:
    """Return ranges of ids of a user namespace."""
    return [
        pb.IDMapping(host_id=one.host_id, container_id=one.container_id, length=one.length) for one in users
    ]


def number(value: int | None) -> pb.Int64Value | None:
    """Return a number that may be absent: 0 is root, absent is the image's choice."""
    return None if value is None else pb.Int64Value(value=value)


def profile(value: SecurityProfile | None) -> pb.SecurityProfile | None:
    """Return a seccomp or AppArmor profile; its reference only where runtimes take one."""
    if value is None:
        return None
    ref = value.ref if value.kind is ProfileKind.LOCALHOST else ""
    return pb.SecurityProfile(profile_type=PROFILES[value.kind], localhost_ref=ref)


def _old_apparmor(security: Security) -> str:
    """Return the field that runtimes before SecurityProfile read."""
    if security.apparmor is None:
        return ""
    return OLD_APPARMOR.get(security.apparmor.kind) or f"localhost/{security.apparmor.ref}"


def selinux(label: SeLinux | None) -> pb.SELinuxOption | None:
    """Return an SELinux label."""
    if label is None:
        return None
    return pb.SELinuxOption(user=label.user, role=label.role, type=label.type, level=label.level)


def resources(value: Resources | None) -> pb.LinuxContainerResources | None:
    """Return limits as cgroups take them."""
    if value is None:
        return None
    return pb.LinuxContainerResources(
        cpu_period=value.cpu_period_us,
        cpu_quota=value.cpu_quota_us,
        cpu_shares=value.cpu_shares,
        memory_limit_in_bytes=value.memory_limit_bytes,
        memory_swap_limit_in_bytes=value.memory_swap_limit_bytes,
        oom_score_adj=value.oom_score_adj,
        cpuset_cpus=value.cpuset_cpus,
        cpuset_mems=value.cpuset_mems,
        hugepage_limits=[
            pb.HugepageLimit(page_size=size, limit=limit) for size, limit in value.hugepage_limits
        ],
        unified=dict(value.unified),
    )


def mount(one: Mount, users: tuple[IdMapping, ...]) -> pb.Mount:
    """Return a mount; in a user namespace it is shifted by the same ranges."""
    return pb.Mount(
        container_path=one.container_path,
        host_path=one.host_path,
        readonly=one.read_only,
        recursive_read_only=one.recursive_read_only,
        selinux_relabel=one.selinux_relabel,
        propagation=PROPAGATIONS[one.propagation],
        uidMappings=mappings(users),
        gidMappings=mappings(users),
        image=pb.ImageSpec(image=one.image) if one.image else None,
        image_sub_path=one.image_sub_path,
    )


def device(one: Device) -> pb.Device:
    """Return a device."""
    return pb.Device(container_path=one.container_path, host_path=one.host_path, permissions=one.permissions)


def port_mapping(port: PortMapping) -> pb.PortMapping:
    """Return a port and the host's port that leads to it."""
    return pb.PortMapping(
        protocol=port.protocol.value,
        container_port=port.container_port,
        host_port=port.host_port,
        host_ip=port.host_ip,
    )


def auth_config(auth: ImageAuth | None) -> pb.AuthConfig | None:
    """Return credentials; they go nowhere but to the runtime."""
    if auth is None:
        return None
    return pb.AuthConfig(
        username=auth.username,
        password=auth.password,
        auth=auth.auth,
        server_address=auth.server_address,
        identity_token=auth.identity_token,
        registry_token=auth.registry_token,
    )
