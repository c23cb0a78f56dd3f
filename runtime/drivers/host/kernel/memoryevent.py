"""Memory notifications of the kernel, between two readings of usage: the stream ``memory.crossings``.

```text
notifier fires ──▶ all notifiers pause ──▶ at least 1 s after the last check: check ──▶ crossed? push a hint ──▶ wait again
```

A check is one reading of the affected groups by the formulas of the port ``usage``, and costs the same however often the
notifiers fire. A check follows every ten seconds anyway: the levels follow the inactive page cache, and groups come and go.
"""

import contextlib
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import groupby

from api.errors import Failure
from api.eviction import MEMORY_SIGNALS, MemoryCrossed, Observation, Signal, Threshold, is_met
from api.ids import Instant
from api.messages import Message
from api.ports.port import Undo
from api.usage import MemoryUsage
from runtime.drivers.host.kernel.kernelevent import KernelEvents
from runtime.drivers.host.kernel.memorynotifier import (
    EVENTS,
    PRESSURE,
    LevelNotifier,
    MemoryNotifier,
    StallNotifier,
)
from runtime.drivers.host.oserror import translate
from runtime.drivers.host.usage import usagefile as files
from runtime.drivers.host.usage.usagegroup import CgroupFolder, Hierarchies
from runtime.drivers.host.usage.usagememory import group_memory, machine_memory
from runtime.net.loop import Loop

CHECK_PAUSE_S = 1.0
"""Minimum time between two checks, however often the kernel notifies."""
REFRESH_S = 10.0
NEAR_BYTES = 1 << 20
"""A smaller difference does not change a level."""


class MemoryCrossings:
    """The stream ``memory.crossings`` for thresholds on memory; `pod_groups` may contain all pods, the first existing one is used."""

    name = "memory.crossings"

    def __init__(
        self,
        events: KernelEvents,
        thresholds: tuple[Threshold, ...],
        pod_groups: tuple[str, ...] = (),
        proc: str = "/proc",
    ) -> None:
        self._events, self._proc = events, proc
        self._thresholds = tuple(one for one in thresholds if one.signal in MEMORY_SIGNALS)
        self._pod_groups = pod_groups

    def open(self, push: Callable[[Message], None], ended: Callable[[Failure | None], None]) -> Undo:
        """Begin to feed `push`. Raises `OperatingError` where the kernel has no notifications of the machine's memory."""
        hierarchies = Hierarchies(self._proc)
        groups = []
        by_signal = sorted(self._thresholds, key=lambda one: one.signal)
        for signal, found in groupby(by_signal, key=lambda one: one.signal):
            names = None if signal is Signal.MEMORY else self._pod_groups
            groups.append(WatchedGroup(hierarchies, tuple(found), names, self._proc))
        watch = MemoryWatch(groups, push)
        try:
            watch.arm()
        except OSError as error:
            watch.close()
            at = f" ({error.filename})" if error.filename else ""
            what = f"the kernel does not tell of the machine's memory{at}"
            raise translate(error, what) from error
        return self._events.add(watch, ended)


