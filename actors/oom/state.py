"""State of OomWatcher: the last OOM kills, the OOM count of each container, the subscription to the kernel's log.

```text
kernel.ooms ──▶ kill ──▶ system OOM: an event of the node
                  └────▶ whose container? ListPods ──▶ counted for it
no such stream ──▶ UsageRead: the counters of the containers' cgroups, since the first reading
```
"""

from collections.abc import Mapping

import msgspec

from actors.rules.nodeevent import NodeEvent
from actors.rules.subscription import Subscription
from api.ids import Instant, OpId, Uid, WallNs
from api.ports.ooms import OomKill

RUNTIME = "runtime"
OOMS = "kernel.ooms"
"""The stream of kills."""


class AttributedKill(msgspec.Struct, frozen=True, kw_only=True):
    """A kill and its container, if known."""

    at: WallNs
    kill: OomKill
    container: str = ""
    """``namespace/pod/container``; empty for a process outside of containers."""
    since: Instant = 0.0


class OomCount(msgspec.Struct, frozen=True, kw_only=True):
    """The OOM kills of a container, over all of its restarts."""

    uid: Uid
    namespace: str
    pod: str
    container: str
    kills: int


class OomState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of OomWatcher."""

    node_name: str = ""
    take_over: bool = False
    """Whether other agents' pods are ours too."""
    deadline_s: float = 30.0

    subscription: Subscription = Subscription()
    """To the kernel's log."""
    heard_at: Instant = float("-inf")
    """Without the kernel's log: when usage was last received or requested."""
    is_watching: bool = False
    """Subscribed to usage."""
    counters: Mapping[str, int] | None = None
    """By container id: its cgroup's counter at the last reading; None before the first."""

    open: tuple[AttributedKill, ...] = ()
    """Kills whose container is not known yet, oldest first."""
    listing: OpId | None = None
    retry_at: Instant = float("-inf")
    """When to list the pods again."""

    kills: tuple[AttributedKill, ...] = ()
    """The last kills, oldest first."""
    oom_counts: tuple[OomCount, ...] = ()
    """The container with the latest kill is last."""
    system: int = 0
    """System OOM kills."""
    node_events: tuple[NodeEvent, ...] = ()
