"""Calls that read what is used: the port ``usage``, and one call of the port ``runtime``.

Every result has one row for each thing asked about. A row that could not be read says so in `trouble` and costs no other
row: each has its own deadline in the driver. Readings are as the kernel gives them; the caller decides what to believe.
"""

import msgspec

from api.ids import Uid, WallNs
from api.ports.call import HostCall
from api.ports.runtimecall import Call
from api.usage import CpuUsage, FsUsage, MemoryUsage, NetworkUsage, Process, SwapUsage


class ReadNode(HostCall, frozen=True, kw_only=True):
    """Read processor, memory, swap, threads and network of the machine, and what the agent itself uses -> NodeRead."""

    pods_group: str = "/kubepods"
    """The cgroup of all pods, as a path below the root of a hierarchy."""


class NodeRead(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The machine as its kernel shows it."""

    at: WallNs
    cpus: int
    started_at: WallNs | None = None
    memory_bytes: int
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    swap: SwapUsage | None = None
    network: NetworkUsage | None = None
    pids: int | None = None
    pid_limit: int | None = None
    system: tuple[Process, ...] = ()
    source: str = ""
    """Of memory."""
    troubles: tuple[str, ...] = ()


class ContainerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A running container: the id that its cgroup is named after, and one of its processes."""

    id: str
    pid: int
    started_at: WallNs | None = None


class PodPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A pod with containers that run."""

    uid: Uid
    containers: tuple[ContainerPlace, ...] = ()
    network: bool = True
    """Whether it has a network of its own."""


class ReadPods(HostCall, frozen=True, kw_only=True):
    """Read processor, memory, processes and network of pods -> PodsRead."""

    pods: tuple[PodPlace, ...] = ()

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ReadPods of {len(self.pods)}"


class GroupReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a container or a pod uses."""

    id: str
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    swap: SwapUsage | None = None
    pids: int | None = None
    oom_kills: int | None = None
    """Processes of a container that were killed for want of memory, since its cgroup was made."""
    source: str = ""
    trouble: str = ""


class PodReading(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod uses. `group` is its own cgroup's account, None where it has none."""

    uid: Uid
    group: GroupReading | None = None
    network: NetworkUsage | None = None
    containers: tuple[GroupReading, ...] = ()
    trouble: str = ""


class PodsRead(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One row for each pod asked about, in that order."""

    rows: tuple[PodReading, ...] = ()


class DiskPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A path on a file system to measure."""

    name: str
    path: str


class MeasureDisks(HostCall, frozen=True, kw_only=True):
    """Ask file systems how full they are -> DisksMeasured."""

    disks: tuple[DiskPlace, ...]

    def brief(self) -> str:
        """Return one line for traces."""
        return f"MeasureDisks {' '.join(disk.path for disk in self.disks)}"


class DiskReading(msgspec.Struct, frozen=True, kw_only=True):
    """One file system; `device` tells which it is."""

    name: str
    path: str
    device: int = -1
    fs: FsUsage | None = None
    trouble: str = ""


class DisksMeasured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One row for each disk asked about, in that order."""

    rows: tuple[DiskReading, ...] = ()


class FolderPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one pod, absolute; any of them may be missing."""

    uid: Uid
    pod_folder: str
    """``<root>/pods/<uid>``."""
    log_folder: str
    """``<logs>/<namespace>_<name>_<uid>``."""


class MeasureFolders(HostCall, frozen=True, kw_only=True):
    """Walk the folders of pods -> FoldersMeasured. An inode counts once; no walk leaves its device or follows a link."""

    pods: tuple[FolderPlace, ...]
    budget_s: float = 2.0
    """For one pod: a walk that takes longer is broken off, and what was not counted to the end is `at_least` so much."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"MeasureFolders of {len(self.pods)}"


class FolderReading(msgspec.Struct, frozen=True, kw_only=True):
    """What is below one folder."""

    name: str
    kind: str = ""
    used_bytes: int
    inodes: int
    at_least: bool = False
    """Not all of it could be counted."""
    memory: bool = False
    fs: FsUsage | None = None
    """Of one that is a file system of its own: all of it."""


class PodFoldersReading(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod has in its folders."""

    uid: Uid
    at: WallNs
    measured: bool = True
    """False: nothing is known, `trouble` says why."""
    took_s: float = 0.0
    logs: tuple[FolderReading, ...] = ()
    """By container."""
    volumes: tuple[FolderReading, ...] = ()
    other_bytes: int = 0
    """Files directly in its log folder, and its hosts file."""
    other_inodes: int = 0
    trouble: str = ""


class FoldersMeasured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One row for each pod asked about, in that order."""

    rows: tuple[PodFoldersReading, ...] = ()


class ReadContainerStats(Call, frozen=True, kw_only=True):
    """Ask the runtime what its containers use -> ContainerStats. On the port ``runtime``.

    Rejected by a runtime that counts nothing itself.
    """


class ContainerStat(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime says of one container."""

    id: str
    """As the port shows it elsewhere, with the scheme."""
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    swap: SwapUsage | None = None
    layer: FsUsage | None = None
    """Its writable layer: `used_bytes` and `inodes_used`."""


class ContainerStats(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Every container that the runtime counts, by id ascending."""

    rows: tuple[ContainerStat, ...] = ()
