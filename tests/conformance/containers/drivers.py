"""The drivers that the suite holds to the port's page. Registering another one is an entry in `DRIVERS`.

An entry is a name and a function from a temporary folder to a `Driver`. One whose real part is missing on this machine
says so with `pytest.skip`, naming the part and how to get it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import assert_never

import pytest

from api.ports.runtime import HOST_IMAGE
from runtime.drivers.memory.call import Latency
from runtime.drivers.memory.runtime import MemoryRuntime
from tests.conformance.containers.clock import RealClock, VirtualClock
from tests.conformance.containers.cri import CriDriver
from tests.conformance.containers.driver import Driver
from tests.conformance.containers.embedded import EmbeddedDriver
from tests.conformance.containers.personality import PersonalityDriver
from tests.conformance.containers.script import (
    DieBySignal,
    ExitWith,
    IgnoreTerm,
    Missing,
    Print,
    Run,
    Script,
    SleepThenExit,
    SlowTerm,
)
from tests.harness.cri.critrait import CONTAINERD_2, CRIO, CRIO_WITH_EVENTS

LATENCY = Latency(effect_s=(0.0, 0.003), reply_s=(0.0, 0.003), event_s=(0.0, 0.01))


class MemoryDriver(Driver):
    """The memory runtime, in real or in virtual time."""

    has_streams = False
    scheme = "memory://"
    image = HOST_IMAGE

    def __init__(self, folder: Path, clock: RealClock | VirtualClock, latency: Latency | None = None) -> None:
        super().__init__(folder)
        self.clock = clock
        self.runtime = MemoryRuntime(clock, seed=7, latency=latency)
        if isinstance(clock, VirtualClock):
            self.margin_s = 0.05

    def command_for(self, script: Script) -> tuple[tuple[str, ...], tuple[str, ...]]:
        match script:
            case Run():
                return ("run",), ()
            case ExitWith(code=code):
                return ("exit",), (str(code),)
            case SleepThenExit(seconds=seconds, code=code):
                return ("sleep", str(seconds)), ("exit", str(code))
            case IgnoreTerm():
                return ("print", "ready", "stdout"), ("ignore-term", "run")
            case SlowTerm(seconds=seconds, code=code):
                return ("print", "ready", "stdout", "slow-term", str(seconds), "code", str(code)), ("run",)
            case DieBySignal(signal=signal):
                return ("crash", str(signal)), ()
            case Missing():
                return ("missing",), ()
            case Print(lines=lines):
                words = [word for stream, text in lines for word in ("print", text, stream, "sleep", "0.05")]
                return tuple(words), ("exit", "0")
            case _:
                assert_never(script)

    def reopen(self) -> None:
        self.runtime.disconnect()

    def close(self) -> None:
        violations = self.runtime.violations()
        self.clock.close()
        assert not [v for v in violations if "two live" in v], violations

    def now(self) -> float:
        return self.clock.now()

    def wall(self) -> int:
        return self.clock.wall()

    def let_time_pass(self, at_most_s: float) -> None:
        self.clock.let_pass(at_most_s)

    def rename_log(self, path: str, name: str) -> None:
        self.runtime.files[f"{path.rpartition('/')[0]}/{name}"] = self.runtime.files.pop(path)

    def lines_of(self, path: str) -> list[tuple[str, str]]:
        return list(self.runtime.log_lines(path))


# In ``memory-still`` calls take no time, so that many things happen in one tick of the clock.
DRIVERS: dict[str, Callable[[Path], Driver]] = {
    "containerd-1.6": lambda folder: CriDriver(folder, "1.6"),
    "containerd-1.7": lambda folder: CriDriver(folder, "1.7"),
    "cri-containerd2": lambda folder: PersonalityDriver(folder, CONTAINERD_2),
    "cri-crio": lambda folder: PersonalityDriver(folder, CRIO),
    "cri-crio-events": lambda folder: PersonalityDriver(folder, CRIO_WITH_EVENTS),
    "embedded": EmbeddedDriver,
    "memory": lambda folder: MemoryDriver(folder, RealClock()),
    "memory-still": lambda folder: MemoryDriver(folder, VirtualClock()),
    "memory-virtual": lambda folder: MemoryDriver(folder, VirtualClock(), LATENCY),
}
MARKS: dict[str, list[pytest.MarkDecorator]] = {
    "containerd-1.6": [pytest.mark.real],
    # Optional: an environment variable names its folder, and without it these say that they did not run.
    "containerd-1.7": [pytest.mark.slow, pytest.mark.optional],
    # Real processes, mostly waited for: one runtime without events is enough for every check.
    "cri-containerd2": [pytest.mark.slow],
    "cri-crio-events": [pytest.mark.slow],
}
