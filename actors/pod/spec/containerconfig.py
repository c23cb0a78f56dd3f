"""From a v1 Pod to the runtime's sandbox and container specs, and the files that they need.

Pure: node facts, files and addresses are arguments. An invalid configuration is returned as a `ConfigProblem`, never
raised and never left out. On a runtime that does not confine (`NodeFacts.confined` is False: plain processes of
the host) a spec has no more than such a runtime supports; `actors.pod.spec.support` refuses pods that need more.

The parts are in `actors.pod.spec`; the rules are those of the reference ``runtime-cri``, sections 3 to 6, 15 and 16.
"""

import msgspec

from actors.pod.spec.cgroup import cgroup_parent
from actors.pod.spec.dns import resolver
from actors.pod.spec.environment import environment, expand
from actors.pod.spec.hostname import LONGEST_LABEL, hosts_text, sandbox_hostname
from actors.pod.spec.identity import (
    container_annotations,
    container_labels,
    log_directory,
    log_path,
    own_grace_s,
    sandbox_annotations,
    sandbox_labels,
)
from actors.pod.spec.lookup import NO_LOOKUPS, Lookups
from actors.pod.spec.mount import (
    SubPath,
    VolumePath,
    devices,
    manages_hosts,
    mounts,
    port_mappings,
    volume_mounts,
)
from actors.pod.spec.problem import CONTAINER, SANDBOX, ConfigProblem, ConfigWarning, Unfit, refuse
from actors.pod.spec.resource import container_resources, overhead_resources, sandbox_resources
from actors.pod.spec.security import (
    RunImage,
    check_apparmor,
    check_users,
    container_security,
    namespaces,
    run_as,
    sandbox_security,
)
from actors.pod.spec.volume import sub_path_calls
from actors.rules.container.sysctl import forbidden_sysctl
from api.ids import Uid
from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import Pod, PodSecurityContext
from api.kube.validation.security import dotted
from api.ports.confinement import IdMapping, Pairs
from api.ports.node import NodeFacts, NodeFiles
from api.ports.podfiles import PrepareContainer
from api.ports.runtime import ContainerSpec, SandboxSpec
from api.ports.volumes import PrepareSubPath

NO_FILES = NodeFiles()


def sandbox_spec(
    pod: Pod,
    attempt: int,
    node: NodeFacts,
    files: NodeFiles = NO_FILES,
    *,
    lookups: Lookups = NO_LOOKUPS,
    users: tuple[IdMapping, ...] = (),
    volume_groups: tuple[int, ...] = (),
) -> SandboxSpec | ConfigProblem:
    """Return the sandbox that `pod` needs, or why there cannot be one.

    `users` are the ids set aside for a pod with ``hostUsers: false``; `volume_groups` the groups that its volumes need.
    """
    plain = SandboxSpec(
        uid=Uid(pod.metadata.uid),
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        attempt=attempt,
        labels=sandbox_labels(pod),
        annotations=sandbox_annotations(pod),
        hostname=(pod.spec.hostname or pod.metadata.name)[:LONGEST_LABEL].rstrip("-."),
        log_directory=log_directory(node.log_root, pod),
        host_network=pod.spec.host_network,
        grace_s=own_grace_s(pod),
    )
    if not node.confined:
        return plain
    try:
        return confined_sandbox(plain, pod, node, files, lookups, users, volume_groups)
    except Unfit as unfit:
        return at_sandbox(unfit.problem)


def at_sandbox(problem: ConfigProblem) -> ConfigProblem:
    """Return a problem with the reason of a sandbox in place of a container's."""
    if problem.reason != CONTAINER:
        return problem
    return ConfigProblem(reason=SANDBOX, message=problem.message)


def confined_sandbox(
    plain: SandboxSpec,
    pod: Pod,
    node: NodeFacts,
    files: NodeFiles,
    lookups: Lookups,
    users: tuple[IdMapping, ...],
    volume_groups: tuple[int, ...],
) -> SandboxSpec:
    """Return the sandbox with everything that confines it. Raises `Unfit`."""
    handler = runtime_handler(pod, lookups)
    check_apparmor(pod, node)
    check_users(pod, node, users, handler)
    context = pod.spec.security_context or PodSecurityContext()
    return msgspec.structs.replace(
        plain,
        hostname=sandbox_hostname(pod, node),
        runtime_handler=handler,
        dns=resolver(pod, node, files).dns,
        ports=port_mappings(pod),
        cgroup_parent=cgroup_parent(pod, node),
        sysctls=sysctls(pod, node),
        namespaces=namespaces(pod, users),
        security=sandbox_security(pod, node, volume_groups),
        user=context.run_as_user,
        group=context.run_as_group,
        resources=sandbox_resources(pod, node),
        overhead=overhead_resources(pod, node),
    )


def sandbox_warnings(pod: Pod, node: NodeFacts, files: NodeFiles) -> tuple[ConfigWarning, ...]:
    """Return what was cut or fell back in the sandbox's configuration: one Warning event each."""
    if not node.confined:
        return ()
    try:
        return resolver(pod, node, files).warnings
    except Unfit:
        # Then there is no sandbox, and its problem is published instead.
        return ()


