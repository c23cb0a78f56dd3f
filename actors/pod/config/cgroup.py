"""The cgroup that a pod's containers are made in (reference ``runtime-cri`` section 6.7).

```text
                 cgroupfs                        systemd
Guaranteed       /kubepods/pod<uid>              /kubepods.slice/kubepods-pod<uid>.slice
Burstable        /kubepods/burstable/pod<uid>    /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice
```
"""

from actors.rules.qos import qos_class
from api.node import CgroupDriver, NodeFacts
from api.objects.pod import Pod

PODS = "kubepods"


def cgroup_parent(pod: Pod, node: NodeFacts) -> str:
    """Return the pod's cgroup as a full path, also for systemd; empty leaves the choice to the runtime."""
    root = [part for part in node.cgroup_root.split("/") if part]
    if not node.cgroups_per_qos:
        return path_of(root, node.cgroup_driver) if root else ""
    qos = qos_class(pod.spec)
    tier = [] if qos == "Guaranteed" else [qos.lower()]
    return path_of([*root, PODS, *tier, f"pod{pod.metadata.uid}"], node.cgroup_driver)


def path_of(parts: list[str], driver: CgroupDriver) -> str:
    """Return the path of a cgroup by the names of its ancestors and its own.

    In a slice's name ``-`` separates its ancestors, so that in a single name it is written ``_``.
    """
    if driver is CgroupDriver.CGROUPFS:
        return "/" + "/".join(parts)
    escaped = [part.replace("-", "_") for part in parts]
    slices = ("-".join(escaped[: depth + 1]) + ".slice" for depth in range(len(escaped)))
    return "/" + "/".join(slices)
