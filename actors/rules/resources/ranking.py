"""The order in which pods are evicted, and the messages of their evictions (reference ``node`` sections 6.7 to 6.10).

```text
memory          over its request | lower priority | larger use beyond the request
processes                          lower priority | more processes
disk, inodes    over its request | lower priority | larger use beyond the request
```

A pod without known usage goes last, not first as with a kubelet: its end might free nothing.
Of inodes nothing is requested, so nothing is subtracted.
"""

from collections.abc import Iterator

import msgspec

from actors.rules.resources.request import (
    CLASSES,
    EPHEMERAL,
    MEMORY,
    MIRROR,
    added,
    amounts,
    is_of_critical_priority,
    is_static,
    pod_total,
    priority_of,
)
from api.eviction import KINDS, MEMORY_SIGNALS, Observation, Signal, Threshold
from api.ids import Uid
from api.kube.objects.container import Container
from api.kube.objects.pod import Pod
from api.kube.quantity import NANO, ZERO, Amount, Notation, QuantityError, parse
from api.usage import EMPTY_DIR, ContainerUsage, FsUsage, PodUsage, share_of, used_sum

IMAGE_SIGNALS = (Signal.IMAGEFS, Signal.IMAGEFS_INODES)
INODE_SIGNALS = (Signal.NODEFS_INODES, Signal.IMAGEFS_INODES)
NEAR_PERCENT = 90
"""Of a limit: what is over that and could not be counted to the end is taken to be over the limit."""


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that might be evicted, and its usage if known."""

    uid: Uid
    pod: Pod
    usage: PodUsage | None = None


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod compares with others: what it uses of what is short, what it requests. None: unknown."""

    uid: Uid
    name: str
    """``namespace/name``."""
    used: int | None
    requested: int
    priority: int
    by_request: bool = True
    """Whether it matters how much it asked for."""

    @property
    def exceeds(self) -> bool:
        """Return whether it uses more than it asked for."""
        return self.used is not None and self.used > self.requested

    def order(self) -> tuple[bool, bool, int, int]:
        """Return what pods are sorted by, first to go first."""
        if self.used is None:
            return (True, True, self.priority, 0)
        if not self.by_request:
            return (False, False, self.priority, -self.used)
        return (False, not self.exceeds, self.priority, self.requested - self.used)


def rank(signal: Signal, contenders: tuple[Contender, ...], *, dedicated: bool) -> tuple[Rating, ...]:
    """Return how pods compare, first to go first. `dedicated`: images have a file system of their own."""
    ratings = [rating(signal, one, dedicated=dedicated) for one in contenders]
    return tuple(sorted(ratings, key=lambda one: (*one.order(), one.name, one.uid)))


def rating(signal: Signal, contender: Contender, *, dedicated: bool) -> Rating:
    """Return how one pod stands."""
    pod, usage = contender.pod, contender.usage
    requested = 0
    if signal in MEMORY_SIGNALS:
        requested = request_of(pod, MEMORY)
    elif KINDS[signal].resource == EPHEMERAL:
        requested = request_of(pod, EPHEMERAL)
    return Rating(
        uid=contender.uid,
        name=f"{pod.metadata.namespace}/{pod.metadata.name}",
        used=used_of(signal, usage, dedicated=dedicated) if usage is not None else None,
        requested=requested,
        priority=priority_of(pod),
        by_request=signal is not Signal.PID,
    )


def request_of(pod: Pod, resource: str) -> int:
    """Return how much of a resource a pod asked for; its overhead counts where it asked for any."""
    total = pod_total(pod.spec, "requests").get(resource, ZERO)
    if total.nanos:
        total += amounts(pod.spec.overhead).get(resource, ZERO)
    return total.value()


def used_of(signal: Signal, usage: PodUsage, *, dedicated: bool) -> int | None:
    """Return how much a pod uses of what a signal is about; None when that is not known."""
    if signal in MEMORY_SIGNALS:
        return usage.memory.working_set_bytes if usage.memory is not None else None
    if signal is Signal.PID:
        return usage.pids
    if usage.disk_as_of is None:
        return None
    on_images = signal in IMAGE_SIGNALS
    used_bytes, inodes = usage.disk_used(
        rootfs=on_images or not dedicated,
        logs=not (on_images and dedicated),
        volumes=not (on_images and dedicated),
    )
    return inodes if signal in INODE_SIGNALS else used_bytes


def is_spared(pod: Pod, *, spares_static: bool) -> str:
    """Return why a pod is never evicted, empty when it may be (decision 0020)."""
    if is_of_critical_priority(pod):
        return f"its priority {priority_of(pod)} is critical"
    if pod.spec.priority_class_name in CLASSES:
        return f"its priority class {pod.spec.priority_class_name} is critical"
    if spares_static and (is_static(pod) or MIRROR in pod.metadata.annotations):
        return "it comes from a file or URL of this node"
    return ""


# ---------------------------------------------------------------- messages


def low_on(
    signal: Signal, threshold: Threshold, seen: Observation | None, pod: Pod, usage: PodUsage | None
) -> str:
    """Return the eviction message of a pod, as a kubelet writes it."""
    resource = KINDS[signal].resource
    parts = [f"The node was low on resource: {resource}. "]
    if seen is not None:
        least = binary(threshold.value.of(seen.capacity))
        parts.append(f"Threshold quantity: {least}, available: {binary(seen.available)}. ")
    if usage is not None:
        parts += larger_pod(resource, pod, usage)
        parts += larger_containers(resource, pod, usage)
    return "".join(parts)


