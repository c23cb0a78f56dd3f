"""What the kernel of a simulated machine tells by itself: crossings and kills, storms of them, and what must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from actors.eviction.hint import ASK_AGAIN_S
from actors.eviction.state import CROSSINGS, EvictionState
from actors.oom.state import OOMS, OomState
from api import paths
from api.eviction import MEMORY_SIGNALS, MemoryCrossed
from api.faults import AnyFault, CrashActor, CutStream, DropItem
from api.ports.ooms import OomKill
from api.ports.runtime import RuntimeContainerState
from tests.harness.eviction.evictionrule import EPOCH_S

if TYPE_CHECKING:
    from tests.harness.world.world import World

STORM = 40
"""Hints within one second at the beginning of a shortage."""


def draw_kernel_faults(seed: int) -> tuple[AnyFault, ...]:
    """Draw what goes wrong with what the kernel tells, apart from all other faults."""
    random = Random(f"{seed}/kernel faults")
    faults: list[AnyFault] = []
    for stream in (CROSSINGS, OOMS):
        if random.random() < 0.5:
            faults.append(CutStream(stream=stream, after=random.randrange(12), times=random.choice((1, 3))))
        if random.random() < 0.5:
            faults.append(DropItem(stream=stream, after=random.randrange(12), times=random.choice((1, 5))))
    faults += [CrashActor(path=paths.OOM, after=random.randrange(40)) for _ in range(random.randrange(3))]
    return tuple(faults)


class Kernel:
    """Tells of shortages as they begin, and kills processes now and then."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"{world.seed}/kernel")
        self._healed = False
        self.killed: Counter[tuple[str, str]] = Counter()
        """By UID and container: so many processes were killed."""
        self.system = 0
        at = EPOCH_S
        while at < 700.0:
            world.time.call_at(at, self._begin_epoch)
            at += EPOCH_S
        for _ in range(self._random.randint(5, 25)):
            world.time.call_at(self._random.uniform(5.0, 600.0), self._kill)

    def heal(self) -> None:
        """Tell nothing any more."""
        self._healed = True

    def _begin_epoch(self) -> None:
        thresholds = self._world.settings.eviction.thresholds
        on_memory = tuple(one for one in thresholds if one.signal in MEMORY_SIGNALS)
        if not on_memory or not self._world.usage.is_short_of_memory():
            return
        # The kernel rings when a level is passed, a storm of it while usage trembles around that.
        for number in range(STORM):
            self._world.time.call_at(self._world.time.now() + number / STORM, self._hint)

    def _hint(self) -> None:
        thresholds = self._world.settings.eviction.thresholds
        on_memory = tuple(one for one in thresholds if one.signal in MEMORY_SIGNALS)
        if not self._healed:
            self._world.crossings.push(MemoryCrossed(thresholds=on_memory))

    def _kill(self) -> None:
        if self._healed:
            return
        if self._random.random() < 0.3:
            self.system += 1
            self._world.ooms.push(OomKill(process="hog", pid=self._random.randrange(2, 30_000)))
            return
        running = [
            (pod.uid, one)
            for pod in self._world.runtime.snapshot().pods
            for one in pod.containers
            if one.state is RuntimeContainerState.RUNNING
        ]
        if not running:
            return
        uid, container = self._random.choice(running)
        group = f"/kubepods/pod{uid}"
        for _ in range(self._random.choice((1, 1, 3))):
            self.killed[uid, container.name] += 1
            victims = f"{group}/{container.id.rpartition('://')[2]}"
            self._world.ooms.push(OomKill(group=group, victim_group=victims, process="child", pid=7))


class KernelBooks:
    """The checker's own books of what became of what the kernel told."""

    def __init__(self) -> None:
        self._of: tuple[int, int] | None = None
        self._asked_at = float("-inf")

    def asked(self, number: tuple[int, int], state: EvictionState) -> str:
        """Take in a committed state of the manager; return what is wrong with how often it asks."""
        before = self._asked_at if number == self._of else float("-inf")
        asked_at = state.kernel.asked_at if state.kernel is not None else float("-inf")
        self._of, self._asked_at = number, asked_at
        if before < asked_at < before + ASK_AGAIN_S:
            return f"it asked at {before} and at {asked_at}"
        return ""


def oom_broken(state: OomState, kernel: Kernel) -> str:
    """Return what no count may ever say: more than was killed."""
    if state.system > kernel.system:
        return f"{state.system} kills of the machine's own are told, there were {kernel.system}"
    for row in state.oom_counts:
        if row.kills > kernel.killed[row.uid, row.container]:
            return f"{row.kills} kills are counted for {row.uid} {row.container}"
    return ""


def kernel_complaints(world: World) -> Iterator[str]:
    """Yield what is not as it must be once everything is healed: both streams are heard, and no kill is open."""
    assert world.system is not None
    oom, evictor = world.system.committed(paths.OOM), world.system.committed(paths.EVICTION)
    if not isinstance(oom, OomState) or not oom.subscription.is_open or oom.open or oom.is_watching:
        yield f"{paths.OOM} does not hear the kernel, or has kills that are nobody's: {oom}"
    kernel = evictor.kernel if isinstance(evictor, EvictionState) else None
    if kernel is not None and not kernel.subscription.is_open:
        yield f"{paths.EVICTION} does not hear the kernel: {kernel.subscription}"
