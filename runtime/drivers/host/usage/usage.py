"""The port ``usage``: what machine, pods, file systems and folders use, from cgroups v1 and v2 and ``/proc``."""

import contextlib
import os
import time
from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from api.errors import OperatingError
from api.ids import WallNs
from api.ports.usage import (
    ContainerPlace,
    DiskPlace,
    DiskReading,
    DisksMeasured,
    FolderPlace,
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
from api.usage import CpuUsage, FsUsage, NetworkUsage, Process, SwapUsage, UsageSource
from runtime.drivers.host.oserror import translate
from runtime.drivers.host.usage import usagefile as files
from runtime.drivers.host.usage.turn import RowReader
from runtime.drivers.host.usage.usagefolder import walk_pod
from runtime.drivers.host.usage.usagegroup import CgroupFolder, Groups, Hierarchies
from runtime.drivers.host.usage.usagememory import group_memory, machine_memory, source_of
from runtime.drivers.host.usage.usageprocess import STARTTIME, Processes, members, stat

ROW_S = 2.0
"""How long one row may take: a file system, or the files of one pod."""
FOLDER_MARGIN_S = 1.0
"""A walk breaks itself off at its budget; what is over that by so much hangs."""
AGENT, PODS = "kubelet", "pods"
"""What a kubelet calls itself and the cgroup of all pods."""


class UsageReader:
    """The port ``usage``. `statvfs` measures a file system; `row_s` bounds one row, in seconds."""

    name = "usage"
    bounds = {"ReadNode": 1, "ReadPods": 1, "MeasureDisks": 1, "MeasureFolders": 1}  # noqa: RUF012  # never written
    """One at a time of each: a second one would only read the same."""

    def __init__(
        self,
        *,
        proc: str = "/proc",
        row_s: float = ROW_S,
        statvfs: Callable[[str], os.statvfs_result] = os.statvfs,
    ) -> None:
        self._proc, self._row_s, self._statvfs = proc, row_s, statvfs
        self._hierarchies = Hierarchies(proc)
        self._groups: dict[str, tuple[Groups, Groups]] = {}
        self._pods: RowReader[PodReading] = RowReader("usage.pods")
        self._disks: RowReader[DiskReading] = RowReader("usage.disks")
        self._folders: RowReader[PodFoldersReading] = RowReader("usage.folders")

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:
        """Carry out a call of `api.ports.usage`; a failure is reported in its row."""
        match call:
            case ReadNode():
                return self._node(call)
            case ReadPods():
                return self._read_pods(call, deadline_s)
            case MeasureDisks():
                disks = [(disk.path, partial(self._disk, disk)) for disk in call.disks]
                read = self._disks.run(disks, self._row_s, deadline_s)
                rows = zip(call.disks, read, strict=True)
                return DisksMeasured(rows=tuple(_disk_row(disk, row) for disk, row in rows))
            case MeasureFolders():
                walks = [(str(pod.uid), partial(walk_pod, pod, call.budget_s)) for pod in call.pods]
                walked = self._folders.run(walks, call.budget_s + FOLDER_MARGIN_S, deadline_s)
                pods = zip(call.pods, walked, strict=True)
                return FoldersMeasured(rows=tuple(_folder_row(pod, row) for pod, row in pods))
            case _:
                raise TypeError(f"the port usage takes no {type(call).__name__}")

    # -- the machine

    def _node(self, call: ReadNode) -> NodeRead:
        meminfo = files.read_if_there(f"{self._proc}/meminfo")
        total = files.kibibytes(meminfo, b"MemTotal") or 0
        memory, source = machine_memory(self._hierarchies, meminfo)
        swap_total, swap_free = (files.kibibytes(meminfo, key) for key in (b"SwapTotal", b"SwapFree"))
        now = time.time_ns()
        swap = None
        if swap_total is not None and swap_free is not None:
            swap = SwapUsage(at=now, usage_bytes=swap_total - swap_free, available_bytes=swap_free)
        boot = files.field(files.read_if_there(f"{self._proc}/stat"), b"btime")
        agent = self._agent(boot)
        every = self._all_pods(call.pods_group)
        return NodeRead(
            at=now,
            cpus=os.cpu_count() or 1,
            started_at=None if boot is None else boot * 1_000_000_000,
            memory_bytes=total,
            cpu=self._node_cpu(),
            memory=memory,
            swap=swap,
            network=self._network((1, os.getpid())),
            pids=self._threads(),
            pid_limit=self._thread_limit(),
            system=tuple(part for part in (agent, every) if part is not None),
            source=source,
            troubles=() if memory is not None else ("the memory of the machine is not in sight",),
        )

    def _node_cpu(self) -> CpuUsage | None:
        root = self._hierarchies.root("cpuacct")
        if root is not None:
            try:
                return _cpu(root)
            except OSError:
                pass
        words = files.read_if_there(f"{self._proc}/stat").split(b"\n", 1)[0].split()
        if len(words) < 9 or words[0] != b"cpu":
            return None
        # All but idle and waiting for a disk; time of guests is part of user time already.
        busy = sum(int(words[at]) for at in (1, 2, 3, 6, 7, 8))
        return CpuUsage(at=time.time_ns(), clock_ns=time.monotonic_ns(), total_ns=busy * files.TICK_NS)

    def _threads(self) -> int | None:
        words = files.read_if_there(f"{self._proc}/loadavg").split()
        return files.number(words[3].partition(b"/")[2]) if len(words) > 3 else None

    def _thread_limit(self) -> int | None:
        limits = [
            files.number(files.read_if_there(f"{self._proc}/sys/kernel/{name}"))
            for name in ("pid_max", "threads-max")
        ]
        return min((limit for limit in limits if limit is not None), default=None)

    def _agent(self, boot: int | None) -> Process | None:
        words = stat(self._proc, os.getpid())
        processes = Processes(self._proc)
        mine = [os.getpid()]
        started = None
        if words is not None and boot is not None:
            started = boot * 1_000_000_000 + int(words[STARTTIME]) * files.TICK_NS
        return Process(name=AGENT, started_at=started, cpu=processes.cpu(mine), memory=processes.memory(mine))

    def _all_pods(self, path: str) -> Process | None:
        memory_at = self._hierarchies.below_root("memory", path)
        cpu_at = self._hierarchies.below_root("cpuacct", path)
        try:
            memory = group_memory(memory_at)[0] if memory_at else None
            cpu = _cpu(cpu_at) if cpu_at else None
        except OSError:
            return None
        return Process(name=PODS, cpu=cpu, memory=memory) if memory or cpu else None

    def _network(self, pids: tuple[int, ...]) -> NetworkUsage | None:
        for pid in pids:
            table = files.read_if_there(f"{self._proc}/{pid}/net/dev")
            if table:
                return files.network(table)
        return None

    # -- pods

    def _read_pods(self, call: ReadPods, deadline_s: float) -> PodsRead:
        asked = {container.id for pod in call.pods for container in pod.containers}
        self._groups = {known: groups for known, groups in self._groups.items() if known in asked}
        processes = Processes(self._proc)
        jobs = [(str(pod.uid), partial(self._pod, pod, processes)) for pod in call.pods]
        results = self._pods.run(jobs, self._row_s, deadline_s)
        rows = (
            PodReading(uid=pod.uid, trouble=str(row)) if isinstance(row, OperatingError) else row
            for pod, row in zip(call.pods, results, strict=True)
        )
        return PodsRead(rows=tuple(rows))

    def _pod(self, pod: PodPlace, processes: Processes) -> PodReading:
        rows, group = [], None
        for container in pod.containers:
            try:
                own, above = self._groups_of(container, pod)
                rows.append(_container(container, own, processes))
            except OSError as error:
                # It ended, or its pid was reused: the next scan finds it again, if it still exists.
                self._groups.pop(container.id, None)
                why = f"its processes or cgroup could not be read: {error.strerror}: {error.filename}"
                rows.append(GroupReading(id=container.id, trouble=why))
                continue
            if group is None and above.counted:
                # Without it the pod is the sum of its containers, so its end is no trouble.
                with contextlib.suppress(OSError):
                    group = _counted(str(pod.uid), above)
        pids = tuple(container.pid for container in pod.containers)
        network = self._network(pids) if pod.network else None
        return PodReading(uid=pod.uid, group=group, network=network, containers=tuple(rows))

    def _groups_of(self, container: ContainerPlace, pod: PodPlace) -> tuple[Groups, Groups]:
        known = self._groups.get(container.id)
        if known is None:
            identity = container.id.rpartition("://")[2]
            known = self._groups[container.id] = self._hierarchies.of(container.pid, identity, pod.uid)
        return known

    # -- file systems

    def _disk(self, disk: DiskPlace) -> DiskReading:
        try:
            shown, device = self._statvfs(disk.path), os.stat(disk.path).st_dev  # noqa: PTH116
        except OSError as error:
            raise translate(error, f"could not measure the file system of {disk.path}") from error
        return DiskReading(name=disk.name, path=disk.path, device=device, fs=fs_usage(shown, time.time_ns()))


def fs_usage(shown: os.statvfs_result, at: WallNs) -> FsUsage:
    """Return how full a file system is, as a kubelet counts: available is what users without privileges have."""
    total, free = shown.f_blocks * shown.f_frsize, shown.f_bfree * shown.f_frsize
    counted = shown.f_files > 0
    return FsUsage(
        at=at,
        capacity_bytes=total,
        available_bytes=shown.f_bavail * shown.f_frsize,
        used_bytes=total - free,
        # Some file systems (btrfs) have as many inodes as they need and report 0.
        inodes=shown.f_files if counted else None,
        inodes_free=shown.f_ffree if counted else None,
        inodes_used=shown.f_files - shown.f_ffree if counted else None,
    )


def _disk_row(disk: DiskPlace, row: DiskReading | OperatingError) -> DiskReading:
    if isinstance(row, OperatingError):
        return DiskReading(name=disk.name, path=disk.path, trouble=str(row))
    return row


def _folder_row(pod: FolderPlace, row: PodFoldersReading | OperatingError) -> PodFoldersReading:
    if isinstance(row, OperatingError):
        return PodFoldersReading(uid=pod.uid, at=time.time_ns(), measured=False, trouble=str(row))
    return row


def _cpu(place: CgroupFolder) -> CpuUsage | None:
    return files.cpu_v2(place.folder) if place.v2 else files.cpu_v1(place.folder)


def _counted(identity: str, groups: Groups) -> GroupReading:
    """Return what cgroups count. Raises OSError."""
    memory, swap = group_memory(groups.memory) if groups.memory is not None else (None, None)
    return GroupReading(
        id=identity,
        cpu=_cpu(groups.cpu) if groups.cpu is not None else None,
        memory=memory,
        swap=swap,
        pids=files.number(files.read(f"{groups.pids.folder}/pids.current")) if groups.pids else None,
        source=source_of(groups.memory) if groups.memory is not None else "",
    )


def _container(container: ContainerPlace, groups: Groups, processes: Processes) -> GroupReading:
    """Return what a container uses: by its cgroups, and by its processes what they do not count. Raises OSError."""
    row = _counted(container.id, groups)
    if groups.memory is not None:
        row = replace(row, oom_kills=files.oom_kills(groups.memory.folder, v1=not groups.memory.v2))
    if groups.cpu is not None and groups.memory is not None and groups.pids is not None:
        return row
    pids = members(groups.members) if groups.members else processes.family(container.pid)
    if groups.memory is None:
        row = replace(row, memory=processes.memory(pids), source=UsageSource.PROCESSES)
    if groups.cpu is None:
        row = replace(row, cpu=processes.cpu(pids))
    if groups.pids is None:
        row = replace(row, pids=len(pids))
    return row