class WatchedGroup:
    """The memory of the machine (`names` is None) or of all pods, its thresholds and its notifiers."""

    def __init__(
        self,
        hierarchies: Hierarchies,
        thresholds: tuple[Threshold, ...],
        names: tuple[str, ...] | None,
        proc: str,
    ) -> None:
        self._hierarchies, self._names, self._proc = hierarchies, names, proc
        self._thresholds = thresholds
        self._identity: object = None
        self._has_levels = True
        """Whether the group supports level notifiers, if tried."""
        self.notifiers: list[MemoryNotifier] = []

    @property
    def is_machine(self) -> bool:
        """Return whether it is the whole machine, which always exists."""
        return self._names is None

    def check(self) -> tuple[Threshold, ...]:
        """Set up the notifiers from now on; return the thresholds that are crossed. Raises OSError."""
        place = self._place()
        identity = identity_of(place)
        if identity != self._identity:
            self.close()
            self._identity, self._has_levels = identity, True
        memory = self._memory(place)
        if memory is None or memory.available_bytes is None:
            return ()
        self._ring_at(place, memory, memory.available_bytes)
        capacity = memory.available_bytes + memory.working_set_bytes
        seen = partial(Observation, available=memory.available_bytes, capacity=capacity, as_of=0.0)
        return tuple(one for one in self._thresholds if is_met(one, seen(signal=one.signal)))

    def close(self) -> None:
        """Close the notifiers."""
        for notifier in self.notifiers:
            notifier.close()
        self.notifiers = []

    def _place(self) -> CgroupFolder | None:
        if self._names is None:
            return self._hierarchies.root("memory")
        places = (self._hierarchies.below_root("memory", name) for name in self._names)
        return next((place for place in places if place is not None), None)

    def _memory(self, place: CgroupFolder | None) -> MemoryUsage | None:
        if self._names is None:
            meminfo = files.read_if_there(f"{self._proc}/meminfo")
            return machine_memory(self._hierarchies, meminfo)[0]
        return group_memory(place)[0] if place is not None else None

    def _ring_at(self, place: CgroupFolder | None, memory: MemoryUsage, available: int) -> None:
        if place is not None and not place.v2 and self._has_levels:
            try:
                self._ring_at_levels(place.folder, memory, available)
            except OSError:
                self.close()
                # A kernel without these events may have PSI all the same, for the machine; a group that is gone has neither.
                if not self.is_machine:
                    raise
                self._has_levels = False
            else:
                return
        if self.notifiers:
            return
        if self._names is None:
            self.notifiers.append(StallNotifier(f"{self._proc}/pressure/memory"))
        elif place is not None and place.v2:
            self.notifiers.append(StallNotifier(f"{place.folder}/{PRESSURE}", f"{place.folder}/{EVENTS}"))

    def _ring_at_levels(self, folder: str, memory: MemoryUsage, available: int) -> None:
        """Set a level for each threshold: usage, inactive page cache included, at which that much less is available."""
        capacity = available + memory.working_set_bytes
        most = memory.usage_bytes + available
        levels = [max(0, most - one.value.of(capacity)) for one in self._thresholds]
        known = [notifier.level_bytes for notifier in self.notifiers if isinstance(notifier, LevelNotifier)]
        if len(known) == len(levels) and all(
            abs(new - old) < NEAR_BYTES for new, old in zip(levels, known, strict=True)
        ):
            return
        self.close()
        for level in levels:
            # One by one: those before one that fails are closed.
            self.notifiers.append(LevelNotifier(folder, level))


class MemoryWatch:
    """One open stream: its groups, and their checks. `arm` first, then everything on the thread."""

    def __init__(self, groups: list[WatchedGroup], push: Callable[[Message], None]) -> None:
        self._groups, self._push = groups, push
        self._loop: Loop | None = None
        self._looked_at: Instant = float("-inf")
        self._turn = 0
        """Counts what is planned: an alarm of an earlier plan does nothing."""
        self._open = True

    def arm(self) -> None:
        """Check for the first time. Raises OSError when the machine has no notifier."""
        for group in self._groups:
            try:
                group.check()
            except OSError:
                if group.is_machine:
                    raise

    def begin(self, loop: Loop, fail: Callable[[Failure], None]) -> None:  # noqa: ARG002  # what is gone may come back
        """Check again, since something may have happened since then, and wait."""
        self._loop = loop
        self._check()

    def close(self) -> None:
        """Close every notifier."""
        self._open = False
        self._rest()
        for group in self._groups:
            group.close()

    def _notifiers(self) -> list[MemoryNotifier]:
        return [notifier for group in self._groups for notifier in group.notifiers]

    def _rest(self) -> None:
        if self._loop is not None:
            for notifier in self._notifiers():
                self._loop.forget(notifier)

    def _fired(self, _mask: int) -> None:
        self._rest()
        self._plan(self._looked_at + CHECK_PAUSE_S)

    def _plan(self, at: Instant) -> None:
        assert self._loop is not None
        self._turn += 1
        self._loop.at(at, partial(self._due, self._turn))

    def _due(self, turn: int) -> None:
        if self._open and turn == self._turn:
            self._check()

    def _check(self) -> None:
        assert self._loop is not None
        self._rest()
        self._looked_at = time.monotonic()
        for notifier in self._notifiers():
            notifier.reset()
        crossed: list[Threshold] = []
        for group in self._groups:
            # A failed check is repeated in the next round of usage, and here again later.
            with contextlib.suppress(OSError):
                crossed += group.check()
        for notifier in self._notifiers():
            self._loop.watch(notifier, self._fired)
        self._plan(self._looked_at + REFRESH_S)
        if crossed:
            self._push(MemoryCrossed(thresholds=tuple(crossed)))


def identity_of(place: CgroupFolder | None) -> object:
    """Return the identity of a group, to tell it from a later one of the same name."""
    if place is None:
        return None
    shown = os.stat(place.folder)  # noqa: PTH116
    return place.folder, shown.st_dev, shown.st_ino
