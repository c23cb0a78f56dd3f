"""What readings show of a node that runs short: the account of `Scarcity`, and now and then nonsense, nothing, or old news."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from api.eviction import Signal
from api.ids import Instant, Uid, WallNs
from api.ports.images import ImageFs, ImageRow
from api.ports.port import Timers
from api.ports.usage import DiskReading, NodeRead, PodFoldersReading
from api.usage import FsUsage, MemoryUsage, Process
from runtime.drivers.memory.disk import MOUNTPOINT, Disk
from runtime.drivers.memory.usage import Load
from tests.harness.world.scarcity import EPOCH_S, Level, Scarcity, roll
from tests.harness.world.usagerule import DrawnUsage

ROOT_DEVICE, IMAGE_DEVICE = 1, 2
MOODS = 30
"""Of so many spans a reading is absurd in one, missing in one, and stands still in one."""
ABSURD, MISSING, FROZEN = range(3)


class ScarceUsage(DrawnUsage):
    """The port ``usage`` of a node that runs short."""

    def __init__(self, timers: Timers, seed: int, scarcity: Scarcity) -> None:
        super().__init__(timers, seed)
        self._scarcity = scarcity
        self._frozen: dict[str, tuple[int, NodeRead | FsUsage]] = {}
        """By what is read: the span, and what was read at its beginning."""

    def load(self, uid: Uid) -> Load:
        """Return what a pod takes; in some spans nothing of it can be read, or nonsense."""
        strange = super().load(uid)
        if strange.hangs or strange.absurd is not None:
            return strange
        scarcity = self._scarcity
        share = scarcity.share(uid)
        volumes = {"disk": share.volume} if scarcity.holds_volume(uid, "disk") else {}
        if scarcity.holds_volume(uid, "memory"):
            volumes["memory"] = share.own
        return Load(
            working_set_bytes=share.memory,
            cache_bytes=0,
            pids=share.pids,
            layer_bytes=share.layer,
            volumes=volumes,
        )

    def mood(self, what: str) -> int:
        """Return how a reading is in this span."""
        return MOODS if self._healed else roll(f"{self._seed}/mood/{what}/{self._span()}", MOODS)

    def _span(self) -> int:
        return int(self._timers.now() / EPOCH_S)

    def _node(self) -> NodeRead:
        mood = self.mood("node")
        if mood == FROZEN and (known := self._frozen.get("node")) and known[0] == self._span():
            assert isinstance(known[1], NodeRead)
            return self._noted(known[1])
        read = self._machine(super()._node())
        if mood == ABSURD:
            lie = (1 << 60) if self._span() % 2 else -7
            assert read.memory is not None
            memory = replace(read.memory, working_set_bytes=lie, usage_bytes=lie)
            return replace(read, memory=memory, pids=1 << 40, system=())
        if mood == MISSING:
            return replace(read, memory=None, pids=None, system=())
        self._frozen["node"] = (self._span(), read)
        return self._noted(read)

    def _machine(self, read: NodeRead) -> NodeRead:
        """Return the machine's reading with the account in it."""
        scarcity = self._scarcity
        memory, pods = scarcity.level(Signal.MEMORY), scarcity.level(Signal.PODS_MEMORY)
        pids = scarcity.level(Signal.PID)
        return replace(
            read,
            memory=self._memory(memory),
            pids=pids.capacity - pids.available,
            pid_limit=pids.capacity,
            system=(Process(name="pods", memory=self._memory(pods)),),
        )

    def _memory(self, level: Level) -> MemoryUsage:
        used = level.capacity - level.available
        return MemoryUsage(
            at=self._timers.wall(),
            usage_bytes=used,
            working_set_bytes=used,
            available_bytes=level.available,
        )

    def _noted(self, read: NodeRead) -> NodeRead:
        assert read.memory is not None
        assert read.pids is not None
        assert read.pid_limit is not None
        pods = next(part.memory for part in read.system if part.name == "pods")
        assert pods is not None
        self._scarcity.note(Signal.MEMORY, read.memory.available_bytes or 0)
        self._scarcity.note(Signal.PODS_MEMORY, pods.available_bytes or 0)
        self._scarcity.note(Signal.PID, read.pid_limit - read.pids)
        return read

    def _disk(self, disk) -> DiskReading:
        images = disk.path == MOUNTPOINT
        space, inodes = (
            (Signal.IMAGEFS, Signal.IMAGEFS_INODES) if images else (Signal.NODEFS, Signal.NODEFS_INODES)
        )
        device = IMAGE_DEVICE if images and self._scarcity.dedicated else ROOT_DEVICE
        row = DiskReading(name=disk.name, path=disk.path, device=device)
        mood = self.mood(disk.name)
        if mood == MISSING:
            return replace(row, trouble="hangs for 3.0 s now")
        fs = self._fs(space, inodes)
        if mood == ABSURD:
            assert fs.capacity_bytes is not None
            return replace(row, fs=replace(fs, available_bytes=fs.capacity_bytes + 1))
        if mood == FROZEN:
            span, first = self._frozen.setdefault(disk.name, (self._span(), fs))
            if span == self._span() and isinstance(first, FsUsage):
                fs = first
            else:
                self._frozen[disk.name] = (self._span(), fs)
        self._scarcity.note(space, fs.available_bytes or 0)
        self._scarcity.note(inodes, fs.inodes_free or 0)
        return replace(row, fs=fs)

    def _fs(self, space: Signal, inodes: Signal) -> FsUsage:
        size, pieces = self._scarcity.level(space), self._scarcity.level(inodes)
        return FsUsage(
            at=self._timers.wall(),
            capacity_bytes=size.capacity,
            available_bytes=size.available,
            used_bytes=size.capacity - size.available,
            inodes=pieces.capacity,
            inodes_free=pieces.available,
            inodes_used=pieces.capacity - pieces.available,
        )

    def _folders(self, pod) -> PodFoldersReading:
        read = super()._folders(pod)
        share = self._scarcity.share(pod.uid)
        volumes = tuple(
            replace(row, inodes=share.inodes if row.name == "disk" else 1, memory=row.name == "memory")
            for row in read.volumes
        )
        return replace(read, volumes=volumes)


class ScarceDisk(Disk):
    """The file system of images of a node that runs short, as the runtime measures it."""

    def __init__(self, scarcity: Scarcity) -> None:
        super().__init__()
        self._scarcity = scarcity

    def removed(self, images: Iterable[ImageRow], now: Instant) -> None:  # the account has the time
        """Take in that images were removed."""
        self._scarcity.removed(images)

    def measure(self, images: Iterable[ImageRow], now: Instant, wall: WallNs) -> ImageFs:
        """Return what a look at the file system shows, now and then nonsense."""
        scarcity = self._scarcity
        level = scarcity.level(Signal.IMAGEFS)
        if scarcity.healed_at is None and not roll(f"{scarcity.seed}/images/{scarcity.epoch()}", MOODS // 2):
            return ImageFs(mountpoint=MOUNTPOINT, capacity_bytes=level.capacity, available_bytes=-5)
        pieces = scarcity.level(Signal.IMAGEFS_INODES)
        scarcity.note(Signal.IMAGEFS, level.available)
        scarcity.note(Signal.IMAGEFS_INODES, pieces.available)
        return ImageFs(
            mountpoint=MOUNTPOINT,
            capacity_bytes=level.capacity,
            available_bytes=level.available,
            used_bytes=min(scarcity.images(), level.capacity),
            inodes=pieces.capacity,
            inodes_free=pieces.available,
            measured_at=wall,
        )
