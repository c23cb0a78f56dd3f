"""Host name and hosts file of a pod (reference ``runtime-cri`` sections 16.1 and 16.2)."""

import msgspec

from actors.pod.spec.environment import pod_ips
from actors.pod.spec.problem import SANDBOX, refuse
from api.kube.objects.pod import HostAlias, Pod
from api.kube.validation import name as names
from api.ports.node import NodeFacts, NodeFiles

LONGEST_LABEL = 63
LONGEST_HOSTNAME_BYTES = 64
"""The kernel's limit."""

MANAGED = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
ON_HOST = "# Kubernetes-managed hosts file (host network).\n"
ALIASES = "\n# Entries added by HostAliases.\n"


class HostName(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's host name; `domain` is empty without a subdomain."""

    host: str
    domain: str = ""

    @property
    def full(self) -> str:
        """Return both, joined."""
        return f"{self.host}.{self.domain}" if self.domain else self.host


def host_name(pod: Pod, node: NodeFacts) -> HostName:
    """Return the pod's host name. Raises `Unfit` for an invalid one."""
    spec = pod.spec
    if spec.hostname_override:
        return HostName(host=spec.hostname_override[:LONGEST_LABEL])
    for what, given in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if given and not names.LABEL.accepts(given):
            refuse(f'pod {what} "{given}" is not a valid DNS label: expected {names.LABEL.expected}', SANDBOX)
    host = (spec.hostname or pod.metadata.name)[:LONGEST_LABEL].rstrip("-.")
    if not host:
        refuse(f'hostname of pod "{pod.metadata.name}" is empty after cutting it to {LONGEST_LABEL}', SANDBOX)
    if not spec.subdomain:
        return HostName(host=host)
    parts = (spec.subdomain, pod.metadata.namespace, "svc", node.cluster_domain)
    return HostName(host=host, domain=".".join(part for part in parts if part))


def sandbox_hostname(pod: Pod, node: NodeFacts) -> str:
    """Return the host name of a sandbox, empty on the host's network: then it is the node's."""
    if pod.spec.host_network:
        return ""
    name = host_name(pod, node)
    if not (pod.spec.set_hostname_as_fqdn and name.domain):
        return name.host
    if len(name.full) > LONGEST_HOSTNAME_BYTES:
        refuse(
            f"Failed to construct FQDN from Pod hostname and cluster domain, FQDN {name.full} is too long"
            f" ({LONGEST_HOSTNAME_BYTES} characters is the max, {len(name.full)} characters requested)",
            SANDBOX,
        )
    return name.full


def hosts_text(pod: Pod, node: NodeFacts, files: NodeFiles, ips: tuple[str, ...]) -> str:
    """Return the pod's hosts file; `ips` are its addresses as the sandbox shows them."""
    aliases = alias_lines(pod.spec.host_aliases)
    if pod.spec.host_network:
        own = files.hosts if files.hosts.endswith("\n") or not files.hosts else f"{files.hosts}\n"
        return f"{ON_HOST}{own}{aliases}"
    name = host_name(pod, node)
    called = f"{name.full}\t{name.host}" if name.domain else name.host
    lines = "".join(f"{ip}\t{called}\n" for ip in pod_ips(pod, node, ips))
    return f"{MANAGED}{lines}{aliases}"


def alias_lines(aliases: tuple[HostAlias, ...]) -> str:
    """Return the lines that the pod adds, empty when it adds none."""
    if not aliases:
        return ""
    return ALIASES + "".join("\t".join((alias.ip, *alias.hostnames)) + "\n" for alias in aliases)
