"""What readings and rules of eviction come to, reckoned for the checks by themselves: levels, weights, who is spared."""

from __future__ import annotations

from actors.rules.resources.qos import qos_class
from actors.rules.resources.request import EPHEMERAL, MEMORY, amounts, pod_total
from api.eviction import Pressure, Signal
from api.kube.objects.pod import Pod
from api.kube.quantity import ZERO
from api.usage import FsUsage, PodUsage, Usage, used_sum

CRITICAL = 2_000_000_000
CRITICAL_CLASSES = ("system-cluster-critical", "system-node-critical")
TAINT = "node.kubernetes.io/memory-pressure"
ON_DISK = (Signal.NODEFS, Signal.NODEFS_INODES, Signal.IMAGEFS, Signal.IMAGEFS_INODES)
READING_LIMIT_S = 120.0
"""Nobody is compared by an older reading."""


def levels(usage: Usage) -> dict[Signal, tuple[int, int, float]]:
    """Return what a round says of each signal that it says something of: available, capacity, as of when."""
    node = usage.node
    found: dict[Signal, tuple[int | None, int | None, float | None]] = {}
    if node.memory is not None:
        found[Signal.MEMORY] = (node.memory.available_bytes, node.capacity_bytes, node.as_of)
    pods = next((part.memory for part in node.system if part.name == "pods"), None)
    if pods is not None and pods.available_bytes is not None:
        whole = pods.available_bytes + pods.working_set_bytes
        found[Signal.PODS_MEMORY] = (pods.available_bytes, whole, node.as_of)
    if node.pids is not None and node.pid_limit is not None:
        found[Signal.PID] = (node.pid_limit - node.pids, node.pid_limit, node.as_of)
    disks: tuple[tuple[Signal, Signal, FsUsage | None, float | None], ...] = (
        (Signal.NODEFS, Signal.NODEFS_INODES, node.fs, node.disk_as_of),
        (Signal.IMAGEFS, Signal.IMAGEFS_INODES, node.image_fs, node.image_as_of),
    )
    for space, inodes, fs, as_of in disks:
        if fs is not None:
            found[space] = (fs.available_bytes, fs.capacity_bytes, as_of)
            found[inodes] = (fs.inodes_free, fs.inodes, as_of)
    return {
        signal: (available, capacity, as_of)
        for signal, (available, capacity, as_of) in found.items()
        if available is not None and capacity is not None and as_of is not None and 0 <= available <= capacity
    }


def is_critical(pod: Pod) -> bool:
    """Tell whether a pod is never evicted, nor kept out."""
    return (pod.spec.priority or 0) >= CRITICAL or pod.spec.priority_class_name in CRITICAL_CLASSES


def keeps_out(pod: Pod, conditions: tuple[Pressure, ...]) -> bool:
    """Tell whether a newcomer is to be refused."""
    if not conditions or is_critical(pod):
        return False
    if conditions != (Pressure.MEMORY,):
        return True
    tolerates = any(
        one.key in ("", TAINT) and one.effect in ("", "NoSchedule") for one in pod.spec.tolerations
    )
    return qos_class(pod.spec) == "BestEffort" and not tolerates


def weight(
    pod: Pod, row: PodUsage | None, signal: Signal, now: float, *, dedicated: bool
) -> tuple[bool, int, int] | None:
    """Return by what pods are compared, the greatest first to go; None when it is not known what it uses."""
    as_of = (row.disk_as_of if signal in ON_DISK else row.as_of) if row is not None else None
    if row is None or as_of is None or now - as_of > READING_LIMIT_S:
        return None
    used: int | None
    if signal in (Signal.MEMORY, Signal.PODS_MEMORY):
        used, asked = row.memory.working_set_bytes if row.memory else None, request(pod, MEMORY)
    elif signal is Signal.PID:
        used, asked = row.pids, 0
    else:
        images = signal in ON_DISK[2:]
        parts: list[FsUsage | None] = []
        if images or not dedicated:
            parts += [one.rootfs for one in row.containers]
        if not (images and dedicated):
            parts += [one.logs for one in row.containers]
            parts += [one.fs for one in row.volumes if not one.memory]
        size, inodes = used_sum(parts)
        of_inodes = signal in (Signal.NODEFS_INODES, Signal.IMAGEFS_INODES)
        used, asked = (inodes, 0) if of_inodes else (size, request(pod, EPHEMERAL))
    if used is None:
        return None
    over = used > asked and signal is not Signal.PID
    return over, -(pod.spec.priority or 0), used - asked


def request(pod: Pod, resource: str) -> int:
    """Return what a pod asked for."""
    total = pod_total(pod.spec, "requests").get(resource, ZERO)
    return (total + amounts(pod.spec.overhead).get(resource, ZERO)).value() if total.nanos else 0
