"""The cgroup of a pod's containers, and its limits (reference ``node`` 9.1 and 9.2, ``runtime-cri`` 6.7)."""

from actors.pod.spec.resource import huge_pages, shares
from actors.rules.resources.cgrouppath import PODS, names_in, path_of, tier_of
from actors.rules.resources.cgroupvalue import MIN_SHARES, quota_of, slice_quota_of, weight_of
from actors.rules.resources.qos import qos_class
from actors.rules.resources.request import added, amounts, pod_total
from api.kube.objects.pod import Pod, PodSpec
from api.kube.quantity import ZERO
from api.ports.cgroups import UNLIMITED, CgroupLimits
from api.ports.node import CgroupDriver, NodeFacts

CLASSES = ("Guaranteed", "Burstable", "BestEffort")


def cgroup_parent(pod: Pod, node: NodeFacts) -> str:
    """Return the pod's cgroup as a full path, also for systemd; empty leaves the choice to the runtime."""
    root = names_in(node.cgroup_root)
    if not node.cgroups_per_qos:
        return path_of(root, node.cgroup_driver) if root else ""
    parts = [*root, PODS, *tier_of(qos_class(pod.spec)), f"pod{pod.metadata.uid}"]
    return path_of(parts, node.cgroup_driver)


def settled_parent(pod: Pod, node: NodeFacts, recorded: str) -> str:
    """Return the pod's own cgroup, empty for none: the recorded one, unless the node's cgroups were moved.

    A pod keeps its cgroup when a change of its spec changes its QoS class.
    """
    if not node.cgroups_per_qos or not (node.confined or node.pod_cgroups):
        return recorded
    every = parents_of(pod.metadata.uid, node, node.cgroup_driver)
    return recorded if recorded in every else cgroup_parent(pod, node)


def possible_parents(uid: str, node: NodeFacts) -> tuple[str, ...]:
    """Return every possible cgroup of a pod of which only the UID is known, for both drivers."""
    return tuple(path for driver in CgroupDriver for path in parents_of(uid, node, driver))


def parents_of(uid: str, node: NodeFacts, driver: CgroupDriver) -> tuple[str, ...]:
    """Return the cgroup of a pod in each QoS class."""
    root = names_in(node.cgroup_root)
    return tuple(path_of([*root, PODS, *tier_of(qos), f"pod{uid}"], driver) for qos in CLASSES)


def pod_limits(pod: Pod, node: NodeFacts) -> CgroupLimits:
    """Return the limits of a pod's containers and sandbox together.

    A limit of CPU or memory counts only where every container has one, or the pod as a whole: one unlimited container
    makes the pod unlimited.
    """
    spec = pod.spec
    best_effort = qos_class(spec) == "BestEffort"
    overhead = amounts(spec.overhead)
    asked = shares(added(pod_total(spec, "requests"), overhead), {})
    granted = MIN_SHARES if best_effort else asked
    limits = pod_total(spec, "limits")
    limits = {name: amount + overhead.get(name, ZERO) for name, amount in limits.items()}
    cpu = limits["cpu"].milli_value() if is_limited(spec, "cpu") else 0
    memory = limits["memory"].value() if is_limited(spec, "memory") else 0
    period = node.cpu_cfs_period_us
    quota = quota_of(cpu, period) if node.cpu_cfs_quota else 0
    if node.cgroup_driver is CgroupDriver.SYSTEMD:
        quota = slice_quota_of(quota, period)
    return CgroupLimits(
        cpu_shares=granted,
        cpu_weight=weight_of(granted),
        cpu_quota_us=quota or UNLIMITED,
        cpu_period_us=period,
        memory_bytes=memory or UNLIMITED,
        pids=node.pod_pids_limit if node.pod_pids_limit > 0 else UNLIMITED,
        hugepages=huge_pages(limits, node),
    )


def widest(one: CgroupLimits, other: CgroupLimits) -> CgroupLimits:
    """Return the wider of two sets of limits."""
    return CgroupLimits(
        cpu_shares=max(one.cpu_shares, other.cpu_shares),
        cpu_weight=max(one.cpu_weight, other.cpu_weight),
        cpu_quota_us=higher(one.cpu_quota_us, other.cpu_quota_us),
        cpu_period_us=other.cpu_period_us,
        memory_bytes=higher(one.memory_bytes, other.memory_bytes),
        pids=higher(one.pids, other.pids),
        hugepages=other.hugepages,
    )


def higher(one: int, other: int) -> int:
    """Return the higher of two limits."""
    return UNLIMITED if UNLIMITED in (one, other) else max(one, other)


def is_limited(spec: PodSpec, resource: str) -> bool:
    """Return whether the pod as a whole, or each of its containers, limits a resource."""
    if spec.resources is not None and amounts(spec.resources.limits).get(resource, ZERO).nanos:
        return True
    every = (*spec.containers, *spec.init_containers)
    return all(amounts(one.resources.limits).get(resource, ZERO).nanos for one in every)


def asked_milli(spec: PodSpec) -> int:
    """Return the CPU that a pod requests in all, in thousandths."""
    asked = added(pod_total(spec, "requests"), amounts(spec.overhead))
    return asked.get("cpu", ZERO).milli_value()
