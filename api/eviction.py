"""Eviction: when the node is short of something, and who has to go then.

A threshold says how much of a signal's resource must stay available. It is met when less is, strictly; it is resolved when
at least its minimum reclaim more than that is available again. Reference ``node`` sections 6.1 and 6.2.
"""

import struct
from enum import StrEnum

import msgspec

from api.messages import Message

PERCENT = 100.0


class Signal(StrEnum):
    """What is watched."""

    MEMORY = "memory.available"
    PODS_MEMORY = "allocatableMemory.available"
    NODEFS = "nodefs.available"
    NODEFS_INODES = "nodefs.inodesFree"
    IMAGEFS = "imagefs.available"
    IMAGEFS_INODES = "imagefs.inodesFree"
    PID = "pid.available"


MEMORY_SIGNALS = (Signal.MEMORY, Signal.PODS_MEMORY)


class Pressure(StrEnum):
    """Conditions of a node that is short of something."""

    MEMORY = "MemoryPressure"
    DISK = "DiskPressure"
    PID = "PIDPressure"


class SignalKind(msgspec.Struct, frozen=True):
    """What a signal is of."""

    pressure: Pressure
    resource: str
    """As messages name it."""
    is_bytes: bool


KINDS: dict[Signal, SignalKind] = {
    Signal.MEMORY: SignalKind(Pressure.MEMORY, "memory", True),
    Signal.PODS_MEMORY: SignalKind(Pressure.MEMORY, "memory", True),
    Signal.NODEFS: SignalKind(Pressure.DISK, "ephemeral-storage", True),
    Signal.NODEFS_INODES: SignalKind(Pressure.DISK, "inodes", False),
    Signal.IMAGEFS: SignalKind(Pressure.DISK, "ephemeral-storage", True),
    Signal.IMAGEFS_INODES: SignalKind(Pressure.DISK, "inodes", False),
    Signal.PID: SignalKind(Pressure.PID, "pids", False),
}


class Quantity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An amount, or a share of whatever the capacity is."""

    amount: int = 0
    percent: float | None = None

    def of(self, capacity: int) -> int:
        """Return the amount, in bytes or pieces."""
        return self.amount if self.percent is None else int(capacity * single(single(self.percent) / PERCENT))


def single(number: float) -> float:
    """Return a number in the single precision that a kubelet counts percentages in."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


class Threshold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much must stay available. A `grace_s` of 0 makes it a hard one."""

    signal: Signal
    value: Quantity
    grace_s: float = 0.0
    reclaim: Quantity = Quantity()

    @property
    def is_hard(self) -> bool:
        """Return whether it counts at once."""
        return self.grace_s == 0


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What a signal came to: available, of how much, as of which sample."""

    signal: Signal
    available: int
    capacity: int
    as_of: float
    """When its source was read, monotonic: the same again is no news."""


def is_met(threshold: Threshold, seen: Observation, *, with_reclaim: bool = False) -> bool:
    """Return whether less is available than must be; `with_reclaim`, than must be for the pressure to be over."""
    least = threshold.value.of(seen.capacity)
    if with_reclaim:
        least += threshold.reclaim.of(seen.capacity)
    return seen.available < least


class MemoryCrossed(Message, frozen=True, kw_only=True):
    """The kernel woke who watches memory, and these thresholds looked crossed. An item of ``memory.crossings``: a hint."""

    thresholds: tuple[Threshold, ...]

    def brief(self) -> str:
        """Return one line for traces."""
        return f"MemoryCrossed {' '.join(one.signal for one in self.thresholds)}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "memory"


class EvictionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says of evictions. Spans are seconds."""

    thresholds: tuple[Threshold, ...] = ()
    transition_s: float = 300.0
    """How long a node condition stays set after the pressure was last observed."""
    max_pod_grace_s: int = 0
    """Most of a grace that a pod gets when a soft threshold makes it go."""
    local_limits: bool = True
    """Whether limits of ephemeral storage are enforced."""
    spares_static: bool = False
    """Whether pods of files are never evicted: true on a node with an API server, since others can go there."""
