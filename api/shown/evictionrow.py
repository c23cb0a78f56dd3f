"""What ``explain eviction`` answers: thresholds, readings, what would be done now, and how each pod stands."""

import msgspec


class ThresholdRow(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold beside the reading of its signal. None is what nobody knows."""

    signal: str
    condition: str
    is_bytes: bool
    value: str
    """As configured: ``100Mi``, ``10%``."""
    grace_s: float = 0.0
    """0: a hard one."""
    least: int | None = None
    """What must be available."""
    enough: int | None = None
    """What must be available for the pressure to be over: with the minimum reclaim."""
    available: int | None = None
    capacity: int | None = None
    age_s: float | None = None
    """Of the reading."""
    met_s: float | None = None
    """For how long it has been met; None: it is not."""


class StandRow(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod stands in the ranking for a signal."""

    pod: str
    used: int | None
    requested: int
    priority: int
    verdict: str
    """``next``, or why it is kept."""


class RankingRow(msgspec.Struct, frozen=True, kw_only=True):
    """The pods as they would go for one signal, first to go first."""

    signal: str
    is_bytes: bool
    pods: tuple[StandRow, ...] = ()


class VictimRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that had to go."""

    pod: str
    signal: str
    message: str
    ago_s: float
    outcome: str


class EvictionRow(msgspec.Struct, frozen=True, kw_only=True):
    """Where eviction stands."""

    conditions: tuple[str, ...] = ()
    """Pressures that are told, each with how long it lasts at least: ``MemoryPressure for 40 s more``."""
    doing: str
    """What is under way or would be done now, one sentence."""
    usage_age_s: float | None = None
    kernel: str = ""
    """Whether the kernel tells of memory at once, or why not."""
    thresholds: tuple[ThresholdRow, ...] = ()
    short_of: tuple[RankingRow, ...] = ()
    """A ranking for each signal that the node is short of."""
    if_short: tuple[RankingRow, ...] = ()
    """A ranking for each other signal with a threshold."""
    over_limit: tuple[str, ...] = ()
    """Pods over a limit of local storage of their own."""
    victims: tuple[VictimRow, ...] = ()
    """The last ones, newest first."""
    problems: tuple[str, ...] = ()
    oom_kills: tuple[str, ...] = ()
    """The last processes that the kernel killed for want of memory, newest first."""
