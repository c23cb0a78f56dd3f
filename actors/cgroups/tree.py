"""The cgroups above the pods: a pure function of the node and of its pods' requests.

```text
kubepods      cpu, memory, processes, huge pages: what the node has without what is reserved, where that is enforced
  burstable   cpu: what its pods request                     the pods' own cgroups are made by their PodActors
  besteffort  cpu: the least there is
reserved      the operator's own cgroups, where they are enforced: never made here
```

Reference ``node`` sections 9.1 and 9.2. The limit of memory leaves eviction thresholds out: allocatable is smaller than
it by just these, so that eviction comes before the kernel's own choice.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from actors.rules.resources.cgrouppath import PODS, names_in, path_of, pods_path, reserved_path
from actors.rules.resources.cgroupvalue import MIN_SHARES, page_name, shares_of, weight_of
from api.ports.cgroups import UNLIMITED, CgroupLimits, NodeCgroup
from api.ports.node import NodeFacts, Reservation


def groups_of(node: NodeFacts, burstable_milli: int) -> tuple[NodeCgroup, ...]:
    """Return the node's cgroups, a parent before its children; `burstable_milli` is what Burstable pods request."""
    if not node.pod_cgroups:
        return ()
    root, driver = names_in(node.cgroup_root), node.cgroup_driver
    asked, least = shares_of(burstable_milli), MIN_SHARES
    tree = (
        NodeCgroup(path=pods_path(node), limits=pods_limits(node)),
        NodeCgroup(
            path=path_of([*root, PODS, "burstable"], driver),
            limits=CgroupLimits(cpu_shares=asked, cpu_weight=weight_of(asked)),
        ),
        NodeCgroup(
            path=path_of([*root, PODS, "besteffort"], driver),
            limits=CgroupLimits(cpu_shares=least, cpu_weight=weight_of(least)),
        ),
    )
    return (*tree, *reserved_groups(node))


def pods_limits(node: NodeFacts) -> CgroupLimits:
    """Return what all pods may use together: all that there is where nothing is enforced for them."""
    system, kube = node.reserved.system, node.reserved.kube
    if "pods" not in node.reserved.enforced:
        system = kube = Reservation()
    reserved_milli = (system.cpu_milli or 0) + (kube.cpu_milli or 0)
    shares = shares_of(max(node.cpu_milli - reserved_milli, 0))
    memory = node.memory_bytes - system.memory_bytes - kube.memory_bytes
    pids = node.max_pids - system.pids - kube.pids
    return CgroupLimits(
        cpu_shares=shares,
        cpu_weight=weight_of(shares),
        # Where the machine does not say what it has, nothing is limited by it.
        memory_bytes=max(memory, 1) if node.memory_bytes else UNLIMITED,
        pids=max(pids, 1) if node.max_pids else UNLIMITED,
        hugepages=tuple(
            (page_name(size), total)
            for size, total in zip(node.huge_page_sizes, node.huge_page_bytes, strict=False)
        ),
    )


def reserved_groups(node: NodeFacts) -> Iterator[NodeCgroup]:
    """Yield the operator's cgroups whose reservation is enforced: with CPU only in the compressible form.

    Where no CPU is reserved the cgroup keeps the share that it has: it is the operator's, as systemd's ``system.slice``.
    """
    for name, reservation, cgroup in (
        ("system-reserved", node.reserved.system, node.reserved.system_cgroup),
        ("kube-reserved", node.reserved.kube, node.reserved.kube_cgroup),
    ):
        whole = name in node.reserved.enforced
        if not cgroup or not (whole or f"{name}-compressible" in node.reserved.enforced):
            continue
        limits = CgroupLimits()
        if reservation.cpu_milli is not None:
            shares = shares_of(reservation.cpu_milli)
            limits = CgroupLimits(cpu_shares=shares, cpu_weight=weight_of(shares))
        if whole:
            limits = replace(limits, memory_bytes=reservation.memory_bytes, pids=reservation.pids)
        yield NodeCgroup(path=reserved_path(cgroup, node.cgroup_driver), limits=limits, must_exist=True)
