"""Usage in the simulated world: pods that hang or lie, faults of the port, and what must hold of every round."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actors.usage.state import Part, UsageState
from api import paths
from api.errors import FailureKind
from api.faults import AnyFault, CrashActor, DelayOperation, FailOperation, HangOperation, When
from api.ids import Uid
from api.ports.runtime import RuntimeContainerState, RuntimePod
from api.ports.usage import GroupReading
from api.usage import CpuUsage, FsUsage, MemoryUsage
from runtime.drivers.memory.usage import Load, MemoryUsageReader
from tests.harness.eviction.evictionrule import Shortage

if TYPE_CHECKING:
    from tests.harness.world.world import World

EPOCH_S = 45.0
"""How long a pod goes on as it is."""
ROUND_LIMIT_S = 40.0
"""So old the last round may be: a period, what the agent takes to notice a hang, and a restart of the actor."""
STEADY_S = 100.0
"""So long a container must have run before its usage must be known: a process may have to be asked for first."""
OPERATIONS = (
    ("usage", "ReadNode"),
    ("usage", "ReadPods"),
    ("usage", "MeasureDisks"),
    ("usage", "MeasureFolders"),
    ("runtime", "ReadContainerStats"),
    ("images", "ImageFsUsage"),
)
ABSURD = (
    MemoryUsage(at=1, usage_bytes=-1, working_set_bytes=-1),
    MemoryUsage(at=1, usage_bytes=1 << 60, working_set_bytes=1 << 60),
    None,
)


class DrawnUsage(MemoryUsageReader):
    """Usage whose pods are drawn from the seed, anew every so often, each by itself: most are well, some hang or lie."""

    def __init__(self, timers, seed: int) -> None:
        super().__init__(timers)
        self._seed = seed
        self._healed = False
        self._shortage = Shortage(seed)

    def heal(self) -> None:
        """Let every reading be well from now on."""
        self._healed = True

    def is_short_of_memory(self) -> bool:
        """Tell whether little memory is left now."""
        return not self._healed and self._shortage.is_short("memory", self._timers.now())

    def load(self, uid: Uid) -> Load:
        """Return what a pod uses in this epoch."""
        if self._healed:
            return Load()
        epoch = int(self._timers.now() / EPOCH_S)
        roll = zlib.crc32(f"{self._seed}/{uid}/{epoch}".encode()) % 20
        if roll == 0:
            return Load(hangs=True)
        if roll == 1:
            clock = 7 if epoch % 2 else -5
            lie = GroupReading(
                id="",
                cpu=CpuUsage(at=1, clock_ns=clock, total_ns=clock),
                memory=ABSURD[epoch % len(ABSURD)],
                pids=-3,
            )
            return Load(absurd=lie)
        return Load(working_set_bytes=roll << 20, volumes={"cache": roll << 16})

    def _node(self):
        read = super()._node()
        return read if self._healed else self._shortage.node(read, self._timers.now())

    def _disk(self, disk):
        row = super()._disk(disk)
        if not self._healed:
            row = self._shortage.disk(row, self._timers.now())
        epoch = int(self._timers.now() / EPOCH_S)
        if self._healed or zlib.crc32(f"{self._seed}/disk/{epoch}".encode()) % 8:
            return row
        return replace(row, fs=replace(row.fs, available_bytes=row.fs.capacity_bytes + 1))


def draw_usage_faults(seed: int) -> tuple[AnyFault, ...]:
    """Draw some faults of usage, apart from all others."""
    random = Random(f"{seed}/usage")
    faults: list[AnyFault] = []
    for _ in range(random.randint(2, 5)):
        port, call = random.choice(OPERATIONS)
        after, when = random.randrange(30), random.choice(tuple(When))
        match random.randrange(4):
            case 0:
                kind = random.choice((FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT)).value
                faults.append(FailOperation(port=port, call=call, kind=kind, after=after, when=when, times=3))
            case 1:
                faults.append(HangOperation(port=port, call=call, after=after, when=when, times=2))
            case 2:
                faults.append(DelayOperation(port=port, call=call, after=after, delay_s=15.0))
            case _:
                faults.append(CrashActor(path=paths.USAGE, after=after * 4))
    return tuple(faults)


def broken(state: UsageState, memory_bytes: int) -> str:
    """Return what no round may ever say, empty when all is well."""
    rounds = state.rounds
    if rounds.published > rounds.number:
        return f"round {rounds.published} is told before it began ({rounds.number})"
    parts = [(asked.part, asked.uids if asked.part is Part.LOOK else ()) for asked in state.asked.values()]
    if len(parts) != len(set(parts)):
        return f"a part is asked for twice at once: {sorted(parts)}"
    usage = state.usage
    if usage is None:
        return ""
    uids = [pod.uid for pod in usage.pods]
    if len(uids) != len(set(uids)):
        return "a pod has two rows"
    memories = [usage.node.memory, *(pod.memory for pod in usage.pods)]
    for memory in memories:
        if memory is not None and not 0 <= memory.working_set_bytes <= memory_bytes:
            return f"a working set of {memory.working_set_bytes} bytes is told"
    disks: list[FsUsage | None] = [usage.node.fs, *(pod.ephemeral for pod in usage.pods)]
    for fs in disks:
        if fs is not None and fs.capacity_bytes is not None:
            if not 0 <= (fs.available_bytes or 0) <= fs.capacity_bytes:
                return f"{fs.available_bytes} bytes available of {fs.capacity_bytes} are told"
            # What a pod has on local disk is a sum over parts that are read one after the other, and on two disks.
            most = fs.capacity_bytes if fs is usage.node.fs else 2 * fs.capacity_bytes
            if not 0 <= (fs.used_bytes or 0) <= most:
                return f"{fs.used_bytes} bytes used of {fs.capacity_bytes} are told"
    for pod in usage.pods:
        if pod.cpu is not None and pod.cpu.total_ns < 0:
            return f"CPU time of {pod.cpu.total_ns} ns is told"
        if pod.memory is None and not pod.troubles:
            return f"pod {pod.uid} has no memory and nobody says why"
    return ""


def usage_complaints(world: World, truth: dict[Uid, RuntimePod]) -> Iterator[str]:
    """Yield what is not as it must be of usage once everything is healed."""
    assert world.system is not None
    state = world.system.committed(paths.USAGE)
    if not isinstance(state, UsageState) or state.usage is None:
        yield "usage was not read yet"
        return
    age_s = world.time.now() - state.usage.as_of
    if age_s > ROUND_LIMIT_S:
        yield f"usage is {age_s:.0f} s old"
    rows = {pod.uid: pod for pod in state.usage.pods}
    for uid, pod in truth.items():
        steady = [
            c
            for c in pod.containers
            if c.state is RuntimeContainerState.RUNNING
            and c.started_at is not None
            and (world.time.wall() - c.started_at) / 1e9 > STEADY_S
        ]
        if pod.ours and steady and (uid not in rows or rows[uid].memory is None):
            why = rows[uid].troubles if uid in rows else "no row"
            yield f"pod {uid} runs and has no usage: {why}"
