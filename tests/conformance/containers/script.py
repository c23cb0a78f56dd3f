"""What the suite asks containers to do, in words that every driver translates into a command of its own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """Run until told to stop; SIGTERM ends it at once (143)."""


@dataclass(frozen=True)
class ExitWith:
    """End at once with this code."""

    code: int


@dataclass(frozen=True)
class SleepThenExit:
    """Wait, then end with this code."""

    seconds: float
    code: int = 0


@dataclass(frozen=True)
class IgnoreTerm:
    """Ignore SIGTERM; print ``ready`` once that is so, then run on."""


@dataclass(frozen=True)
class SlowTerm:
    """On SIGTERM wait, then end with this code; print ``ready`` once that is so."""

    seconds: float
    code: int


@dataclass(frozen=True)
class DieBySignal:
    """Be killed at once by this signal."""

    signal: int


@dataclass(frozen=True)
class Missing:
    """A program that does not exist."""


@dataclass(frozen=True)
class Print:
    """Print these lines, (stream, text) each, a moment apart, then end with 0. Streams: ``stdout``, ``stderr``."""

    lines: tuple[tuple[str, str], ...]


Script = Run | ExitWith | SleepThenExit | IgnoreTerm | SlowTerm | DieBySignal | Missing | Print
