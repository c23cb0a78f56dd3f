"""Addresses in a pod's status (reference ``pod-lifecycle`` section 10.5)."""

from actors.rules.container.instance import ready_sandboxes
from api.kube.objects.pod import Pod
from api.kube.objects.podstatus import PodStatus
from api.ports.runtime import RuntimePod


def pod_addresses(
    pod: Pod, observed: RuntimePod | None, base: PodStatus, node_ips: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the pod's addresses: at most one of each family, that of the node's primary address first.

    They stay when the sandbox is removed; without published ones those of the source count. On the host's network they
    are the node's, and never change except for a second family.
    """
    known = tuple(one.ip for one in base.pod_ips) or tuple(one.ip for one in pod.status.pod_ips)
    if pod.spec.host_network:
        return of_host(known, node_ips)
    ready = ready_sandboxes(observed)
    ips = ready[0].ips if ready and ready[0].ips else known
    return one_of_each_family(ips, node_ips[0] if node_ips else "")


def of_host(known: tuple[str, ...], node_ips: tuple[str, ...]) -> tuple[str, ...]:
    """Return the addresses of a pod on the host's network."""
    if not known:
        return one_of_each_family(node_ips, "")
    second = (ip for ip in node_ips if is_v6(ip) != is_v6(known[0]))
    return known if len(known) > 1 else (*known, *tuple(second)[:1])


def one_of_each_family(ips: tuple[str, ...], primary: str) -> tuple[str, ...]:
    """Return the first address of each family, the family of `primary` first where that is given."""
    found: dict[bool, str] = {}
    for ip in ips:
        found.setdefault(is_v6(ip), ip)
    lead = is_v6(primary) if primary else next(iter(found), False)
    return tuple(found[family] for family in (lead, not lead) if family in found)


def is_v6(ip: str) -> bool:
    """Return whether an address is of version 6."""
    return ":" in ip
