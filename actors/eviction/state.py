"""State of EvictionManager: the last readings, thresholds, pressure, and the one eviction action under way.

```text
            .-- reading --> limits of local storage, then node pressure
            v                  |                     |
          Idle <-- all well ---'                     |--disk--> Clearing ended pods --> Reclaiming images --.
            ^                                        |                                                      v
            |                                        '------ still short <----------- fresh reading <-------+
            '-- fresh reading <-- Killing one pod: it is gone, or KILL_WAIT_S passed <----------------------'
```

One action at a time. Decisions use only readings that began after the last action ended.
"""

from collections.abc import Mapping

import msgspec

from actors.rules.nodeevent import NodeEvent
from actors.rules.subscription import Subscription
from api.eviction import EvictionPolicy, Observation, Pressure, Signal, Threshold
from api.ids import Instant, Path, Uid
from api.messages.eviction import ActivePod
from api.usage import Usage

CROSSINGS = "memory.crossings"
"""The stream of memory notifications."""


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold that is met, and since when without a break."""

    threshold: Threshold
    since: Instant
    ripe: bool = False
    """Met for its grace period; it ends only with the minimum reclaim."""


class EvictionReading(msgspec.Struct, frozen=True, kw_only=True):
    """The last reading of usage."""

    usage: Usage
    observations: tuple[Observation, ...] = ()
    absurd: tuple[str, ...] = ()
    """Its impossible values, which were refused."""


class KnownPods(msgspec.Struct, frozen=True, kw_only=True):
    """The last list of the supervisor."""

    active: tuple[ActivePod, ...]
    leaving: tuple[Uid, ...] = ()
    """Pods that no source lists any more and that may not be fully removed."""
    whole: bool = False
    """The list is complete, and each pod has reported its phase."""


class LastAsked(msgspec.Struct, frozen=True, kw_only=True):
    """When others were last asked to send what they know."""

    usage_at: Instant = float("-inf")
    """When usage was last received or requested."""
    pods_at: Instant = float("-inf")


class FeltPressure(msgspec.Struct, frozen=True, kw_only=True):
    """The node's pressure: the thresholds that are met, and what is told of them."""

    met: tuple[Met, ...] = ()
    last_seen: Mapping[Pressure, Instant] = {}
    """When each pressure was last observed."""
    conditions: tuple[Pressure, ...] = ()
    """Published: observed within the transition period."""
    published: tuple[Pressure, ...] | None = None
    """The conditions last sent to admission; None: none yet, or it restarted."""
    subscribers: tuple[Path, ...] = ()
    """Others that they are sent to."""

    @property
    def ripe(self) -> tuple[Threshold, ...]:
        """Return the thresholds that are met for their grace period."""
        return tuple(one.threshold for one in self.met if one.ripe)


class SettlingWait(msgspec.Struct, frozen=True, kw_only=True):
    """The wait for pods that an earlier incarnation evicted."""

    until: Instant = float("-inf")
    """Its deadline."""
    done: bool = False
    """All pods are known and none terminates, or the wait timed out."""


class Reclaimed(msgspec.Struct, frozen=True, kw_only=True):
    """The signal for which everything but running pods was removed since the last eviction."""

    signal: Signal
    at: Instant


class KernelHints(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel's memory notifications."""

    subscription: Subscription = Subscription()
    hinted_at: Instant | None = None
    """When the last notification came that no reading has answered yet."""
    asked_at: Instant = float("-inf")
    """When a reading was last requested for one."""
    count: int = 0
    """Number of new notifications."""


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to evict, and why."""

    uid: Uid
    name: str
    """``namespace/name``."""
    signal: str
    """As in metrics: a signal, or the exceeded limit of local storage."""
    message: str
    asked_at: Instant
    grace_s: int
    outcome: str = ""
    """The result, in words; empty while it terminates."""


class Killing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A pod is being evicted."""

    victim: Victim
    until: Instant
    stopped: bool = False
    """Its containers have stopped; its volumes may still exist."""


class Clearing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Containers and logs of ended pods are being removed; unused images on the same disk follow."""

    signal: Signal
    run: str
    until: Instant
    done: bool = False


class Reclaiming(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Unused images are being removed."""

    signal: Signal
    run: str
    until: Instant


class Evictions(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods were evicted."""

    asked: Mapping[Uid, Instant] = {}
    """Active pods, and when."""
    victims: tuple[Victim, ...] = ()
    """The last ones, oldest first."""
    counts: Mapping[str, int] = {}
    """By signal."""


class EvictionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of EvictionManager."""

    policy: EvictionPolicy = EvictionPolicy()
    node_name: str = ""
    epoch: str = ""
    """Identifies this incarnation, which ignores runs of an earlier one."""

    asked: LastAsked = LastAsked()
    reading: EvictionReading | None = None
    pods: KnownPods | None = None
    kernel: KernelHints | None = None
    """None where the kernel has no stream, or no memory threshold is configured."""
    pressure: FeltPressure = FeltPressure()

    settling: SettlingWait = SettlingWait()
    doing: Killing | Clearing | Reclaiming | None = None
    action_at: Instant = float("-inf")
    """When the last action ended: older readings are not used."""
    decided: Mapping[Signal, Instant] = {}
    """By signal: the reading of the last decision."""
    reclaimed: Reclaimed | None = None
    reclaims: int = 0

    evicted: Evictions = Evictions()
    note: str = ""
    """Why no action follows a shortage, else empty."""
    node_events: tuple[NodeEvent, ...] = ()

    @property
    def usage(self) -> Usage | None:
        """Return the usage that was read last."""
        return self.reading.usage if self.reading is not None else None

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Return the observations of the last reading."""
        return self.reading.observations if self.reading is not None else ()

    @property
    def absurd(self) -> tuple[str, ...]:
        """Return the impossible values of the last reading."""
        return self.reading.absurd if self.reading is not None else ()

    @property
    def active(self) -> tuple[ActivePod, ...]:
        """Return the active pods, none before the first list."""
        return self.pods.active if self.pods is not None else ()
