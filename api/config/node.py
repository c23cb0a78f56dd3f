"""Settings of the node: labels, taints, reserved resources."""

from collections.abc import Mapping
from ipaddress import ip_address

from api.kube.objects.kubeletconfiguration import KubeletConfiguration
from api.kube.validation import name as names
from api.ports.node import NodeTaint
from api.problem import FieldProblem, shown

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OWN_DOMAINS = ("kubernetes.io", "k8s.io")
NODE_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
NODE_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
"""Labels of the kubernetes.io domains that a node may set on itself."""

Pairs = tuple[tuple[str, str], ...]


def read_labels(text: str) -> tuple[Pairs, tuple[FieldProblem, ...]]:
    """Read ``--node-labels``: pairs ``key=value`` with commas between."""
    found: dict[str, str] = {}
    problems = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, _, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if not names.QUALIFIED.accepts(key) or (value and not names.LABEL_VALUE.accepts(value)):
            expected = "key=value, each at most 63 letters, digits, '-', '_' and '.'; the key may have a domain prefix"
            problems.append(FieldProblem(path="--node-labels", found=shown(part), expected=expected))
        elif is_reserved(key):
            expected = (
                "a label outside kubernetes.io and k8s.io, or one that a node may set on itself"
                " (kubelet.kubernetes.io/..., node.kubernetes.io/... and the well-known ones)"
            )
            problems.append(FieldProblem(path="--node-labels", found=shown(key), expected=expected))
        else:
            found[key] = value
    return tuple(sorted(found.items())), tuple(problems)


def read_node_ips(text: str) -> tuple[tuple[str, ...], tuple[FieldProblem, ...]]:
    """Read ``--node-ip``: one address, or one of each family with a comma between."""
    parts = tuple(filter(None, (piece.strip() for piece in text.split(","))))
    try:
        found = tuple(ip_address(part) for part in parts)
    except ValueError:
        expected = "an IP address, or two with a comma between"
        return (), (FieldProblem(path="--node-ip", found=shown(text), expected=expected),)
    expected = ""
    if len(found) > 2 or (len(found) == 2 and found[0].version == found[1].version):
        expected = "either a single IP or a dual-stack pair of IPs"
    elif len(found) == 2 and any(ip.is_unspecified for ip in found):
        expected = "a dual-stack pair without '0.0.0.0' or '::'"
    if expected:
        return (), (FieldProblem(path="--node-ip", found=shown(text), expected=expected),)
    return tuple(str(ip) for ip in found), ()


def is_reserved(key: str) -> bool:
    """Return whether a label is in a kubernetes.io domain and a node may not set it on itself."""
    domain, slash, _ = key.partition("/")
    if not slash or key in NODE_LABELS or is_within(domain, NODE_DOMAINS):
        return False
    return is_within(domain, OWN_DOMAINS)


def is_within(domain: str, domains: tuple[str, ...]) -> bool:
    """Return whether a domain is one of these or a subdomain of one."""
    return any(domain == one or domain.endswith(f".{one}") for one in domains)


def read_taints(text: str) -> tuple[tuple[NodeTaint, ...], tuple[FieldProblem, ...]]:
    """Read ``--register-with-taints``: ``key=value:Effect`` or ``key:Effect``, with commas between."""
    found, problems = [], []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        rest, _, effect = part.rpartition(":")
        key, _, value = rest.partition("=")
        right = names.QUALIFIED.accepts(key) and (not value or names.LABEL_VALUE.accepts(value))
        if right and effect in EFFECTS:
            found.append(NodeTaint(key=key, value=value, effect=effect))
        else:
            expected = f"key=value:Effect, the effect one of {', '.join(EFFECTS)}"
            problems.append(FieldProblem(path="--register-with-taints", found=shown(part), expected=expected))
    return tuple(found), tuple(problems)


def taints_of(config: KubeletConfiguration) -> tuple[NodeTaint, ...]:
    """Return the taints that the configuration gives the node."""
    return tuple(
        NodeTaint(key=taint.key or "", value=taint.value or "", effect=taint.effect or "")
        for taint in config.register_with_taints or ()
    )


def reserved_of(reserved: Mapping[str, str] | None) -> Pairs:
    """Return what is reserved, by resource."""
    return tuple(sorted((reserved or {}).items()))
