"""What a node that runs short has, and who takes it: memory, processes, disk and images, counted piece by piece.

```text
system (wobbles, hogs by the clock) --.
pods (each may become a hog)        --+--> held --> available, as the readings show it
images (used and strange ones)      --'      '--> what is gone lingers for a while, some of it until the healing
```

Pods and images free what they took by their end only. After the healing the system is modest and readings are well, but
whoever was a hog stays one: that nothing is short any more follows from what the agent does.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from random import Random

from api.eviction import Signal
from api.ids import Uid
from api.ports.images import ImageRow
from api.ports.runtime import RuntimeContainerState
from runtime.drivers.memory.runtime import MemoryRuntime
from runtime.drivers.memory.volume import MemoryVolumes
from tests.harness.world.workload import REGISTRY

MI, GI = 1 << 20, 1 << 30
EPOCH_S = 50.0
HOG_EPOCHS = 4
"""So long a pod that became a hog is one."""
MEMORY_BYTES = 16 * GI
PODS_BYTES = 15 * GI
"""What all pods may take together of it."""
PIDS = 1 << 15
DISK_BYTES, IMAGE_DISK_BYTES = 100 * GI, 60 * GI
INODES = 1 << 22
IMAGE_BYTES, STRANGE_BYTES = 4 * GI, 6 * GI
LOG_S = 300.0
FIRST_STRANGE = 0x80


class Hog(Enum):
    """What a pod takes too much of."""

    MEMORY = auto()
    PIDS = auto()
    VOLUME = auto()
    INODES = auto()
    LAYER = auto()
    MEMORY_VOLUME = auto()
    """More than the limit of a volume of its own: nothing else is short of it."""


HOGS = tuple(Hog)


@dataclass(frozen=True)
class Share:
    """What one pod takes."""

    memory: int = 0
    pids: int = 0
    volume: int = 0
    inodes: int = 0
    layer: int = 0
    """Of each container."""
    own: int = 0
    """In its volume of memory."""


@dataclass(frozen=True)
class Level:
    """What is available of something."""

    available: int
    capacity: int


def roll(text: str, sides: int) -> int:
    """Return a number that depends on nothing but the text."""
    return zlib.crc32(text.encode()) % sides


class Scarcity:
    """The account of one seed's node."""

    def __init__(self, seed: int) -> None:
        random = Random(f"{seed}/scarcity")
        self.seed = seed
        self.dedicated = random.random() < 0.5
        """Images have a disk of their own."""
        self.late_s = random.choice((0.0, 4.0, 12.0))
        """How long after a pod's end what it took goes on to show as taken."""
        self.image_late_s = random.choice((0.0, 3.0, 20.0))
        self.leak = random.choice((0.0, 0.0, 0.3))
        """Share of the removed images whose space does not show before the healing."""
        self.strange = 0
        self.healed_at: float | None = None
        self.read: deque[tuple[float, Signal, int]] = deque()
        """What readings really showed as available, and when."""
        self.thresholds: dict[Signal, int] = {}
        """About how much of each signal is to stay available: what the system's use wobbles around."""
        self._random = random
        self._runtime: MemoryRuntime
        self._volumes: MemoryVolumes
        self._now: Callable[[], float]
        self._may_go: Callable[[Uid], bool] = lambda _uid: True
        self._held: dict[tuple[str, str], int] = {}
        self._lingering: list[tuple[float, str, int]] = []

    def attach(self, runtime: MemoryRuntime, volumes: MemoryVolumes, now: Callable[[], float]) -> None:
        """Count in this world. The node begins with some images that nobody uses."""
        self._runtime, self._volumes, self._now = runtime, volumes, now
        for _ in range(self._random.randrange(3)):
            self.add_strange_image()

    def add_strange_image(self) -> ImageRow:
        """Have an image fetched by another tool, that no pod of ours will ever use."""
        self.strange += 1
        row = ImageRow(
            id=f"sha256:{FIRST_STRANGE + self.strange:064x}",
            names=(f"registry.sim/strange:{self.strange}",),
            size_bytes=STRANGE_BYTES,
        )
        world = self._runtime._world
        world.images = (*world.images, row)
        return row

    def heal(self, may_go: Callable[[Uid], bool]) -> None:
        """Be well from now on, except for the pods that take too much and may be evicted for it."""
        self.healed_at = self._now()
        self._may_go = may_go
        self._lingering = [
            (until, what, size) for until, what, size in self._lingering if until < float("inf")
        ]

    # ------------------------------------------------------------ who takes what

    def epoch(self) -> int:
        """Return the present span of behaviour; it stays what it was at the healing."""
        return int((self._now() if self.healed_at is None else self.healed_at) / EPOCH_S)

    def hog(self, uid: Uid) -> Hog | None:
        """Return what a pod takes too much of now."""
        now = self.epoch()
        for epoch in range(max(1, now - HOG_EPOCHS + 1), now + 1):
            if not roll(f"{self.seed}/hog/{uid}/{epoch}", 40):
                if self.healed_at is not None and not self._may_go(uid):
                    return None
                return HOGS[roll(f"{self.seed}/what/{uid}/{epoch}", len(HOGS))]
        return None

    def share(self, uid: Uid) -> Share:
        """Return what a pod takes while it may."""
        size = roll(f"{self.seed}/size/{uid}", 8)
        hog = self.hog(uid)
        return Share(
            memory=(14 * GI + size * 100 * MI) if hog is Hog.MEMORY else (8 + 8 * size) * MI,
            pids=PIDS - 2000 if hog is Hog.PIDS else 1 + size,
            volume=(66 + size) * GI if hog is Hog.VOLUME else size * 20 * MI,
            inodes=INODES * 3 // 4 if hog is Hog.INODES else 10,
            layer=(30 + size) * GI if hog is Hog.LAYER else size * MI,
            own=(2 * MI) if hog is Hog.MEMORY_VOLUME else 0,
        )

    def system(self, what: Signal, natural: int, capacity: int) -> int:
        """Return what is left of something that the system takes more of now and then, or hovers around a threshold of."""
        if self.healed_at is not None:
            return natural
        mood = roll(f"{self.seed}/system/{what}/{self.epoch()}", 14) if self.epoch() else -1
        if mood == 0:
            return min(natural, capacity // 100)
        near = self.thresholds.get(what)
        if mood == 1 and near is not None:
            # A little above it, a little below it, by turns.
            sign = 1 if int(self._now() / 9.0) % 2 else -1
            return min(natural, near + sign * near // 40)
        return natural

    # ------------------------------------------------------------ the account

    def running(self) -> dict[Uid, int]:
        """Return how many containers run, of pods of which any do."""
        found: dict[Uid, int] = {}
        world = self._runtime._world
        for container in world.containers.values():
            if container.state is RuntimeContainerState.RUNNING:
                uid = world.sandboxes[container.sandbox_id].uid
                found[uid] = found.get(uid, 0) + 1
        return found

    def holds_volume(self, uid: Uid, name: str) -> bool:
        """Tell whether a pod's volume is there."""
        return any(path.endswith(f"/kubernetes.io~empty-dir/{name}") for path in self._volumes.paths_of(uid))

    def settle(self) -> None:
        """Count what is held now; what was held and is gone lingers."""
        now = self._now()
        held: dict[tuple[str, str], int] = {}
        running = self.running()
        for uid, count in running.items():
            share = self.share(uid)
            held["memory", uid] = share.memory
            held["pids", uid] = share.pids * count
            held["layers", uid] = share.layer * count
        for uid in self._volumes.uids():
            if self.holds_volume(uid, "disk"):
                share = self.share(uid)
                held["volumes", uid] = share.volume
                held["inodes", uid] = share.inodes
        for key, size in self._held.items():
            if key not in held and self.late_s:
                self._lingering.append((now + self.late_s, key[0], size))
        self._held = held
        self._lingering = [row for row in self._lingering if row[0] > now]

    def removed(self, images: Iterable[ImageRow]) -> None:
        """Take in that images were removed: their space shows later, or not before the healing."""
        for row in images:
            leaks = self.healed_at is None and self._random.random() < self.leak
            until = float("inf") if leaks else self._now() + self.image_late_s
            self._lingering.append((until, "images", size_of(row)))

    def sum(self, what: str) -> int:
        """Return how much of something pods take, and what they took shows as."""
        present = sum(size for (kind, _), size in self._held.items() if kind == what)
        return present + sum(size for _, kind, size in self._lingering if kind == what)

    def images(self) -> int:
        """Return what images take on disk."""
        return sum(size_of(row) for row in self._runtime._world.images) + self.sum("images")

    def level(self, signal: Signal) -> Level:
        """Return what is available of what a signal is about."""
        self.settle()
        match signal:
            case Signal.MEMORY:
                capacity, used = MEMORY_BYTES, 2 * GI + self.sum("memory")
            case Signal.PODS_MEMORY:
                capacity, used = PODS_BYTES, self.sum("memory")
            case Signal.PID:
                capacity, used = PIDS, 300 + self.sum("pids")
            case Signal.NODEFS:
                capacity, used = DISK_BYTES, 25 * GI + self.sum("volumes")
                if not self.dedicated:
                    used += self.sum("layers") + self.images()
            case Signal.IMAGEFS:
                if not self.dedicated:
                    return self.level(Signal.NODEFS)
                capacity, used = IMAGE_DISK_BYTES, self.sum("layers") + self.images()
            case Signal.NODEFS_INODES:
                capacity, used = INODES, INODES // 5 + self.sum("inodes")
            case Signal.IMAGEFS_INODES:
                if not self.dedicated:
                    return self.level(Signal.NODEFS_INODES)
                capacity, used = INODES, INODES // 5
        return Level(self.system(signal, max(0, capacity - used), capacity), capacity)

    def note(self, signal: Signal, available: int) -> None:
        """Remember what a reading shows."""
        now = self._now()
        self.read.append((now, signal, available))
        while self.read[0][0] < now - LOG_S:
            self.read.popleft()

    def was_read(self, signal: Signal, available: int, since: float) -> bool:
        """Tell whether a reading made since an instant showed this."""
        return any(at >= since and (what, shown) == (signal, available) for at, what, shown in self.read)


def size_of(row: ImageRow) -> int:
    """Return what an image really takes, which is not what the runtime says of its size."""
    if row.size_bytes == STRANGE_BYTES:
        return STRANGE_BYTES
    return IMAGE_BYTES if row in REGISTRY else 0
