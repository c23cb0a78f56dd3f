"""Rules of security contexts: users, profiles, capabilities, sysctls, and which exclude each other."""

from api.kube.objects.container import AppArmorProfile, SeccompProfile, SecurityContext
from api.kube.objects.pod import PodSecurityContext, PodSpec
from api.kube.validation import name as names
from api.kube.validation.check import Check

ID_LIMIT = (1 << 31) - 1
PROFILE_TYPES = ("RuntimeDefault", "Unconfined", "Localhost")
SYS_ADMIN = ("CAP_SYS_ADMIN", "SYS_ADMIN")


def check_container_security(check: Check, context: SecurityContext, path: str, *, host_users: bool) -> None:
    """Check a container's security context."""
    check.within(f"{path}.runAsUser", context.run_as_user, 0, ID_LIMIT)
    check.within(f"{path}.runAsGroup", context.run_as_group, 0, ID_LIMIT)
    check_profile(check, context.seccomp_profile, f"{path}.seccompProfile")
    check_profile(check, context.app_armor_profile, f"{path}.appArmorProfile")
    check.one_of(f"{path}.procMount", context.proc_mount, ("Default", "Unmasked"))
    if context.proc_mount == "Unmasked" and host_users:
        check.wrong(f"{path}.procMount", context.proc_mount, "Default unless hostUsers is false")
    if context.allow_privilege_escalation is False:
        place = f"{path}.allowPrivilegeEscalation"
        if context.privileged:
            check.note(place, "false", "true where privileged is true")
        added = context.capabilities.add if context.capabilities is not None else ()
        if any(capability in SYS_ADMIN for capability in added):
            check.note(place, "false", "true where capabilities.add has SYS_ADMIN")


def check_profile(check: Check, profile: SeccompProfile | AppArmorProfile | None, path: str) -> None:
    """Check a seccomp or AppArmor profile."""
    if profile is None:
        return
    check.one_of(f"{path}.type", profile.type, PROFILE_TYPES, optional=False)
    place = f"{path}.localhostProfile"
    if profile.type == "Localhost":
        check.required(place, profile.localhost_profile.strip(), "the name of a profile on the node")
    elif profile.localhost_profile:
        check.wrong(place, profile.localhost_profile, "nothing unless the type is Localhost")
    if isinstance(profile, SeccompProfile):
        check.relative(place, profile.localhost_profile)


def check_pod_security(check: Check, context: PodSecurityContext | None, spec: PodSpec, path: str) -> None:
    """Check the pod's security context and sysctls."""
    check_namespaces(check, spec)
    if context is None:
        return
    check.within(f"{path}.runAsUser", context.run_as_user, 0, ID_LIMIT)
    check.within(f"{path}.runAsGroup", context.run_as_group, 0, ID_LIMIT)
    check.within(f"{path}.fsGroup", context.fs_group, 0, ID_LIMIT)
    for index, group in enumerate(context.supplemental_groups):
        check.within(f"{path}.supplementalGroups[{index}]", group, 0, ID_LIMIT)
    check.one_of(f"{path}.fsGroupChangePolicy", context.fs_group_change_policy, ("Always", "OnRootMismatch"))
    check.one_of(f"{path}.supplementalGroupsPolicy", context.supplemental_groups_policy, ("Merge", "Strict"))
    check.one_of(f"{path}.seLinuxChangePolicy", context.se_linux_change_policy, ("Recursive", "MountOption"))
    check_profile(check, context.seccomp_profile, f"{path}.seccompProfile")
    check_profile(check, context.app_armor_profile, f"{path}.appArmorProfile")
    for index, sysctl in enumerate(context.sysctls):
        place = f"{path}.sysctls[{index}].name"
        check.matches(place, sysctl.name, names.SYSCTL)
        if spec.host_network and dotted(sysctl.name).startswith("net."):
            check.wrong(place, sysctl.name, "a sysctl outside net.* under hostNetwork")
        if spec.host_ipc and dotted(sysctl.name).startswith(
            ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
        ):
            check.wrong(place, sysctl.name, "a sysctl outside the IPC namespace under hostIPC")
    check.unique(f"{path}.sysctls", (dotted(one.name) for one in context.sysctls), "name", "a sysctl")


def dotted(sysctl: str) -> str:
    """Return a sysctl with dots between its parts, whichever separator comes first."""
    first = next((char for char in sysctl if char in "./"), ".")
    return sysctl if first == "." else sysctl.translate(str.maketrans("./", "/."))


def check_namespaces(check: Check, spec: PodSpec) -> None:
    """Check which host namespaces exclude each other."""
    if spec.share_process_namespace and spec.host_pid:
        check.note("spec.shareProcessNamespace", "true", "false where hostPID is true")
    if spec.host_users is False:
        for name, on in (
            ("hostNetwork", spec.host_network),
            ("hostPID", spec.host_pid),
            ("hostIPC", spec.host_ipc),
        ):
            if on:
                check.note(
                    "spec.hostUsers",
                    "false",
                    f"true where {name} is true",
                )
