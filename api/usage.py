"""What the node and its pods use: readings, what they come to, and the formulas that everybody counts by.

All sizes are bytes. ``at`` is the wall clock of a sample, for people; ``clock_ns`` is whatever clock its source counts
by, good for differences only; ``as_of`` is monotonic, to order a number against an eviction action.
An unknown number is None, never 0.
"""

import msgspec

from api.ids import Instant, Uid, WallNs

UNLIMITED_BYTES = 1 << 62
"""A limit above this is none, as a kubelet counts."""
EMPTY_DIR = "empty-dir"
"""How a volume's kind is called in the path of an emptyDir: ``kubernetes.io~empty-dir``."""


class UsageSource:
    """Where numbers come from."""

    CGROUP_V1 = "cgroup v1"
    CGROUP_V2 = "cgroup v2"
    PROCESSES = "processes"
    RUNTIME = "runtime"
    CONTAINERS = "sum of containers"
    PROC = "/proc"


class CpuUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time, counted since the beginning of what it is of."""

    at: WallNs
    clock_ns: int
    total_ns: int
    nano_cores: int | None = None
    """Over the time since the reading before; None when there is none to compare with."""


class MemoryUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Memory in use. `available_bytes` only where there is a limit."""

    at: WallNs
    usage_bytes: int
    working_set_bytes: int
    available_bytes: int | None = None
    rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None


class SwapUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Swap in use."""

    at: WallNs
    usage_bytes: int
    available_bytes: int | None = None


class FsUsage(msgspec.Struct, frozen=True, kw_only=True):
    """A file system, or what of one something uses: then `used_bytes` and `inodes_used` are its own share."""

    at: WallNs
    capacity_bytes: int | None = None
    available_bytes: int | None = None
    used_bytes: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    inodes_used: int | None = None
    at_least: bool = False
    """Not all of what is used could be counted: it may be more."""


class InterfaceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One network interface."""

    name: str
    rx_bytes: int = 0
    rx_errors: int = 0
    tx_bytes: int = 0
    tx_errors: int = 0


class NetworkUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The interfaces of a network namespace, by name, without loopback."""

    at: WallNs
    interfaces: tuple[InterfaceUsage, ...] = ()


class ContainerUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one running container uses."""

    name: str
    id: str
    started_at: WallNs | None = None
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    swap: SwapUsage | None = None
    pids: int | None = None
    """Tasks, threads among them, where a cgroup counts them; else processes."""
    oom_kills: int | None = None
    """Of its processes for want of memory, where a cgroup counts them."""
    rootfs: FsUsage | None = None
    """Its writable layer."""
    logs: FsUsage | None = None
    source: str = ""
    """Of its memory: one of `UsageSource`."""


class VolumeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What is in one of the pod's volumes."""

    name: str
    kind: str
    """Of the plugin: ``empty-dir``, ``configmap`` ..."""
    memory: bool = False
    """It is a file system of its own, in memory: none of it is on the node's disk."""
    fs: FsUsage


class PodUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod uses; enough to rank pods by memory, disk, inodes and processes."""

    uid: Uid
    namespace: str
    name: str
    as_of: Instant | None = None
    """When cpu, memory and processes were read; None when they never were."""
    disk_as_of: Instant | None = None
    """When folders were walked."""
    started_at: WallNs | None = None
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    swap: SwapUsage | None = None
    network: NetworkUsage | None = None
    pids: int | None = None
    containers: tuple[ContainerUsage, ...] = ()
    volumes: tuple[VolumeUsage, ...] = ()
    ephemeral: FsUsage | None = None
    """All it has on local disk: writable layers, logs, volumes on disk, its hosts file."""
    source: str = ""
    troubles: tuple[str, ...] = ()
    """What is not known or not believed, and why."""

    def disk_used(self, *, rootfs: bool, logs: bool, volumes: bool) -> tuple[int, int]:
        """Return bytes and inodes on local disk of the chosen kinds; what is not known counts as nothing."""
        parts: list[FsUsage | None] = []
        if rootfs:
            parts += [container.rootfs for container in self.containers]
        if logs:
            parts += [container.logs for container in self.containers]
        if volumes:
            parts += [volume.fs for volume in self.volumes if not volume.memory]
        return used_sum(parts)


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the system that is no pod: ``kubelet`` is this agent, ``pods`` all pods together."""

    name: str
    started_at: WallNs | None = None
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None


class NodeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What the whole machine uses."""

    name: str = ""
    as_of: Instant | None = None
    disk_as_of: Instant | None = None
    image_as_of: Instant | None = None
    started_at: WallNs | None = None
    capacity_bytes: int | None = None
    """Memory."""
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    swap: SwapUsage | None = None
    network: NetworkUsage | None = None
    fs: FsUsage | None = None
    """Of the agent's root directory."""
    image_fs: FsUsage | None = None
    dedicated_image_fs: bool | None = None
    """Whether images are on another device than the root directory; None while that is not known."""
    pids: int | None = None
    """Threads of the machine."""
    pid_limit: int | None = None
    pids_at: WallNs | None = None
    system: tuple[Process, ...] = ()


class Usage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One round: everything that is known of what is used, each number as new as it says."""

    at: WallNs
    as_of: Instant
    round: int
    node: NodeUsage
    pods: tuple[PodUsage, ...] = ()
    """By namespace and name."""
    troubles: tuple[str, ...] = ()
    """Of all readings, each with what it is of."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"round {self.round} pods={len(self.pods)} troubles={len(self.troubles)}"


# ---------------------------------------------------------------- formulas


def working_set(usage_bytes: int, inactive_file_bytes: int) -> int:
    """Return usage without inactive page cache; never below 0."""
    return max(0, usage_bytes - inactive_file_bytes)


def available(limit_bytes: int | None, working_set_bytes: int) -> int | None:
    """Return what is left below a limit, never below 0; None without a limit. A limit may be below what is used."""
    if limit_bytes is None or not 0 < limit_bytes <= UNLIMITED_BYTES:
        return None
    return max(0, limit_bytes - working_set_bytes)


def used_sum(parts: "list[FsUsage | None]") -> tuple[int, int]:
    """Return the bytes and inodes used of several parts; what is not known counts as nothing."""
    known = [part for part in parts if part is not None]
    return sum(part.used_bytes or 0 for part in known), sum(part.inodes_used or 0 for part in known)


def share_of(
    fs: FsUsage | None,
    at: WallNs,
    used_bytes: int | None,
    inodes_used: int | None,
    *,
    at_least: bool = False,
) -> FsUsage:
    """Return what something uses of a file system: its own share, and what the file system has for all."""
    if fs is None:
        return FsUsage(at=at, used_bytes=used_bytes, inodes_used=inodes_used, at_least=at_least)
    return FsUsage(
        at=at,
        capacity_bytes=fs.capacity_bytes,
        available_bytes=fs.available_bytes,
        inodes=fs.inodes,
        inodes_free=fs.inodes_free,
        used_bytes=used_bytes,
        inodes_used=inodes_used,
        at_least=at_least,
    )
