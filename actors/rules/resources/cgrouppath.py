"""What the cgroups of the node and of its pods are called (reference ``node`` section 9.1, ``runtime-cri`` 6.7).

```text
                 cgroupfs                        systemd
the pods'        /kubepods                       /kubepods.slice
Burstable        /kubepods/burstable             /kubepods.slice/kubepods-burstable.slice
Guaranteed pod   /kubepods/pod<uid>              /kubepods.slice/kubepods-pod<uid_>.slice
Burstable pod    /kubepods/burstable/pod<uid>    /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid_>.slice
```
"""

from api.ports.node import CgroupDriver, NodeFacts

PODS = "kubepods"
SUFFIX = ".slice"


def names_in(root: str) -> list[str]:
    """Return the parts of a configured cgroup."""
    return [part for part in root.split("/") if part]


def tier_of(qos: str) -> list[str]:
    """Return the names between the pods' cgroup and that of a pod of this class."""
    return [] if qos == "Guaranteed" else [qos.lower()]


def path_of(parts: list[str], driver: CgroupDriver) -> str:
    """Return the path of a cgroup by the names of its ancestors and its own.

    In a slice's name ``-`` separates its ancestors, so that in a single name it is written ``_``.
    """
    if driver is CgroupDriver.CGROUPFS:
        return "/" + "/".join(parts)
    escaped = [part.removesuffix(SUFFIX).replace("-", "_") for part in parts]
    slices = ("-".join(escaped[: depth + 1]) + SUFFIX for depth in range(len(escaped)))
    return "/" + "/".join(slices)


def pods_path(node: NodeFacts) -> str:
    """Return the path of the cgroup that all pods of a node are in."""
    return path_of([*names_in(node.cgroup_root), PODS], node.cgroup_driver)


def reserved_path(cgroup: str, driver: CgroupDriver) -> str:
    """Return the path of a cgroup of the operator's own: under systemd a slice is named by its last part alone.

    ``kube-reserved`` is ``/kube.slice/kube-reserved.slice``, whether it was configured so or by its name.
    """
    names = names_in(cgroup)
    if driver is CgroupDriver.CGROUPFS or not names:
        return path_of(names, CgroupDriver.CGROUPFS)
    return path_of(names[-1].removesuffix(SUFFIX).split("-"), driver)
