"""Eviction in the simulated world: a node that runs short now and then, and what must hold once it does so no more."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actors.admission.state import AdmissionState
from actors.eviction.state import EvictionState
from api import paths
from api.eviction import EvictionPolicy, Quantity, Signal, Threshold
from api.faults import AnyFault, CrashActor
from api.ports.usage import DiskReading, NodeRead
from api.usage import available

if TYPE_CHECKING:
    from tests.harness.world.world import World

EPOCH_S = 50.0
"""How long the node is as short as it is."""
MI, GI = 1 << 20, 1 << 30
SHORT_BYTES = 300 * MI


def draw_policy(seed: int) -> EvictionPolicy:
    """Draw what a node's configuration says of evictions: nothing on two nodes of three."""
    random = Random(f"{seed}/eviction")
    if seed % 3:
        return EvictionPolicy()
    hard = Threshold(
        signal=Signal.MEMORY,
        value=Quantity(amount=512 * MI),
        reclaim=Quantity(amount=random.choice((0, 100 * MI))),
    )
    soft = Threshold(signal=Signal.MEMORY, value=Quantity(amount=GI), grace_s=random.choice((20.0, 70.0)))
    disk = Threshold(signal=Signal.NODEFS, value=Quantity(percent=random.choice((5.0, 10.0))))
    chosen = tuple(one for one in (hard, soft, disk) if random.random() < 0.8)
    return EvictionPolicy(thresholds=chosen, transition_s=40.0, max_pod_grace_s=random.choice((0, 8)))


def draw_eviction_faults(seed: int) -> tuple[AnyFault, ...]:
    """Draw crashes of the manager, apart from all other faults."""
    random = Random(f"{seed}/eviction faults")
    return tuple(
        CrashActor(path=paths.EVICTION, after=random.randrange(80)) for _ in range(random.randrange(3))
    )


class Shortage:
    """When the node of a seed is short of memory or disk."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._on = not seed % 3

    def is_short(self, what: str, now: float) -> bool:
        """Tell whether the node is short of something in this epoch."""
        epoch = int(now / EPOCH_S)
        return self._on and not zlib.crc32(f"{self._seed}/{what}/{epoch}".encode()) % 7

    def node(self, read: NodeRead, now: float) -> NodeRead:
        """Return the machine's usage, now and then with little memory left."""
        if read.memory is None or not self.is_short("memory", now):
            return read
        used = read.memory_bytes - SHORT_BYTES
        memory = replace(
            read.memory,
            usage_bytes=used,
            working_set_bytes=used,
            available_bytes=available(read.memory_bytes, used),
        )
        return replace(read, memory=memory)

    def disk(self, row: DiskReading, now: float) -> DiskReading:
        """Return a file system, now and then nearly full."""
        fs = row.fs
        if fs is None or fs.capacity_bytes is None or not self.is_short("disk", now):
            return row
        return replace(row, fs=replace(fs, available_bytes=fs.capacity_bytes // 50))


def eviction_complaints(world: World) -> Iterator[str]:
    """Yield what is not as it must be once nothing is short any more: no pressure, and nobody is waited for."""
    assert world.system is not None
    state, admission = world.system.committed(paths.EVICTION), world.system.committed(paths.ADMISSION)
    if not isinstance(state, EvictionState) or not isinstance(admission, AdmissionState):
        yield "eviction has not begun"
        return
    if state.usage is None or state.pods is None:
        yield "eviction does not know what is used, or by whom"
    if state.pressure.met or state.doing is not None:
        yield f"eviction has thresholds met {state.pressure.met} and does {state.doing}"
    if state.pressure.conditions or admission.pressure.conditions:
        yield f"pressure is told: {state.pressure.conditions}, to newcomers {admission.pressure.conditions}"
