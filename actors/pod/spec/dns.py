"""DNS of a pod: policy, the node's own resolver, what the pod adds, and the limits of resolvers.

Reference ``runtime-cri`` section 15.
"""

import msgspec

from actors.pod.spec.problem import SANDBOX, ConfigWarning, refuse
from api.kube.objects.pod import Pod, PodDNSConfig
from api.ports.confinement import Dns
from api.ports.node import NodeFacts, NodeFiles

CLUSTER_OPTIONS = ("ndots:5",)
SERVER_LIMIT = 3
SEARCH_LIMIT = 32
SEARCH_LINE_LIMIT = 2048
"""Characters of all search domains with the spaces between them."""
SEARCH_NAME_LIMIT = 253
FORMING = "DNSConfigForming"


class ResolvConf(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a pod's resolv.conf, and what was cut."""

    dns: Dns = Dns()
    warnings: tuple[ConfigWarning, ...] = ()


def resolver(pod: Pod, node: NodeFacts, files: NodeFiles) -> ResolvConf:
    """Return the pod's resolver. Raises `Unfit` when the node's own is needed and cannot be read."""
    spec = pod.spec
    warnings: list[ConfigWarning] = []
    policy = spec.dns_policy or "ClusterFirst"
    if policy == "ClusterFirstWithHostNet":
        policy = "ClusterFirst"
    elif policy == "ClusterFirst" and spec.host_network:
        policy = "Default"
    if policy == "ClusterFirst" and not node.cluster_dns:
        message = (
            "no clusterDNS is configured on this node, so the pod's dnsPolicy ClusterFirst falls back to Default; set"
            " clusterDNS in the agent's configuration, or dnsPolicy: Default in the pod"
        )
        warnings.append(ConfigWarning(reason="MissingClusterDNS", message=message))
        policy = "Default"
    match policy:
        case "None":
            dns = Dns()
        case "Default":
            dns, told = of_node(node, files)
            warnings += told
        case "ClusterFirst":
            own, told = of_node(node, files, must=False)
            warnings += told
            dns = of_cluster(pod, node, own)
        case _:
            refuse(f"unknown dnsPolicy {policy}", SANDBOX)
    dns = with_pods_own(dns, spec.dns_config) if spec.dns_config is not None else dns
    limited = within_limits(dns)
    return ResolvConf(dns=limited.dns, warnings=(*warnings, *limited.warnings))


def of_node(node: NodeFacts, files: NodeFiles, *, must: bool = True) -> tuple[Dns, tuple[ConfigWarning, ...]]:
    """Return the node's own resolver, and what is wrong with its file."""
    if not node.resolv_conf:
        is_v6 = bool(node.ips) and ":" in node.ips[0]
        return Dns(servers=("::1" if is_v6 else "127.0.0.1",), searches=(".",)) if must else Dns(), ()
    found = files.resolver
    if found is None:
        why = "; ".join(one.message for one in files.problems if one.where == node.resolv_conf)
        refuse(
            f"could not read the node's resolver file {node.resolv_conf}: {why or 'it was not read yet'}",
            SANDBOX,
        )
    told = tuple(
        ConfigWarning(reason=FORMING, message=f"{one.where}: {one.message}") for one in found.problems
    )
    return Dns(servers=found.servers, searches=found.searches, options=found.options), told


def of_cluster(pod: Pod, node: NodeFacts, own: Dns) -> Dns:
    """Return the cluster's resolver: its servers and domains, then the node's domains."""
    domain = node.cluster_domain
    searches = (f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain) if domain else ()
    return Dns(servers=node.cluster_dns, searches=unique((*searches, *own.searches)), options=CLUSTER_OPTIONS)


def with_pods_own(dns: Dns, config: PodDNSConfig) -> Dns:
    """Return a resolver with what the pod adds; its options win over those of the same name."""
    wanted = {one.name: f"{one.name}:{one.value}" if one.value else one.name for one in config.options}
    kept = {text.partition(":")[0]: text for text in dns.options}
    return Dns(
        servers=unique((*dns.servers, *config.nameservers)),
        searches=unique((*dns.searches, *config.searches)),
        options=tuple({**kept, **wanted}.values()),
    )


def within_limits(dns: Dns) -> ResolvConf:
    """Return the part within the limits of resolvers, with a warning for each list that was cut."""
    warnings = []
    servers = dns.servers[:SERVER_LIMIT]
    if servers != dns.servers:
        message = (
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is:"
            f" {' '.join(servers)}"
        )
        warnings.append(ConfigWarning(reason=FORMING, message=message))
    searches = tuple(one for one in dns.searches[:SEARCH_LIMIT] if len(one) <= SEARCH_NAME_LIMIT)
    while len(" ".join(searches)) > SEARCH_LINE_LIMIT:
        searches = searches[:-1]
    if searches != dns.searches:
        message = (
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is:"
            f" {' '.join(searches)}"
        )
        warnings.append(ConfigWarning(reason=FORMING, message=message))
    return ResolvConf(
        dns=Dns(servers=servers, searches=searches, options=dns.options), warnings=tuple(warnings)
    )


def unique(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return each text once, where it stands first."""
    return tuple(dict.fromkeys(texts))
