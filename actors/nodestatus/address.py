"""The addresses of a node's status (specification 3.6): the configured ones, else the machine's own, and its host name."""

from ipaddress import IPv4Address, IPv6Address, ip_address

from msgspec.structs import replace

from actors.nodestatus.state import NodeStatusSettings
from api.kube.objects.node import Node, NodeAddress
from api.kube.objects.strmap import StrMap
from api.ports.node import NodeFacts

PROVIDED_IP = "alpha.kubernetes.io/provided-node-ip"


def with_addresses(node: Node, settings: NodeStatusSettings, machine: NodeFacts) -> tuple[Node, str]:
    """Return the Node with its addresses, and why they could not be found and stay as they were (empty: they were found)."""
    wanted = tuple(ip for ip in settings.node_ips if not is_unspecified(ip))
    for number, ip in enumerate(wanted):
        why = why_not(ip)
        if why:
            which = "secondaryNodeIP" if number else "nodeIP"
            return node, f"failed to validate {which}: {why}"
    node = with_provided(node, settings, wanted)
    hostname = NodeAddress(type="Hostname", address=settings.node_name)
    if settings.external_cloud:
        if node.status.addresses:
            return node, ""
        if not settings.node_ips:
            return with_list(node, (hostname,)), ""
    found = wanted or usable(settings, machine)
    if not found:
        return node, (
            f"can't get ip address of node {settings.node_name}. error: the machine has no address that other machines"
            f" reach ({', '.join(machine.ips) or 'none at all'}); set --node-ip"
        )
    internal = tuple(NodeAddress(type="InternalIP", address=ip) for ip in found)
    return with_list(node, (*internal, hostname)), ""


def usable(settings: NodeStatusSettings, machine: NodeFacts) -> tuple[str, ...]:
    """Return the machine's address of the preferred family that may be one of a node, else one of the other; () for none."""
    prefers_six = any(":" in ip for ip in settings.node_ips)
    right = [ip for ip in machine.ips if not why_not(ip)]
    right.sort(key=lambda ip: (":" in ip) is not prefers_six)
    return tuple(right[:1])


def with_provided(node: Node, settings: NodeStatusSettings, wanted: tuple[str, ...]) -> Node:
    """Return the Node with the annotation by which a cloud controller knows the configured addresses, or without it."""
    known = node.metadata.annotations
    text = ",".join(wanted) if settings.external_cloud else ""
    if known.get(PROVIDED_IP, "") == text and (text or PROVIDED_IP not in known):
        return node
    kept = {key: value for key, value in known.items() if key != PROVIDED_IP}
    annotations = StrMap({**kept, PROVIDED_IP: text} if text else kept)
    return replace(node, metadata=replace(node.metadata, annotations=annotations))


def with_list(node: Node, addresses: tuple[NodeAddress, ...]) -> Node:
    """Return the Node with these addresses."""
    return replace(node, status=replace(node.status, addresses=addresses))


def parsed(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address, None for what is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_unspecified(text: str) -> bool:
    """Return whether this is ``0.0.0.0`` or ``::``."""
    ip = parsed(text)
    return ip is not None and ip.is_unspecified


def why_not(text: str) -> str:
    """Return why this cannot be the address of a node, empty if it can."""
    ip = parsed(text)
    if ip is None:
        return f"{text!r} is no IP address"
    for is_wrong, why in (
        (ip.is_loopback, "nodeIP can't be loopback address"),
        (ip.is_multicast, "nodeIP can't be a multicast address"),
        (ip.is_link_local, "nodeIP can't be a link-local unicast address"),
        (ip.is_unspecified, "nodeIP can't be an all zeros address"),
    ):
        if is_wrong:
            return why
    return ""
