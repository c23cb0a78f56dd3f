"""Rules of a Pod as an API server checks them; a static pod never passes one, so the node checks them itself."""

from api.kube.objects.container import Container
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.pod import Pod, PodDNSConfig, PodSpec
from api.kube.validation import name as names
from api.kube.validation.check import Check
from api.kube.validation.container import (
    RESTART_POLICIES,
    check_ephemeral,
    check_init,
    check_regular,
    surroundings,
)
from api.kube.validation.placement import check_placement
from api.kube.validation.resource import POD_LEVEL, check_amounts, check_pod_level, check_resources
from api.kube.validation.security import check_pod_security
from api.kube.validation.volume import check_volume
from api.problem import FieldProblem, joined

ANNOTATIONS_LIMIT_BYTES = 256 << 10
DEADLINE_LIMIT_S = (1 << 31) - 1
DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
NAME_SERVERS_LIMIT = 3
SEARCHES_LIMIT = 32
SEARCHES_LIMIT_CHARS = 2048
HOST_NAME_LIMIT = 64


def validate_pod(pod: Pod) -> tuple[FieldProblem, ...]:
    """Return all problems of a defaulted Pod, in the order of its fields."""
    check = Check()
    check_meta(check, pod.metadata)
    check_spec(check, pod.spec)
    return tuple(check.problems)


def check_meta(check: Check, meta: ObjectMeta) -> None:
    """Check name, namespace, labels and annotations."""
    hint = "; generateName needs an API server" if meta.generate_name else ""
    if check.required("metadata.name", meta.name, f"a name: {names.SUBDOMAIN.expected}{hint}"):
        check.matches("metadata.name", meta.name, names.SUBDOMAIN)
    check.matches("metadata.namespace", meta.namespace, names.LABEL, optional=True)
    check.labels("metadata.labels", meta.labels)
    size = 0
    for key, value in meta.annotations.items():
        size += len(key.encode()) + len(value.encode())
        check.matches(joined("metadata.annotations", key), key.lower(), names.QUALIFIED)
    if size > ANNOTATIONS_LIMIT_BYTES:
        check.note("metadata.annotations", f"{size} bytes", f"at most {ANNOTATIONS_LIMIT_BYTES} bytes in all")


