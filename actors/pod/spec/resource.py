"""Requests and limits as cgroups take them: shares, quota, memory, swap, huge pages, OOM score.

Reference ``runtime-cri`` sections 6.1 to 6.6 and 21. Integer arithmetic throughout.
"""

from collections.abc import Mapping

from actors.rules.container.role import is_sidecar
from actors.rules.resources.cgroupvalue import page_name, quota_of, shares_of
from actors.rules.resources.qos import qos_class
from actors.rules.resources.request import Amounts, amounts, is_critical, pod_total
from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import Pod, PodSpec
from api.kube.quantity import ZERO, parse
from api.ports.confinement import Pairs, Resources
from api.ports.node import NodeFacts

NODE_CRITICAL = "system-node-critical"
GUARANTEED_ADJ, BEST_EFFORT_ADJ = -997, 1000
HUGE_PAGES = "hugepages-"


def container_resources(pod: Pod, container: Container | EphemeralContainer, node: NodeFacts) -> Resources:
    """Return the limits of one container."""
    spec = pod.spec
    limits = with_pod_limits(container.resources.limits, spec)
    requests = amounts(container.resources.requests)
    memory = limits.get("memory", ZERO).value()
    swap_v1, unified = swap_limits(pod, requests.get("memory", ZERO).value(), memory, node)
    if node.cgroup_version == 2 and node.group_oom_kill:
        unified = (("memory.oom.group", "1"), *unified)
    return Resources(
        cpu_shares=shares(requests, limits),
        cpu_period_us=node.cpu_cfs_period_us if node.cpu_cfs_quota else 0,
        cpu_quota_us=quota_us(limits.get("cpu", ZERO).milli_value(), node),
        memory_limit_bytes=memory,
        memory_swap_limit_bytes=swap_v1,
        oom_score_adj=oom_score_adj(pod, container, node),
        hugepage_limits=huge_pages(limits, node),
        unified=unified,
    )


def with_pod_limits(limits: Mapping[str, str], spec: PodSpec) -> Amounts:
    """Return a container's limits that are not zero; where it has none that of the pod counts."""
    whole = amounts(spec.resources.limits) if spec.resources is not None else {}
    own = {name: amount for name, amount in amounts(limits).items() if amount.nanos}
    return {**{name: amount for name, amount in whole.items() if amount.nanos}, **own}


def shares(requests: Amounts, limits: Amounts) -> int:
    """Return CPU shares of the request, of the limit where nothing is requested."""
    asked = requests.get("cpu")
    if asked is None:
        asked = limits.get("cpu", ZERO)
    return shares_of(asked.milli_value())


def quota_us(limit_milli: int, node: NodeFacts) -> int:
    """Return the quota per period of a CPU limit; 0 is none."""
    return quota_of(limit_milli, node.cpu_cfs_period_us) if node.cpu_cfs_quota else 0


def swap_limits(pod: Pod, request: int, limit: int, node: NodeFacts) -> tuple[int, Pairs]:
    """Return the limit of memory with swap (version 1) and the unified files (version 2); without a controller nothing."""
    if not node.swap_controller or node.cgroup_version not in (1, 2):
        return 0, ()
    if node.cgroup_version == 1:
        return limit, ()
    allowed = 0
    shared = node.limited_swap and qos_class(pod.spec) == "Burstable" and not is_critical(pod)
    if shared and request and request != limit and node.memory_bytes:
        allowed = request * node.swap_bytes // node.memory_bytes
    return 0, (("memory.swap.max", str(allowed)),)


def oom_score_adj(pod: Pod, container: Container | EphemeralContainer, node: NodeFacts) -> int:
    """Return the ``oom_score_adj`` of a container, from -1000 (never killed) to 1000 (killed first)."""
    spec = pod.spec
    if spec.priority_class_name == NODE_CRITICAL and is_critical(pod):
        return GUARANTEED_ADJ
    match qos_class(spec):
        case "Guaranteed":
            return GUARANTEED_ADJ
        case "BestEffort":
            return BEST_EFFORT_ADJ
    share = pod_share(spec)
    adj = adj_of(memory_request(container) + share, node)
    if isinstance(container, Container) and is_sidecar(spec, container):
        # A sidecar must outlive the regular containers: its score is at most that of the smallest of them.
        smallest = min((memory_request(one) for one in spec.containers), default=0)
        adj = min(adj, adj_of(smallest + share, node))
    if adj < 1000 + GUARANTEED_ADJ:
        return 1000 + GUARANTEED_ADJ
    return adj - 1 if adj == BEST_EFFORT_ADJ else adj


def adj_of(request: int, node: NodeFacts) -> int:
    """Return the score of a memory request on this node."""
    return 1000 - 1000 * request // node.memory_bytes if node.memory_bytes else 1000


def pod_share(spec: PodSpec) -> int:
    """Return each container's share of the pod's memory request beyond those of its containers, in bytes."""
    if spec.resources is None or "memory" not in spec.resources.requests:
        return 0
    containers = (*spec.containers, *spec.init_containers)
    rest = parse(spec.resources.requests["memory"]).value() - sum(memory_request(one) for one in containers)
    return max(rest, 0) // len(containers) if containers else 0


def memory_request(container: Container | EphemeralContainer) -> int:
    """Return the memory that a container requests, in bytes."""
    return parse(container.resources.requests.get("memory", "0")).value()


def huge_pages(limits: Amounts, node: NodeFacts) -> tuple[tuple[str, int], ...]:
    """Return the limit of each page size of the node in bytes, 0 without one."""
    asked = {
        parse(name.removeprefix(HUGE_PAGES)).value(): amount.value()
        for name, amount in limits.items()
        if name.startswith(HUGE_PAGES)
    }
    return tuple((page_name(size), asked.get(size, 0)) for size in node.huge_page_sizes)


# the pod as a whole


def sandbox_resources(pod: Pod, node: NodeFacts) -> Resources:
    """Return the resources of the pod's containers together, without its overhead."""
    requests = pod_total(pod.spec, "requests")
    limits = pod_total(pod.spec, "limits")
    return Resources(
        cpu_shares=shares(requests, limits),
        cpu_period_us=node.cpu_cfs_period_us if node.cpu_cfs_quota else 0,
        cpu_quota_us=quota_us(limits.get("cpu", ZERO).milli_value(), node),
        memory_limit_bytes=limits.get("memory", ZERO).value(),
    )


def overhead_resources(pod: Pod, node: NodeFacts) -> Resources | None:
    """Return the pod's overhead, as request and limit; None without one."""
    if not pod.spec.overhead:
        return None
    overhead = amounts(pod.spec.overhead)
    return Resources(
        cpu_shares=shares(overhead, overhead),
        cpu_period_us=node.cpu_cfs_period_us if node.cpu_cfs_quota else 0,
        cpu_quota_us=quota_us(overhead.get("cpu", ZERO).milli_value(), node),
        memory_limit_bytes=overhead.get("memory", ZERO).value(),
    )
