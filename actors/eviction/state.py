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
from api.ids import Instant, Uid
from api.messages.eviction import ActivePod
from api.usage import Usage

CROSSINGS = "memory.crossings"
"""The stream of memory notifications."""


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold that is met, and since when without a break."""

    threshold: Threshold
    since: Instant


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


class EvictionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of EvictionManager."""

    policy: EvictionPolicy = EvictionPolicy()
    node_name: str = ""
    epoch: str = ""
    """Identifies this incarnation, which ignores runs of an earlier one."""

    usage: Usage | None = None
    heard_at: Instant = float("-inf")
    """When usage was last received or requested."""
    pods: tuple[ActivePod, ...] | None = None
    """None before the first list of the supervisor."""
    leaving: tuple[Uid, ...] = ()
    """Pods that no source lists any more and that may not be fully removed."""
    whole: bool = False
    """The list is complete, and each pod has reported its phase."""
    pods_asked_at: Instant = float("-inf")

    observations: tuple[Observation, ...] = ()
    """Of the last reading."""
    absurd: tuple[str, ...] = ()
    """Impossible values of the last reading, which were refused."""
    met: tuple[Met, ...] = ()
    ripe: tuple[Threshold, ...] = ()
    """Met for their grace period; they end only with the minimum reclaim."""
    last_seen: Mapping[Pressure, Instant] = {}
    """When each pressure was last observed."""
    conditions: tuple[Pressure, ...] = ()
    """Published: observed within the transition period."""
    published: tuple[Pressure, ...] | None = None
    """The conditions last sent to the supervisor; None: none yet, or it restarted."""

    doing: Killing | Clearing | Reclaiming | None = None
    action_at: Instant = float("-inf")
    """When the last action ended: older readings are not used."""
    decided: Mapping[Signal, Instant] = {}
    """By signal: the reading of the last decision."""
    reclaimed: Signal | None = None
    """The signal for which everything but running pods was removed since the last eviction."""
    reclaimed_at: Instant = float("-inf")
    reclaims: int = 0
    settling_until: Instant = float("-inf")
    """Deadline of the wait for a pod that an earlier incarnation evicted."""
    settled: bool = False
    """All pods are known and none terminates, or the wait timed out."""

    asked: Mapping[Uid, Instant] = {}
    """Evicted pods, and when."""
    victims: tuple[Victim, ...] = ()
    """The last evictions, oldest first."""
    evictions: Mapping[str, int] = {}
    """By signal."""
    note: str = ""
    """Why no action follows a shortage, else empty."""
    happenings: tuple[NodeEvent, ...] = ()

    hears: bool = False
    """The kernel's stream exists, and a memory threshold is configured."""
    subscription: Subscription = Subscription()
    hinted_at: Instant | None = None
    """When the last notification came that no reading has answered yet."""
    hint_asked_at: Instant = float("-inf")
    hints: int = 0
    """Number of new notifications."""
