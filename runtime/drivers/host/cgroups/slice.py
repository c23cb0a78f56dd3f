"""Slices: cgroups that systemd makes, so that it keeps their limits when it reloads its configuration.

What it was not told of it takes back at its next chance. So a slice is started as a transient unit with its limits as
properties, and the files are written after that (reference ``node`` section 9.4).
"""

import posixpath
import time
from collections.abc import Callable
from contextlib import closing

from api.ports.cgroups import UNLIMITED, CgroupLimits
from runtime.drivers.host.cgroups.dbus import Bus, DbusError

SOCKET = "/run/dbus/system_bus_socket"
MANAGER = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
)
EXISTS = "org.freedesktop.systemd1.UnitExists"
NONE = "org.freedesktop.systemd1.NoSuchUnit"
INFINITY = (1 << 64) - 1
SECOND_US = 1_000_000
LOOK_S = 0.005
SUFFIX = ".slice"

Property = tuple[str, tuple[str, object]]


class Slices:
    """Starts and stops slices through the bus at `socket`. Raises OSError for a bus that is away, `DbusError` for a refusal."""

    def __init__(self, socket: str = SOCKET) -> None:
        self._socket = socket

    def start(
        self,
        path: str,
        limits: CgroupLimits,
        *,
        unified: bool,
        deadline_s: float,
        is_there: Callable[[], bool],
    ) -> None:
        """Start the slice of this path with its limits, or give one that runs other limits; wait until it is there."""
        until = time.monotonic() + deadline_s
        name = posixpath.basename(path)
        properties = limit_properties(limits, unified=unified)
        with closing(Bus(self._socket, deadline_s)) as bus:
            try:
                bus.call(
                    MANAGER,
                    "StartTransientUnit",
                    "ssa(sv)a(sa(sv))",
                    name,
                    "replace",
                    [*unit_properties(path), *properties],
                    [],
                )
            except DbusError as error:
                if error.name != EXISTS:
                    raise
                bus.call(MANAGER, "SetUnitProperties", "sba(sv)", name, 1, properties)
        # The answer means that the job was queued, not that it is done.
        while not is_there():
            if time.monotonic() > until:
                raise TimeoutError(f"systemd did not make {path} in time")
            time.sleep(LOOK_S)

    def stop(self, path: str, deadline_s: float) -> None:
        """Stop a slice; one that does not run is fine."""
        with closing(Bus(self._socket, deadline_s)) as bus:
            try:
                bus.call(MANAGER, "StopUnit", "ss", posixpath.basename(path), "replace")
            except DbusError as error:
                if error.name != NONE:
                    raise


def unit_properties(path: str) -> list[Property]:
    """Return what a slice is apart from its limits: below its parent, and with everything counted."""
    above = posixpath.basename(posixpath.dirname(path))
    found: list[Property] = [
        ("Description", ("s", f"cgroup {posixpath.basename(path)} of pods")),
        ("DefaultDependencies", ("b", 0)),
    ]
    found += [(f"{what}Accounting", ("b", 1)) for what in ("Memory", "CPU", "IO", "Tasks")]
    return [*found, ("Wants", ("as", [above]))] if above else found


def limit_properties(limits: CgroupLimits, *, unified: bool) -> list[Property]:
    """Return limits as systemd properties; unset ones are left out."""
    found: list[Property] = []

    def lay(name: str, value: int) -> None:
        if value:
            found.append((name, ("t", INFINITY if value == UNLIMITED else value)))

    lay("CPUWeight" if unified else "CPUShares", limits.cpu_weight if unified else limits.cpu_shares)
    if limits.cpu_quota_us and limits.cpu_period_us:
        quota = limits.cpu_quota_us
        lay("CPUQuotaPerSecUSec", quota if quota == UNLIMITED else quota * SECOND_US // limits.cpu_period_us)
        lay("CPUQuotaPeriodUSec", limits.cpu_period_us)
    lay("MemoryMax" if unified else "MemoryLimit", limits.memory_bytes)
    lay("TasksMax", limits.pids)
    return found