def larger_pod(resource: str, pod: Pod, usage: PodUsage) -> Iterator[str]:
    """Yield what a pod uses that asked for memory as a whole."""
    whole = pod.spec.resources
    if resource == MEMORY and whole is not None and MEMORY in whole.requests and usage.memory is not None:
        used, asked = binary(usage.memory.working_set_bytes), str(parse(whole.requests[MEMORY]))
        yield (
            f"Pod {pod.metadata.name} was using {used}, request is {asked}, has larger consumption of memory. "
        )


def larger_containers(resource: str, pod: Pod, usage: PodUsage) -> Iterator[str]:
    """Yield which of a pod's containers use more than they asked for."""
    rows = {row.name: row for row in usage.containers}
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        row = rows.get(container.name)
        used = container_used(resource, row) if row is not None else None
        asked = parse(container.resources.requests.get(resource, "0"))
        if used is not None and used > asked.value():
            yield (
                f"Container {container.name} was using {binary(used)}, request is {asked},"
                f" has larger consumption of {resource}. "
            )


def container_used(resource: str, row: ContainerUsage) -> int | None:
    """Return how much a container uses of a resource, None when that is not known or not counted by container."""
    if resource == MEMORY:
        return row.memory.working_set_bytes if row.memory is not None else None
    if resource == EPHEMERAL and row.rootfs is not None and row.logs is not None:
        return used_sum([row.rootfs, row.logs])[0]
    return None


def binary(number: int) -> str:
    """Write a number as Kubernetes does: ``700Mi``; what is no multiple of 1024 as it is."""
    return str(Amount(number * NANO, Notation.BINARY))


# ---------------------------------------------------------------- limits of local storage


class Excess(msgspec.Struct, frozen=True, kw_only=True):
    """That a pod has more on local disk than it may."""

    limit: str
    """As counted: ``emptydirfs.limit``, ``ephemeralpodfs.limit``, ``ephemeralcontainerfs.limit``."""
    message: str


def local_excess(pod: Pod, usage: PodUsage, *, dedicated: bool) -> Excess | None:
    """Return the first limit of local storage that a pod is over, None when it is within all of them."""
    for found in (
        volume_excess(pod, usage),
        pod_excess(pod, usage),
        container_excess(pod, usage, dedicated=dedicated),
    ):
        if found is not None:
            return found
    return None


def volume_excess(pod: Pod, usage: PodUsage) -> Excess | None:
    """Return that an emptyDir, of whatever medium, holds more than its ``sizeLimit``."""
    rows = {row.name: row.fs for row in usage.volumes if row.kind == EMPTY_DIR}
    for volume in pod.spec.volumes:
        limit = amount_of(volume.empty_dir.size_limit) if volume.empty_dir is not None else None
        used = rows.get(volume.name)
        if limit is not None and limit.value() > 0 and is_over(used, limit):
            message = f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". {counted(used)}'
            return Excess(limit="emptydirfs.limit", message=message)
    return None


def pod_excess(pod: Pod, usage: PodUsage) -> Excess | None:
    """Return that a pod as a whole has more than its containers may have together."""
    total = added(pod_total(pod.spec, "limits"), amounts(pod.spec.overhead)).get(EPHEMERAL)
    if total is None or not is_over(usage.ephemeral, total):
        return None
    limit = Amount(total.nanos, Notation.BINARY)
    message = (
        f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        f"{counted(usage.ephemeral)}"
    )
    return Excess(limit="ephemeralpodfs.limit", message=message)


def container_excess(pod: Pod, usage: PodUsage, *, dedicated: bool) -> Excess | None:
    """Return that a regular container has more than it may."""
    rows = {row.name: row for row in usage.containers}
    for container in pod.spec.containers:
        limit = container_limit(container)
        row = rows.get(container.name)
        if limit is None or row is None:
            continue
        used_bytes, inodes = used_sum([row.logs] if dedicated else [row.logs, row.rootfs])
        used = share_of(None, 0, used_bytes, inodes, at_least=row.logs is not None and row.logs.at_least)
        if is_over(used, limit):
            message = (
                f'Container {container.name} exceeded its local ephemeral storage limit "{limit}". '
                f"{counted(used)}"
            )
            return Excess(limit="ephemeralcontainerfs.limit", message=message)
    return None


def is_over(used: FsUsage | None, limit: Amount) -> bool:
    """Return whether more is used than the limit; what could not be counted to the end is over it where it comes near."""
    if used is None or used.used_bytes is None:
        return False
    return used.used_bytes * 100 > limit.value() * (NEAR_PERCENT if used.at_least else 100)


def counted(used: FsUsage | None) -> str:
    """Return how much of what is used could be counted, empty where all of it was."""
    if used is None or used.used_bytes is None or not used.at_least:
        return ""
    return f"It could not be counted in time: {binary(used.used_bytes)} at least. "


def container_limit(container: Container) -> Amount | None:
    """Return a container's limit of ephemeral storage, None for none."""
    return amount_of(container.resources.limits.get(EPHEMERAL, ""))


def amount_of(text: str | None) -> Amount | None:
    """Read an amount; None where there is none."""
    if not text:
        return None
    try:
        return parse(text)
    except QuantityError:
        return None
