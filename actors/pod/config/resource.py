"""Requests and limits as cgroups take them: shares, quota, memory, swap, huge pages, who is killed first.

Reference ``runtime-cri`` sections 6.1 to 6.6 and 21. Integer arithmetic throughout.
"""

from collections.abc import Mapping

from actors.rules.qos import qos_class
from api.confinement import Pairs, Resources
from api.node import NodeFacts
from api.objects.container import Container, EphemeralContainer
from api.objects.pod import Pod, PodSpec
from api.quantity import ZERO, Amount, parse

MIN_SHARES, MAX_SHARES, SHARES_PER_CPU = 2, 262_144, 1024
MIN_QUOTA_US = 1000
CRITICAL_PRIORITY = 2_000_000_000
NODE_CRITICAL = "system-node-critical"
GUARANTEED_ADJ, BEST_EFFORT_ADJ = -997, 1000
HUGE_PAGES = "hugepages-"
PAGE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
SOURCE = "kubernetes.io/config.source"
MIRROR = "kubernetes.io/config.mirror"

Amounts = dict[str, Amount]


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


def amounts(quantities: Mapping[str, str]) -> Amounts:
    """Return a list of resources as numbers."""
    return {name: parse(text) for name, text in quantities.items()}


def with_pod_limits(limits: Mapping[str, str], spec: PodSpec) -> Amounts:
    """Return a container's limits that are not zero; what it leaves open it has from the pod as a whole."""
    whole = amounts(spec.resources.limits) if spec.resources is not None else {}
    own = {name: amount for name, amount in amounts(limits).items() if amount.nanos}
    return {**{name: amount for name, amount in whole.items() if amount.nanos}, **own}


def shares(requests: Amounts, limits: Amounts) -> int:
    """Return CPU shares of the request, of the limit where nothing is requested."""
    asked = requests.get("cpu")
    if asked is None:
        asked = limits.get("cpu", ZERO)
    return shares_of(asked.milli_value())


def shares_of(milli: int) -> int:
    """Return CPU shares of thousandths of a CPU."""
    return min(max(milli * SHARES_PER_CPU // 1000, MIN_SHARES), MAX_SHARES) if milli else MIN_SHARES


def quota_us(limit_milli: int, node: NodeFacts) -> int:
    """Return the quota per period of a CPU limit; 0 is none."""
    if not node.cpu_cfs_quota or not limit_milli:
        return 0
    return max(limit_milli * node.cpu_cfs_period_us // 1000, MIN_QUOTA_US)


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


def is_critical(pod: Pod) -> bool:
    """Tell whether the node depends on the pod: static and mirror pods, and the highest priorities."""
    annotations = pod.metadata.annotations
    static = annotations.get(SOURCE, "api") != "api" or MIRROR in annotations
    return static or (pod.spec.priority or 0) >= CRITICAL_PRIORITY


def oom_score_adj(pod: Pod, container: Container | EphemeralContainer, node: NodeFacts) -> int:
    """Return how readily the kernel kills the container when memory runs out, -1000 never to 1000 first."""
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
        # A sidecar must outlive those whom it serves: it is no likelier to be killed than the least of them.
        smallest = min((memory_request(one) for one in spec.containers), default=0)
        adj = min(adj, adj_of(smallest + share, node))
    if adj < 1000 + GUARANTEED_ADJ:
        return 1000 + GUARANTEED_ADJ
    return adj - 1 if adj == BEST_EFFORT_ADJ else adj


def adj_of(request: int, node: NodeFacts) -> int:
    """Return the score of a memory request on this node."""
    return 1000 - 1000 * request // node.memory_bytes if node.memory_bytes else 1000


def pod_share(spec: PodSpec) -> int:
    """Return each container's part of what the pod as a whole requests beyond its containers."""
    if spec.resources is None or "memory" not in spec.resources.requests:
        return 0
    containers = (*spec.containers, *spec.init_containers)
    rest = parse(spec.resources.requests["memory"]).value() - sum(memory_request(one) for one in containers)
    return max(rest, 0) // len(containers) if containers else 0


def memory_request(container: Container | EphemeralContainer) -> int:
    """Return the memory that a container requests, in bytes."""
    return parse(container.resources.requests.get("memory", "0")).value()


def is_sidecar(spec: PodSpec, container: Container) -> bool:
    """Tell whether an init container runs beside the regular ones."""
    return container.restart_policy == "Always" and any(
        one.name == container.name for one in spec.init_containers
    )


def huge_pages(limits: Amounts, node: NodeFacts) -> tuple[tuple[str, int], ...]:
    """Return the limit of each page size that the node has, 0 where none was asked for."""
    asked = {
        parse(name.removeprefix(HUGE_PAGES)).value(): amount.value()
        for name, amount in limits.items()
        if name.startswith(HUGE_PAGES)
    }
    return tuple((page_name(size), asked.get(size, 0)) for size in node.huge_page_sizes)


def page_name(size: int) -> str:
    """Return a page size as cgroups call it: ``2MB``."""
    unit = 0
    while size >= 1024 and size % 1024 == 0 and unit + 1 < len(PAGE_UNITS):
        size, unit = size // 1024, unit + 1
    return f"{size}{PAGE_UNITS[unit]}"


# the pod as a whole


def sandbox_resources(pod: Pod, node: NodeFacts) -> Resources:
    """Return what the pod's containers need together, without its overhead."""
    requests = pod_total(pod.spec, "requests")
    limits = pod_total(pod.spec, "limits")
    return Resources(
        cpu_shares=shares(requests, limits),
        cpu_period_us=node.cpu_cfs_period_us if node.cpu_cfs_quota else 0,
        cpu_quota_us=quota_us(limits.get("cpu", ZERO).milli_value(), node),
        memory_limit_bytes=limits.get("memory", ZERO).value(),
    )


def overhead_resources(pod: Pod, node: NodeFacts) -> Resources | None:
    """Return what the sandbox itself needs, request and limit alike; None when the pod does not say."""
    if not pod.spec.overhead:
        return None
    overhead = amounts(pod.spec.overhead)
    return Resources(
        cpu_shares=shares(overhead, overhead),
        cpu_period_us=node.cpu_cfs_period_us if node.cpu_cfs_quota else 0,
        cpu_quota_us=quota_us(overhead.get("cpu", ZERO).milli_value(), node),
        memory_limit_bytes=overhead.get("memory", ZERO).value(),
    )


def pod_total(spec: PodSpec, which: str) -> Amounts:
    """Return the largest sum that runs at one time: all regular ones with the sidecars, or one init with those before it.

    What the pod asks for as a whole wins.
    """
    running: Amounts = {}
    for one in spec.containers:
        running = added(running, amounts(getattr(one.resources, which)))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for one in spec.init_containers:
        own = added(sidecars, amounts(getattr(one.resources, which)))
        if one.restart_policy == "Always":
            sidecars = own
        peak = {name: max(own.get(name, ZERO), peak.get(name, ZERO)) for name in {**own, **peak}}
    running = added(running, sidecars)
    total = {name: max(running.get(name, ZERO), peak.get(name, ZERO)) for name in {**running, **peak}}
    whole = amounts(getattr(spec.resources, which)) if spec.resources is not None else {}
    return {**total, **whole}


def added(one: Amounts, other: Amounts) -> Amounts:
    """Return the sum of two lists of resources."""
    return {name: one.get(name, ZERO) + other.get(name, ZERO) for name in {**one, **other}}
