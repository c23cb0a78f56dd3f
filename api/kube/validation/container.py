"""Rules of containers: names, images, ports, environment, mounts, rights, restart rules."""

import msgspec

from api.kube.objects.container import (
    Container,
    ContainerPort,
    ContainerRestartRule,
    EnvVar,
    EnvVarSource,
    EphemeralContainer,
    VolumeMount,
)
from api.kube.objects.pod import PodSpec
from api.kube.validation import name as names
from api.kube.validation.check import Check
from api.kube.validation.handler import check_lifecycle, check_probe
from api.kube.validation.resource import check_resources
from api.kube.validation.security import check_container_security
from api.kube.validation.volume import PULL_POLICIES, check_field
from api.problem import shown
from api.shortening import shortened

PROTOCOLS = ("TCP", "UDP", "SCTP")
RESTART_POLICIES = ("Always", "OnFailure", "Never")
RULES_LIMIT = 20
KNOWN_LIMIT = 200
"""Characters of a list of allowed names."""
CODES_LIMIT = 255
ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
ENV_FIELDS_EXPECTED = (
    f"one of {', '.join(ENV_FIELDS)}, metadata.labels['<key>'], metadata.annotations['<key>']"
)
ENV_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)


class PodContext(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a pod that the rules of its containers need."""

    volumes: frozenset[str]
    claims: frozenset[str]
    containers: frozenset[str]
    on_host: bool
    grace_s: int | None
    host_users: bool


def surroundings(spec: PodSpec) -> PodContext:
    """Return the fields of `spec` that the rules of its containers need."""
    return PodContext(
        volumes=frozenset(volume.name for volume in spec.volumes),
        claims=frozenset(claim.name for claim in spec.resource_claims),
        containers=frozenset(one.name for one in (*spec.containers, *spec.init_containers)),
        on_host=spec.host_network,
        grace_s=spec.termination_grace_period_seconds,
        host_users=spec.host_users is not False,
    )


def check_container(
    check: Check, container: Container | EphemeralContainer, path: str, pod: PodContext
) -> None:
    """Check the rules of every container."""
    check.matches(f"{path}.name", container.name, names.LABEL)
    image = container.image
    if check.required(f"{path}.image", image.strip(), "the name of an image") and image != image.strip():
        check.wrong(f"{path}.image", image, "the name of an image without spaces around it")
    check.one_of(f"{path}.imagePullPolicy", container.image_pull_policy, PULL_POLICIES)
    check.one_of(
        f"{path}.terminationMessagePolicy",
        container.termination_message_policy,
        ("File", "FallbackToLogsOnError"),
    )
    check_ports(check, container.ports, f"{path}.ports", pod.on_host)
    check_environment(check, container, path, pod)
    check_mounts(check, container, path, pod)
    check_resources(check, container.resources, f"{path}.resources", pod.claims)
    for index, policy in enumerate(container.resize_policy):
        check.one_of(
            f"{path}.resizePolicy[{index}].resourceName",
            policy.resource_name,
            ("cpu", "memory"),
            optional=False,
        )
        allowed = ("NotRequired", "RestartContainer")
        check.one_of(
            f"{path}.resizePolicy[{index}].restartPolicy", policy.restart_policy, allowed, optional=False
        )
    if container.security_context is not None:
        check_container_security(
            check, container.security_context, f"{path}.securityContext", host_users=pod.host_users
        )


def check_regular(check: Check, container: Container, path: str, pod: PodContext) -> None:
    """Check a regular container."""
    check_container(check, container, path, pod)
    check_handlers(check, container, path, pod)
    check_restart(check, container, path)


def check_init(check: Check, container: Container, path: str, pod: PodContext) -> None:
    """Check an init container; one with restartPolicy Always is a sidecar and may be probed."""
    check_container(check, container, path, pod)
    check_restart(check, container, path)
    if container.restart_policy == "Always":
        check_handlers(check, container, path, pod)
        return
    for name, value in (
        ("lifecycle", container.lifecycle),
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if value is not None:
            check.note(
                f"{path}.{name}",
                name,
                "nothing: only an init container with restartPolicy Always may have it",
            )


def check_ephemeral(check: Check, container: EphemeralContainer, path: str, pod: PodContext) -> None:
    """Check an ephemeral container, which is never restarted, probed or given resources."""
    check_container(check, container, path, pod)
    target = container.target_container_name
    if target and target not in pod.containers:
        check.wrong(f"{path}.targetContainerName", target, "the name of one of the pod's containers")
    forbidden = {
        "ports": container.ports,
        "livenessProbe": container.liveness_probe,
        "readinessProbe": container.readiness_probe,
        "startupProbe": container.startup_probe,
        "lifecycle": container.lifecycle,
        "resources": container.resources.limits or container.resources.requests or container.resources.claims,
        "restartPolicy": container.restart_policy,
        "restartPolicyRules": container.restart_policy_rules,
    }
    for name, value in forbidden.items():
        if value:
            check.note(f"{path}.{name}", name, "nothing: an ephemeral container may not have it")
    for index, mount in enumerate(container.volume_mounts):
        if mount.sub_path or mount.sub_path_expr:
            check.note(
                f"{path}.volumeMounts[{index}]",
                "a subPath",
                "nothing: an ephemeral container may not have it",
            )


def check_handlers(check: Check, container: Container, path: str, pod: PodContext) -> None:
    """Check hooks and probes."""
    check_lifecycle(check, container.lifecycle, f"{path}.lifecycle", pod.grace_s)
    check_probe(check, container.liveness_probe, f"{path}.livenessProbe", "livenessProbe")
    check_probe(check, container.readiness_probe, f"{path}.readinessProbe", "readinessProbe")
    check_probe(check, container.startup_probe, f"{path}.startupProbe", "startupProbe")


def check_ports(check: Check, ports: tuple[ContainerPort, ...], path: str, on_host: bool) -> None:
    """Check a container's ports."""
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        check.within(f"{place}.containerPort", port.container_port, 1, 65535)
        check.within(f"{place}.hostPort", port.host_port, 0, 65535)
        check.one_of(f"{place}.protocol", port.protocol, PROTOCOLS)
        check.matches(f"{place}.name", port.name, names.PORT_NAME, optional=True)
        if port.host_ip and not names.is_ip(port.host_ip):
            check.wrong(f"{place}.hostIP", port.host_ip, "an IP address")
        if on_host and port.host_port not in (0, port.container_port):
            check.wrong(
                f"{place}.hostPort",
                port.host_port,
                f"equal to containerPort ({port.container_port}) under hostNetwork",
            )
    check.unique(path, (port.name for port in ports), "name", "a name")


def check_environment(
    check: Check, container: Container | EphemeralContainer, path: str, pod: PodContext
) -> None:
    """Check variables; no problem repeats a value."""
    for index, variable in enumerate(container.env):
        place = f"{path}.env[{index}]"
        if check.required(f"{place}.name", variable.name, "a name") and not names.ENV_NAME.accepts(
            variable.name
        ):
            # A name written as NAME=value holds a value, which may be secret.
            check.note(
                f"{place}.name",
                f"{shown(variable.name.partition('=')[0])} and more",
                names.ENV_NAME.expected,
            )
        check_source(check, variable, f"{place}.valueFrom", pod)
    for index, source in enumerate(container.env_from):
        place = f"{path}.envFrom[{index}]"
        check.exactly_one(
            place, {"configMapRef": source.config_map_ref, "secretRef": source.secret_ref}, "source"
        )
        check.matches(f"{place}.prefix", source.prefix, names.ENV_NAME, optional=True)
        for name, reference in (("configMapRef", source.config_map_ref), ("secretRef", source.secret_ref)):
            if reference is not None:
                check.required(f"{place}.{name}.name", reference.name, "a name")


def check_source(check: Check, variable: EnvVar, path: str, pod: PodContext) -> None:
    """Check where a variable's value comes from."""
    source = variable.value_from
    if source is None:
        return
    if variable.value:
        check.note(path, "both value and valueFrom", "either value or valueFrom")
    chosen = {
        "fieldRef": source.field_ref,
        "resourceFieldRef": source.resource_field_ref,
        "configMapKeyRef": source.config_map_key_ref,
        "secretKeyRef": source.secret_key_ref,
        "fileKeyRef": source.file_key_ref,
    }
    check.exactly_one(path, chosen, "source")
    check_references(check, source, path, pod)


def check_references(check: Check, source: EnvVarSource, path: str, pod: PodContext) -> None:
    """Check what each kind of source needs."""
    if source.field_ref is not None:
        check_field(check, source.field_ref, f"{path}.fieldRef", ENV_FIELDS, ENV_FIELDS_EXPECTED)
    if source.resource_field_ref is not None:
        resource = source.resource_field_ref.resource
        if not resource.startswith(("limits.hugepages-", "requests.hugepages-")):
            check.one_of(f"{path}.resourceFieldRef.resource", resource, ENV_RESOURCES, optional=False)
        if source.resource_field_ref.divisor:
            check.amount(f"{path}.resourceFieldRef.divisor", source.resource_field_ref.divisor)
    for name, keyed in (
        ("configMapKeyRef", source.config_map_key_ref),
        ("secretKeyRef", source.secret_key_ref),
    ):
        if keyed is not None:
            check.required(f"{path}.{name}.name", keyed.name, "a name")
            check.matches(f"{path}.{name}.key", keyed.key, names.CONFIG_KEY)
    if source.file_key_ref is not None:
        file = source.file_key_ref
        check.matches(f"{path}.fileKeyRef.key", file.key, names.ENV_NAME)
        check.required(f"{path}.fileKeyRef.path", file.path, "a relative path")
        check.relative(f"{path}.fileKeyRef.path", file.path)
        if file.volume_name not in pod.volumes:
            check.wrong(
                f"{path}.fileKeyRef.volumeName", file.volume_name, "the name of one of the pod's volumes"
            )


def check_mounts(check: Check, container: Container | EphemeralContainer, path: str, pod: PodContext) -> None:
    """Check mounts and block devices: each names a volume of the pod, each has its own path."""
    privileged = container.security_context is not None and container.security_context.privileged is True
    for index, mount in enumerate(container.volume_mounts):
        check_mount(check, mount, f"{path}.volumeMounts[{index}]", pod, privileged=privileged)
    places = (mount.mount_path for mount in container.volume_mounts)
    check.unique(f"{path}.volumeMounts", places, "mountPath", "a path")
    mounted = {mount.name for mount in container.volume_mounts}
    for index, device in enumerate(container.volume_devices):
        place = f"{path}.volumeDevices[{index}]"
        if (
            check.required(f"{place}.name", device.name, "the name of a volume")
            and device.name not in pod.volumes
        ):
            check.wrong(f"{place}.name", device.name, "the name of one of the pod's volumes")
        if device.name and device.name in mounted:
            check.wrong(f"{place}.name", device.name, "a volume that is not also in volumeMounts")
        check.required(f"{place}.devicePath", device.device_path, "a path")


def check_mount(check: Check, mount: VolumeMount, path: str, pod: PodContext, *, privileged: bool) -> None:
    """Check one mount."""
    if check.required(f"{path}.name", mount.name, "the name of a volume") and mount.name not in pod.volumes:
        known = shortened(", ".join(sorted(pod.volumes)), KNOWN_LIMIT) or "it has none"
        check.wrong(f"{path}.name", mount.name, f"the name of one of the pod's volumes ({known})")
    check.required(f"{path}.mountPath", mount.mount_path, "a path in the container")
    check.relative(f"{path}.subPath", mount.sub_path)
    check.relative(f"{path}.subPathExpr", mount.sub_path_expr)
    if mount.sub_path and mount.sub_path_expr:
        check.note(f"{path}.subPathExpr", "both subPath and subPathExpr", "either subPath or subPathExpr")
    check.one_of(
        f"{path}.mountPropagation", mount.mount_propagation, ("None", "HostToContainer", "Bidirectional")
    )
    if mount.mount_propagation == "Bidirectional" and not privileged:
        check.wrong(
            f"{path}.mountPropagation",
            mount.mount_propagation,
            "None or HostToContainer unless the container is privileged",
        )
    check.one_of(
        f"{path}.recursiveReadOnly", mount.recursive_read_only, ("Disabled", "IfPossible", "Enabled")
    )
    if mount.recursive_read_only in ("IfPossible", "Enabled"):
        if not mount.read_only:
            check.wrong(
                f"{path}.recursiveReadOnly", mount.recursive_read_only, "Disabled unless readOnly is true"
            )
        if mount.mount_propagation not in ("", "None"):
            check.wrong(
                f"{path}.recursiveReadOnly",
                mount.recursive_read_only,
                "Disabled unless mountPropagation is None",
            )


def check_restart(check: Check, container: Container, path: str) -> None:
    """Check a container's own restart policy and its rules."""
    check.one_of(f"{path}.restartPolicy", container.restart_policy, RESTART_POLICIES)
    rules = container.restart_policy_rules
    if rules and not container.restart_policy:
        check.required(f"{path}.restartPolicy", "", "a restart policy, since restartPolicyRules is set")
    if len(rules) > RULES_LIMIT:
        check.note(f"{path}.restartPolicyRules", f"{len(rules)} rules", f"at most {RULES_LIMIT}")
    for index, rule in enumerate(rules):
        check_rule(check, rule, f"{path}.restartPolicyRules[{index}]")


def check_rule(check: Check, rule: ContainerRestartRule, path: str) -> None:
    """Check one restart rule."""
    check.one_of(f"{path}.action", rule.action, ("Restart", "RestartAllContainers"), optional=False)
    codes = rule.exit_codes
    if codes is None:
        check.required(f"{path}.exitCodes", None, "the exit codes of the rule")
        return
    check.one_of(f"{path}.exitCodes.operator", codes.operator, ("In", "NotIn"), optional=False)
    place = f"{path}.exitCodes.values"
    if check.required(place, codes.values, "at least one exit code") and len(codes.values) > CODES_LIMIT:
        check.note(place, f"{len(codes.values)} exit codes", f"at most {CODES_LIMIT}")
    for index, code in enumerate(codes.values):
        check.within(f"{place}[{index}]", code, 0, 255)
    check.unique(place, map(str, codes.values), "", "an exit code")
