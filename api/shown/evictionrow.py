"""The answer of ``explain eviction``: thresholds, readings, the next eviction action, the rank of each pod."""

import msgspec


class ThresholdRow(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold and the reading of its signal. None: unknown."""

    signal: str
    condition: str
    is_bytes: bool
    value: str
    """As configured: ``100Mi``, ``10%``."""
    grace_s: float = 0.0
    """0: a hard threshold."""
    least: int | None = None
    """What must be available."""
    enough: int | None = None
    """What must be available to end the pressure: the threshold and its minimum reclaim."""
    available: int | None = None
    capacity: int | None = None
    age_s: float | None = None
    """Age of the reading."""
    met_s: float | None = None
    """For how long it has been met; None: not met."""


class StandRow(msgspec.Struct, frozen=True, kw_only=True):
    """The rank of a pod for a signal."""

    pod: str
    used: int | None
    requested: int
    priority: int
    verdict: str
    """``next``, or why it is not evicted."""


class RankingRow(msgspec.Struct, frozen=True, kw_only=True):
    """The pods in the order of eviction for one signal."""

    signal: str
    is_bytes: bool
    pods: tuple[StandRow, ...] = ()


class VictimRow(msgspec.Struct, frozen=True, kw_only=True):
    """An evicted pod."""

    pod: str
    signal: str
    message: str
    ago_s: float
    outcome: str


class EvictionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of eviction."""

    conditions: tuple[str, ...] = ()
    """Node conditions that are set, each with its minimum duration: ``MemoryPressure for 40 s more``."""
    doing: str
    """The current or the next eviction action, one sentence."""
    usage_age_s: float | None = None
    kernel: str = ""
    """Whether the kernel notifies of memory shortage, or why not."""
    thresholds: tuple[ThresholdRow, ...] = ()
    short_of: tuple[RankingRow, ...] = ()
    """A ranking for each signal that the node is short of."""
    if_short: tuple[RankingRow, ...] = ()
    """A ranking for each other signal with a threshold."""
    over_limit: tuple[str, ...] = ()
    """Pods over their own limit of local storage."""
    victims: tuple[VictimRow, ...] = ()
    """The last evictions, newest first."""
    problems: tuple[str, ...] = ()
    oom_kills: tuple[str, ...] = ()
    """The last OOM kills, newest first."""
