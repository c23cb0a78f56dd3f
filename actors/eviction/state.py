"""What EvictionManager knows: the last readings, what they mean for the node, and the one deed under way.

```text
            .-- reading --> limits of local storage, then what the node is short of
            v                  |                     |
          Idle <-- all well ---'                     |--disk--> Clearing ended pods --> Reclaiming images --.
            ^                                        |                                                      v
            |                                        '------ still short <----------- fresh reading <-------+
            '-- fresh reading <-- Killing one pod: it is active no more, or KILL_WAIT_S over <--------------'
```

One deed at a time. After each one nothing is decided on a reading that was begun before it was over.
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
"""The stream of what the kernel says of memory thresholds."""


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold that is met, since when without a break."""

    threshold: Threshold
    since: Instant


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that had to go, and why."""

    uid: Uid
    name: str
    """``namespace/name``."""
    signal: str
    """As counted: a signal, or which limit of local storage it was over."""
    message: str
    asked_at: Instant
    grace_s: int
    outcome: str = ""
    """What became of it, in words; empty while that is waited for."""


class Killing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A pod was asked to go."""

    victim: Victim
    until: Instant
    stopped: bool = False
    """Its containers have; what it had on disk may be there still."""


class Clearing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is kept of pods that have ended was asked to go; unused images follow where they are on the same disk."""

    signal: Signal
    run: str
    until: Instant
    done: bool = False


class Reclaiming(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Unused images were asked to go."""

    signal: Signal
    run: str
    until: Instant


class EvictionState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that EvictionManager knows."""

    policy: EvictionPolicy = EvictionPolicy()
    node_name: str = ""
    epoch: str = ""
    """Names this incarnation: runs of an earlier one are not its own."""

    usage: Usage | None = None
    heard_at: Instant = float("-inf")
    """When usage was heard last, or asked for."""
    pods: tuple[ActivePod, ...] | None = None
    """None before the supervisor said which there are."""
    leaving: tuple[Uid, ...] = ()
    """Pods that no source wants any more, of which something may be left."""
    whole: bool = False
    """These are all pods, and each has said how far it is."""
    pods_asked_at: Instant = float("-inf")

    observations: tuple[Observation, ...] = ()
    """Of the last reading."""
    absurd: tuple[str, ...] = ()
    """What of the last reading cannot be, and is not believed."""
    met: tuple[Met, ...] = ()
    ripe: tuple[Threshold, ...] = ()
    """Met for as long as their grace: over only once the minimum reclaim is there too."""
    last_seen: Mapping[Pressure, Instant] = {}
    """When each pressure was last felt."""
    conditions: tuple[Pressure, ...] = ()
    """Told to others: felt within the transition period."""
    told: tuple[Pressure, ...] | None = None
    """What the supervisor was told last; None: nothing yet, or it began anew."""

    doing: Killing | Clearing | Reclaiming | None = None
    deed_at: Instant = float("-inf")
    """When the last deed was over: older readings decide nothing."""
    decided: Mapping[Signal, Instant] = {}
    """By signal: the reading that was last decided on."""
    reclaimed: Signal | None = None
    """All but pods that run was removed for this signal since its last victim: what is short still is so all the same."""
    reclaimed_at: Instant = float("-inf")
    reclaims: int = 0
    settling_until: Instant = float("-inf")
    """A victim of an earlier life, this manager's or the supervisor's, is waited for until then."""
    settled: bool = False
    """All pods are known and no such victim is ending, or that was waited for long enough."""

    asked: Mapping[Uid, Instant] = {}
    """Pods that were asked to go, and when."""
    victims: tuple[Victim, ...] = ()
    """The last ones, oldest first."""
    evictions: Mapping[str, int] = {}
    """By signal."""
    note: str = ""
    """Why nothing was done about what is short, empty when there is nothing to say."""
    happenings: tuple[NodeEvent, ...] = ()

    hears: bool = False
    """There is a stream of the kernel, and a threshold that it can tell of."""
    subscription: Subscription = Subscription()
    hinted_at: Instant | None = None
    """When the kernel last showed something crossed that no reading has answered yet."""
    hint_asked_at: Instant = float("-inf")
    hints: int = 0
    """So many times the kernel told of something new."""