def container_spec(
    pod: Pod,
    container: Container | EphemeralContainer,
    attempt: int,
    node: NodeFacts,
    *,
    image: RunImage | None = None,
    lookups: Lookups = NO_LOOKUPS,
    ips: tuple[str, ...] = (),
    target_id: str = "",
    users: tuple[IdMapping, ...] = (),
    volumes: tuple[VolumePath, ...] = (),
    sub_paths: tuple[SubPath, ...] = (),
    volume_groups: tuple[int, ...] = (),
) -> ContainerSpec | ConfigProblem:
    """Return the spec of instance number `attempt`, or why there cannot be one.

    `image` is the pulled image, None where the runtime resolves the name itself; `ips` are those of the pod's sandbox;
    `target_id` is the target of an ephemeral container; `volumes` are those that are ready, `sub_paths` the prepared
    subPaths of this container.
    """
    try:
        env = environment(container, pod, node, ips, lookups.services)
        who = run_as(pod, container, image)
        values = {variable.name: variable.value for variable in env}
        plain = ContainerSpec(
            name=container.name,
            attempt=attempt,
            image=image.ref if image is not None else container.image,
            image_asked=container.image if image is not None else "",
            command=tuple(expand(word, values) for word in container.command),
            args=tuple(expand(word, values) for word in container.args),
            working_dir=container.working_dir,
            env=env,
            labels=container_labels(pod, container),
            annotations=container_annotations(pod, container, attempt),
            log_path=log_path(container.name, attempt),
            user=who.user,
            user_name=who.user_name,
            group=who.group,
        )
        if not node.confined:
            own = volume_mounts(container, node, volumes, sub_paths, "")
            return msgspec.structs.replace(plain, mounts=own)
        return confined_container(
            plain, pod, container, node, lookups, ips, target_id, users, volumes, sub_paths, volume_groups
        )
    except Unfit as unfit:
        return unfit.problem


def confined_container(
    plain: ContainerSpec,
    pod: Pod,
    container: Container | EphemeralContainer,
    node: NodeFacts,
    lookups: Lookups,
    ips: tuple[str, ...],
    target_id: str,
    users: tuple[IdMapping, ...],
    volumes: tuple[VolumePath, ...],
    sub_paths: tuple[SubPath, ...],
    volume_groups: tuple[int, ...],
) -> ContainerSpec:
    """Return the container with everything that confines and equips it. Raises `Unfit`."""
    handler = runtime_handler(pod, lookups)
    target = container.target_container_name if isinstance(container, EphemeralContainer) else ""
    if target and not target_id:
        refuse(f"unable to find target container {target}")
    return msgspec.structs.replace(
        plain,
        stop_signal=stop_signal(container, node),
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        host_network=pod.spec.host_network,
        namespaces=namespaces(pod, users, target_id),
        security=container_security(pod, container, node, volume_groups),
        resources=container_resources(pod, container, node),
        mounts=mounts(pod, container, plain.attempt, node, ips, volumes, sub_paths, handler),
        devices=devices(container, volumes),
    )


def container_sub_paths(
    pod: Pod,
    container: Container | EphemeralContainer,
    attempt: int,
    node: NodeFacts,
    ips: tuple[str, ...],
    volumes: tuple[VolumePath, ...],
    lookups: Lookups = NO_LOOKUPS,
) -> tuple[PrepareSubPath, ...] | ConfigProblem:
    """Return the calls that prepare the subPaths which `container_spec` mounts; they go before CreateContainer."""
    if not any(mount.sub_path or mount.sub_path_expr for mount in container.volume_mounts):
        return ()
    try:
        env = environment(container, pod, node, ips, lookups.services)
        values = {variable.name: variable.value for variable in env}
        return sub_path_calls(pod, container, attempt, values, volumes)
    except Unfit as unfit:
        return unfit.problem


def container_files(
    pod: Pod,
    container: Container | EphemeralContainer,
    attempt: int,
    node: NodeFacts,
    files: NodeFiles,
    ips: tuple[str, ...],
) -> PrepareContainer | ConfigProblem | None:
    """Return the call that writes the files which `container_spec` mounts; it goes before CreateContainer.

    None where nothing is mounted.
    """
    if not node.confined:
        return None
    try:
        hosts = hosts_text(pod, node, files, ips) if manages_hosts(pod, container, ips) else None
    except Unfit as unfit:
        return ConfigProblem(reason=CONTAINER, message=unfit.problem.message)
    ending = bool(container.termination_message_path)
    if hosts is None and not ending:
        return None
    return PrepareContainer(
        uid=Uid(pod.metadata.uid), container=container.name, attempt=attempt, hosts=hosts, ending=ending
    )


def stop_signal(container: Container | EphemeralContainer, node: NodeFacts) -> str:
    """Return the stop signal of a container, empty for the image's own. Raises `Unfit`."""
    signal = container.lifecycle.stop_signal if container.lifecycle is not None else ""
    if signal and not node.stop_signals:
        refuse(
            f"stop signal {signal}: this runtime stops every container with its image's own signal; containerd 2.3 and"
            " CRI-O 1.34 support lifecycle.stopSignal"
        )
    return signal


def runtime_handler(pod: Pod, lookups: Lookups) -> str:
    """Return the runtime handler of the pod. Without an API server a RuntimeClass has the name of its handler."""
    return pod.spec.runtime_class_name if lookups.handler is None else lookups.handler


def sysctls(pod: Pod, node: NodeFacts) -> Pairs:
    """Return the pod's sysctls, written with dots. Raises `Unfit` for a forbidden one."""
    spec = pod.spec
    found = {}
    for one in (spec.security_context or PodSecurityContext()).sysctls:
        name = dotted(one.name)
        why = forbidden_sysctl(
            name, host_network=spec.host_network, host_ipc=spec.host_ipc, allowed=node.allowed_sysctls
        )
        if why:
            refuse(why, "SysctlForbidden")
        found[name] = one.value
    return tuple(sorted(found.items()))
