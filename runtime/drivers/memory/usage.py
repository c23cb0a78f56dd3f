"""Usage in a virtual world: a machine, its pods and their folders use given amounts.

Nothing is drawn: CPU time follows the clock, everything else is a table that a test or a simulation changes. A row
can hang, lie, or be missing.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from api.ids import Uid
from api.ports.port import Timers
from api.ports.usage import (
    ContainerStat,
    ContainerStats,
    DiskPlace,
    DiskReading,
    DisksMeasured,
    FolderPlace,
    FolderReading,
    FoldersMeasured,
    GroupReading,
    MeasureDisks,
    MeasureFolders,
    NodeRead,
    PodFoldersReading,
    PodPlace,
    PodReading,
    PodsRead,
    ReadNode,
    ReadPods,
)
from api.usage import CpuUsage, FsUsage, MemoryUsage, SwapUsage, available

NS = 1_000_000_000
FIRST_PID = 1
PAGE = 4096


class StatSource(Protocol):
    """Counts for the containers of a memory runtime."""

    def stats(self, running: tuple[str, ...]) -> ContainerStats:
        """Return what these containers use."""
        ...


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod uses."""

    working_set_bytes: int = 8 << 20
    cache_bytes: int = 1 << 20
    """Inactive page cache, not part of the working set."""
    milli_cores: int = 10
    pids: int = 1
    layer_bytes: int = PAGE
    log_bytes: int = PAGE
    volumes: Mapping[str, int] = {}
    """emptyDir volumes on disk, by name."""
    hangs: bool = False
    """Nothing of it can be read."""
    absurd: GroupReading | None = None
    """What is read of its containers instead of the truth; the id is put in."""


class MemoryUsageReader:
    """The port ``usage`` of a virtual machine. `loads` by UID; a pod without one uses what `Load` says by itself."""

    name = "usage"

    def __init__(
        self,
        timers: Timers,
        *,
        memory_bytes: int = 16 << 30,
        cpus: int = 4,
        disk: FsUsage | None = None,
    ) -> None:
        self._timers = timers
        self.memory_bytes, self.cpus = memory_bytes, cpus
        self.disk = disk or FsUsage(
            at=0,
            capacity_bytes=100 << 30,
            available_bytes=60 << 30,
            used_bytes=40 << 30,
            inodes=1 << 20,
            inodes_free=1 << 19,
            inodes_used=1 << 19,
        )
        self.missing_disks: dict[str, str] = {}
        """Paths that cannot be measured, and why."""
        self.loads: dict[Uid, Load] = {}
        self.other_bytes = 512 << 20
        """Memory of what is no pod."""
        self.pids = 200
        self._last: dict[Uid, Load] = {}
        self._containers: dict[str, Uid] = {}

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002  # nothing waits here
        """Carry out a call of `api.ports.usage`."""
        match call:
            case ReadNode():
                return self._node()
            case ReadPods():
                return PodsRead(rows=tuple(self._pod(pod) for pod in call.pods))
            case MeasureDisks():
                return DisksMeasured(rows=tuple(self._disk(disk) for disk in call.disks))
            case MeasureFolders():
                return FoldersMeasured(rows=tuple(self._folders(pod) for pod in call.pods))
            case _:
                raise TypeError(f"the port usage takes no {type(call).__name__}")

    def load(self, uid: Uid) -> Load:
        """Return what a pod uses."""
        return self.loads.get(uid, Load())

    def _clock_ns(self) -> int:
        return int(self._timers.now() * NS)

    def _node(self) -> NodeRead:
        wall, clock = self._timers.wall(), self._clock_ns()
        used = self.other_bytes + sum(load.working_set_bytes for load in self._last.values())
        return NodeRead(
            at=wall,
            cpus=self.cpus,
            memory_bytes=self.memory_bytes,
            cpu=CpuUsage(at=wall, clock_ns=clock, total_ns=clock // 10),
            memory=MemoryUsage(
                at=wall,
                usage_bytes=used,
                working_set_bytes=used,
                available_bytes=available(self.memory_bytes, used),
            ),
            swap=SwapUsage(at=wall, usage_bytes=0, available_bytes=0),
            pids=self.pids + sum(load.pids for load in self._last.values()),
            pid_limit=1 << 15,
            source="memory",
        )

    def _pod(self, pod: PodPlace) -> PodReading:
        load = self.load(pod.uid)
        if load.hangs:
            return PodReading(uid=pod.uid, trouble="hangs for 2.0 s now")
        self._last[pod.uid] = load
        wall, clock = self._timers.wall(), self._clock_ns()
        rows = []
        for container in pod.containers:
            if container.pid < FIRST_PID:
                rows.append(GroupReading(id=container.id, trouble="its processes could not be read"))
                continue
            self._containers[container.id] = pod.uid
            if load.absurd is not None:
                rows.append(replace(load.absurd, id=container.id))
                continue
            used = load.working_set_bytes // len(pod.containers)
            rows.append(
                GroupReading(
                    id=container.id,
                    cpu=CpuUsage(at=wall, clock_ns=clock, total_ns=clock * load.milli_cores // 1000),
                    memory=MemoryUsage(
                        at=wall, usage_bytes=used + load.cache_bytes, working_set_bytes=used, rss_bytes=used
                    ),
                    pids=load.pids,
                    source="memory",
                )
            )
        return PodReading(uid=pod.uid, containers=tuple(rows))

    def _disk(self, disk: DiskPlace) -> DiskReading:
        if disk.path in self.missing_disks:
            return DiskReading(name=disk.name, path=disk.path, trouble=self.missing_disks[disk.path])
        return DiskReading(
            name=disk.name, path=disk.path, device=1, fs=replace(self.disk, at=self._timers.wall())
        )

    def _folders(self, pod: FolderPlace) -> PodFoldersReading:
        load, wall = self.load(pod.uid), self._timers.wall()
        if load.hangs:
            return PodFoldersReading(uid=pod.uid, at=wall, measured=False, trouble="hangs for 3.0 s now")
        volumes = tuple(
            FolderReading(name=name, kind="empty-dir", used_bytes=used, inodes=1 + used // PAGE)
            for name, used in sorted(load.volumes.items())
        )
        return PodFoldersReading(
            uid=pod.uid, at=wall, volumes=volumes, other_bytes=load.log_bytes, other_inodes=1
        )

    def stats(self, running: tuple[str, ...]) -> ContainerStats:
        """Return the writable layers of containers that were read before."""
        wall = self._timers.wall()
        rows = []
        self._containers = {known: uid for known, uid in self._containers.items() if known in running}
        for identity in running:
            uid = self._containers.get(identity, Uid(""))
            layer = FsUsage(at=wall, used_bytes=self.load(uid).layer_bytes, inodes_used=1)
            rows.append(ContainerStat(id=identity, layer=layer))
        return ContainerStats(rows=tuple(rows))