def check_spec(check: Check, spec: PodSpec) -> None:
    """Check the spec and all its parts."""
    check_containers(check, spec)
    for index, volume in enumerate(spec.volumes):
        check_volume(check, volume, f"spec.volumes[{index}]")
    check.unique("spec.volumes", (volume.name for volume in spec.volumes), "name", "a name")
    check.one_of("spec.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    check.within("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0)
    check.within("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1, DEADLINE_LIMIT_S)
    check_dns(check, spec)
    check_identity(check, spec)
    check_host_names(check, spec)
    check_pod_security(check, spec.security_context, spec, "spec.securityContext")
    check_placement(check, spec)
    check_claims(check, spec)
    check_amounts(check, spec.overhead, "spec.overhead")
    if spec.resources is not None:
        claims = frozenset(claim.name for claim in spec.resource_claims)
        check_resources(check, spec.resources, "spec.resources", claims, POD_LEVEL)
        check_pod_level(check, spec.resources, spec.containers, spec.init_containers)


def check_containers(check: Check, spec: PodSpec) -> None:
    """Check all containers: each by its kind, unique names across kinds, unique host ports."""
    pod = surroundings(spec)
    check.required("spec.containers", spec.containers, "at least one container")
    named: dict[str, str] = {}
    for group, containers in spec.container_groups():
        for index, container in enumerate(containers):
            path = f"spec.{group}[{index}]"
            if not isinstance(container, Container):
                check_ephemeral(check, container, path, pod)
            elif group == "initContainers":
                check_init(check, container, path, pod)
            else:
                check_regular(check, container, path, pod)
            if container.name and container.name in named:
                expected = f"a unique name ({named[container.name]} has the same)"
                check.wrong(f"{path}.name", container.name, expected)
            named.setdefault(container.name, path)
    check_host_ports(check, spec)


def check_host_ports(check: Check, spec: PodSpec) -> None:
    """Check that no two containers that run at the same time have the same host port."""
    sidecars = [
        (f"spec.initContainers[{index}]", one)
        for index, one in enumerate(spec.init_containers)
        if one.restart_policy == "Always"
    ]
    regular = [(f"spec.containers[{index}]", one) for index, one in enumerate(spec.containers)]
    taken: dict[tuple[str, str, int], str] = {}
    for path, container in (*sidecars, *regular):
        for index, port in enumerate(container.ports):
            key = (port.protocol, port.host_ip, port.host_port)
            place = f"{path}.ports[{index}].hostPort"
            if port.host_port and key in taken:
                check.wrong(place, port.host_port, f"a free host port ({taken[key]} has the same)")
            taken.setdefault(key, place)


def check_dns(check: Check, spec: PodSpec) -> None:
    """Check DNS policy and configuration."""
    check.one_of("spec.dnsPolicy", spec.dns_policy, DNS_POLICIES)
    config = spec.dns_config
    if spec.dns_policy == "None" and (config is None or not config.nameservers):
        check.required(
            "spec.dnsConfig.nameservers", None, "at least one name server, since dnsPolicy is None"
        )
    if config is not None:
        check_dns_config(check, config, "spec.dnsConfig")


def check_dns_config(check: Check, config: PodDNSConfig, path: str) -> None:
    """Check name servers, search domains and options."""
    if len(config.nameservers) > NAME_SERVERS_LIMIT:
        check.note(
            f"{path}.nameservers", f"{len(config.nameservers)} name servers", f"at most {NAME_SERVERS_LIMIT}"
        )
    for index, server in enumerate(config.nameservers):
        if not names.is_ip(server):
            check.wrong(f"{path}.nameservers[{index}]", server, "an IP address")
    if len(config.searches) > SEARCHES_LIMIT:
        check.note(f"{path}.searches", f"{len(config.searches)} domains", f"at most {SEARCHES_LIMIT}")
    if len(" ".join(config.searches)) > SEARCHES_LIMIT_CHARS:
        found = f"{len(' '.join(config.searches))} characters"
        check.note(f"{path}.searches", found, f"at most {SEARCHES_LIMIT_CHARS} in all")
    for index, domain in enumerate(config.searches):
        # A lone dot is the root, a trailing one says that the name is complete; underscores are in use.
        if domain != ".":
            check.matches(
                f"{path}.searches[{index}]", domain.removesuffix(".").replace("_", "a"), names.SUBDOMAIN
            )
    for index, option in enumerate(config.options):
        check.required(f"{path}.options[{index}].name", option.name, "the name of an option")


def check_identity(check: Check, spec: PodSpec) -> None:
    """Check references by name and readiness gates."""
    check.matches("spec.nodeName", spec.node_name, names.SUBDOMAIN, optional=True)
    check.matches("spec.serviceAccountName", spec.service_account_name, names.SUBDOMAIN, optional=True)
    check.matches("spec.priorityClassName", spec.priority_class_name, names.SUBDOMAIN, optional=True)
    check.matches("spec.runtimeClassName", spec.runtime_class_name, names.SUBDOMAIN, optional=True)
    check.one_of("spec.preemptionPolicy", spec.preemption_policy, ("Never", "PreemptLowerPriority"))
    for index, gate in enumerate(spec.readiness_gates):
        check.matches(f"spec.readinessGates[{index}].conditionType", gate.condition_type, names.QUALIFIED)
    for index, scheduling in enumerate(spec.scheduling_gates):
        check.matches(f"spec.schedulingGates[{index}].name", scheduling.name, names.QUALIFIED)
    check.unique("spec.schedulingGates", (one.name for one in spec.scheduling_gates), "name", "a name")
    if spec.os is not None:
        check.one_of("spec.os.name", spec.os.name, ("linux", "windows"), optional=False)


def check_host_names(check: Check, spec: PodSpec) -> None:
    """Check the pod's host names and host aliases."""
    check.matches("spec.hostname", spec.hostname, names.LABEL, optional=True)
    check.matches("spec.subdomain", spec.subdomain, names.LABEL, optional=True)
    override = spec.hostname_override
    if override:
        check.matches("spec.hostnameOverride", override, names.SUBDOMAIN)
        if len(override) > HOST_NAME_LIMIT:
            check.wrong("spec.hostnameOverride", override, f"at most {HOST_NAME_LIMIT} characters")
        for name, on in (
            ("hostNetwork", spec.host_network),
            ("setHostnameAsFQDN", bool(spec.set_hostname_as_fqdn)),
        ):
            if on:
                check.wrong("spec.hostnameOverride", override, f"nothing where {name} is true")
    for index, alias in enumerate(spec.host_aliases):
        path = f"spec.hostAliases[{index}]"
        if check.required(f"{path}.ip", alias.ip, "an IP address") and not names.is_ip(alias.ip):
            check.wrong(f"{path}.ip", alias.ip, "an IP address")
        for place, host in enumerate(alias.hostnames):
            check.matches(f"{path}.hostnames[{place}]", host, names.SUBDOMAIN)


def check_claims(check: Check, spec: PodSpec) -> None:
    """Check the pod's resource claims."""
    for index, claim in enumerate(spec.resource_claims):
        path = f"spec.resourceClaims[{index}]"
        check.matches(f"{path}.name", claim.name, names.LABEL)
        chosen = {
            "resourceClaimName": claim.resource_claim_name or None,
            "resourceClaimTemplateName": claim.resource_claim_template_name or None,
        }
        check.exactly_one(path, chosen, "source")
    check.unique("spec.resourceClaims", (claim.name for claim in spec.resource_claims), "name", "a name")
