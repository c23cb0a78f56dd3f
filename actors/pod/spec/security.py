"""Security of a container: users, groups, capabilities, profiles, namespaces.

Reference ``runtime-cri`` sections 4.3 and 5.4 to 5.10. A value of the container wins over the pod's.
"""

import posixpath

import msgspec

from actors.pod.spec.problem import SANDBOX, refuse
from actors.rules.container.apparmor import APPARMOR
from api.kube.objects.container import (
    AppArmorProfile,
    Container,
    EphemeralContainer,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from api.kube.objects.pod import Pod, PodSecurityContext
from api.ports.confinement import (
    IdMapping,
    NamespaceMode,
    Namespaces,
    ProfileKind,
    Security,
    SecurityProfile,
    SeLinux,
)
from api.ports.node import NodeFacts

ID_LIMIT = (1 << 31) - 1

RUNTIME_DEFAULT = SecurityProfile(kind=ProfileKind.RUNTIME_DEFAULT)
UNCONFINED = SecurityProfile(kind=ProfileKind.UNCONFINED)

MASKED = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
"""Paths that are masked in a container."""

READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
"""Paths that are read-only in a container."""

AnyContainer = Container | EphemeralContainer


class RunImage(msgspec.Struct, frozen=True, kw_only=True):
    """The image of a container, as the ImagePuller reported it."""

    ref: str
    """What the runtime runs: normally the image's id."""
    user: int | None = None
    """Numeric user id that the image runs as."""
    user_name: str = ""
    """Its name, where the image names it; with neither it is root."""


class RunAs(msgspec.Struct, frozen=True, kw_only=True):
    """The user of a container: an id or a name, never both."""

    user: int | None = None
    user_name: str = ""
    group: int | None = None


def namespaces(pod: Pod, users: tuple[IdMapping, ...], target_id: str = "") -> Namespaces:
    """Return the namespaces of a sandbox and its containers; `target_id` only for an ephemeral container."""
    spec = pod.spec
    if spec.host_pid:
        pid = NamespaceMode.NODE
    elif spec.share_process_namespace:
        pid = NamespaceMode.POD
    else:
        pid = NamespaceMode.TARGET if target_id else NamespaceMode.CONTAINER
    return Namespaces(
        pid=pid,
        ipc=NamespaceMode.NODE if spec.host_ipc else NamespaceMode.POD,
        target_id=target_id if pid is NamespaceMode.TARGET else "",
        users=users,
    )


def check_users(pod: Pod, node: NodeFacts, users: tuple[IdMapping, ...], handler: str) -> None:
    """Raise `Unfit` for a pod with a user namespace where the runtime has none, or no ids were reserved for it."""
    if pod.spec.host_users is not False:
        return
    offered = node.handler(handler)
    if offered is None or not offered.user_namespaces:
        whose = f'RuntimeClass handler "{handler}"' if handler else "runtime"
        refuse(f"can't set `spec.hostUsers: false`, {whose} does not support user namespaces", SANDBOX)
    if not users:
        refuse(
            "can't set `spec.hostUsers: false`, no user ids of the node were set aside for the pod", SANDBOX
        )


def sandbox_security(pod: Pod, node: NodeFacts, volume_groups: tuple[int, ...]) -> Security:
    """Return the security of a sandbox's own process; the pod's profiles must not apply to it."""
    context = pod.spec.security_context or PodSecurityContext()
    containers = [one for _, group in pod.spec.container_groups() for one in group]
    return Security(
        privileged=any(is_privileged(one) for one in containers),
        supplemental_groups=(*fs_groups(context), *volume_groups, *context.supplemental_groups),
        strict_groups=strict_groups(context, node),
        selinux=selinux(context.se_linux_options),
        seccomp=RUNTIME_DEFAULT,
    )


def container_security(
    pod: Pod, container: AnyContainer, node: NodeFacts, volume_groups: tuple[int, ...]
) -> Security:
    """Return the security of one container."""
    own = container.security_context or SecurityContext()
    pods = pod.spec.security_context or PodSecurityContext()
    hides = own.proc_mount in ("", "Default")
    if not hides and own.proc_mount != "Unmasked":
        refuse(f'unknown procMount "{own.proc_mount}"')
    capabilities = own.capabilities
    return Security(
        privileged=bool(own.privileged),
        read_only_root=bool(own.read_only_root_filesystem),
        no_new_privileges=own.allow_privilege_escalation is False,
        add_capabilities=capabilities.add if capabilities is not None else (),
        drop_capabilities=capabilities.drop if capabilities is not None else (),
        supplemental_groups=(*fs_groups(pods), *pods.supplemental_groups, *volume_groups),
        strict_groups=strict_groups(pods, node),
        selinux=selinux(own.se_linux_options or pods.se_linux_options),
        seccomp=seccomp(own.seccomp_profile or pods.seccomp_profile, node),
        apparmor=apparmor(pod, container),
        masked_paths=(*MASKED, *node.throttle_paths) if hides else (),
        readonly_paths=READ_ONLY if hides else (),
    )


def is_privileged(container: AnyContainer) -> bool:
    """Return whether a container is privileged."""
    return container.security_context is not None and bool(container.security_context.privileged)


def fs_groups(context: PodSecurityContext) -> tuple[int, ...]:
    """Return the group of the pod's files, if it has one."""
    return () if context.fs_group is None else (context.fs_group,)


def strict_groups(context: PodSecurityContext, node: NodeFacts) -> bool:
    """Return whether the groups that the image's files give a user are left out."""
    match context.supplemental_groups_policy:
        case "" | "Merge":
            return False
        case "Strict" if node.strict_groups:
            return True
        case "Strict":
            return refuse(
                "SupplementalGroupsPolicy=Strict is not supported in this node",
                "SupplementalGroupsPolicyNotSupported",
            )
        case other:
            return refuse(f'unsupported supplementalGroupsPolicy "{other}"')


def selinux(options: SELinuxOptions | None) -> SeLinux | None:
    """Return an SELinux label in the runtime's words."""
    if options is None:
        return None
    return SeLinux(user=options.user, role=options.role, type=options.type, level=options.level)


def seccomp(profile: SeccompProfile | None, node: NodeFacts) -> SecurityProfile:
    """Return the seccomp profile: always explicit, since runtimes differ in their default."""
    if profile is None:
        return RUNTIME_DEFAULT if node.seccomp_default else UNCONFINED
    match profile.type:
        case "RuntimeDefault":
            return RUNTIME_DEFAULT
        case "Unconfined":
            return UNCONFINED
        case "Localhost":
            return SecurityProfile(
                kind=ProfileKind.LOCALHOST, ref=profile_path(profile.localhost_profile, node.root_dir)
            )
        case other:
            return refuse(f'unknown seccompProfile type "{other}"')


def profile_path(name: str, root_dir: str) -> str:
    """Return the path of a seccomp profile of the node. Raises `Unfit` for a name that leads out of their folder."""
    if not name:
        refuse("localhostProfile must be set if seccompProfile type is Localhost.")
    clean = posixpath.normpath(name)
    if name.startswith("/") or clean == "." or clean.split("/")[0] == ".." or ".." in name.split("/"):
        refuse(
            f'seccomp localhostProfile "{name}" must be a relative path below {root_dir}/seccomp, without ".."'
        )
    return f"{root_dir}/seccomp/{clean}"


def apparmor(pod: Pod, container: AnyContainer) -> SecurityProfile | None:
    """Return the AppArmor profile: from the container's field, its old annotation, or the pod's field."""
    own = container.security_context
    if own is not None and own.app_armor_profile is not None:
        return apparmor_field(own.app_armor_profile)
    old = pod.metadata.annotations.get(f"{APPARMOR}{container.name}", "")
    if old:
        return apparmor_annotation(old)
    pods = pod.spec.security_context
    if pods is not None and pods.app_armor_profile is not None:
        return apparmor_field(pods.app_armor_profile)
    return None


def apparmor_field(profile: AppArmorProfile) -> SecurityProfile:
    """Return a profile as the field writes it."""
    match profile.type:
        case "RuntimeDefault":
            return RUNTIME_DEFAULT
        case "Unconfined":
            return UNCONFINED
        case "Localhost" if profile.localhost_profile.strip():
            return SecurityProfile(kind=ProfileKind.LOCALHOST, ref=profile.localhost_profile)
        case "Localhost":
            return refuse("localhostProfile must be set if appArmorProfile type is Localhost.")
        case other:
            return refuse(f'unknown appArmorProfile type "{other}"')


def apparmor_annotation(text: str) -> SecurityProfile:
    """Return a profile as the old annotation writes it."""
    if text == "runtime/default":
        return RUNTIME_DEFAULT
    if text == "unconfined":
        return UNCONFINED
    name = text.removeprefix("localhost/")
    if name == text or not name:
        refuse(
            f'invalid AppArmor profile name: "{text}"; expected runtime/default, unconfined or localhost/<name>'
        )
    return SecurityProfile(kind=ProfileKind.LOCALHOST, ref=name)


def check_apparmor(pod: Pod, node: NodeFacts) -> None:
    """Raise `Unfit` for a profile on a node without AppArmor."""
    if node.apparmor:
        return
    for _, group in pod.spec.container_groups():
        for container in group:
            profile = apparmor(pod, container)
            if profile is not None and profile.kind is not ProfileKind.UNCONFINED:
                refuse("Cannot enforce AppArmor: AppArmor is not enabled on the host", "AppArmor")


# users


def run_as(pod: Pod, container: AnyContainer, image: RunImage | None) -> RunAs:
    """Return the user and group of a container. Raises `Unfit` when that may be root and must not be."""
    own = container.security_context or SecurityContext()
    pods = pod.spec.security_context or PodSecurityContext()
    asked = pods.run_as_user if own.run_as_user is None else own.run_as_user
    group = pods.run_as_group if own.run_as_group is None else own.run_as_group
    forbids_root = pods.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root
    if forbids_root:
        check_non_root(pod, container, asked, image)
    if asked is not None or image is None:
        return RunAs(user=asked, group=group)
    if image.user is not None:
        return RunAs(user=image.user, group=group)
    if image.user_name:
        return RunAs(user_name=image.user_name, group=group)
    return RunAs(user=0, group=group)


def check_non_root(pod: Pod, container: AnyContainer, asked: int | None, image: RunImage | None) -> None:
    """Raise `Unfit` for a container that would, or might, run as root."""
    meta = pod.metadata
    who = f'(pod: "{meta.name}_{meta.namespace}({meta.uid})", container: {container.name})'
    if asked is not None:
        if asked == 0:
            refuse(f"container's runAsUser breaks non-root policy {who}")
        return
    found = image or RunImage(ref="")
    if found.user is not None and not 0 <= found.user <= ID_LIMIT:
        refuse(f"container has runAsNonRoot and the image's user id {found.user} is not valid {who}")
    if found.user:
        return
    if found.user is None and found.user_name:
        refuse(
            f"container has runAsNonRoot and image has non-numeric user ({found.user_name}), cannot verify user is"
            f" non-root {who}"
        )
    refuse(f"container has runAsNonRoot and image will run as root {who}")
