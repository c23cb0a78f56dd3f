"""What OomWatcher knows: the last kills, how many each container had, and whether the kernel's log is heard.

```text
kernel.ooms ──▶ kill ──▶ of the machine: an event of the node
                  └────▶ whose container? ListPods ──▶ counted for it
no such stream ──▶ UsageRead: what the containers' cgroups count, since the first reading
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
    """A kill, and whose it was as far as that is known."""

    at: WallNs
    kill: OomKill
    container: str = ""
    """``namespace/pod/container``; empty for one that is in none."""
    since: Instant = 0.0


class Toll(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes of a container were killed, over all of its restarts."""

    uid: Uid
    namespace: str
    pod: str
    container: str
    kills: int


class OomState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that OomWatcher knows."""

    node_name: str = ""
    take_over: bool = False
    """Whether other agents' pods are ours too."""
    deadline_s: float = 30.0

    subscription: Subscription = Subscription()
    """To the kernel's log."""
    heard_at: Instant = float("-inf")
    """While the kernel's log is not heard: when usage was heard last, or asked for."""
    is_watching: bool = False
    """Usage was asked for."""
    counters: Mapping[str, int] | None = None
    """By container id: what its cgroup counted at the last reading; None before the first."""

    open: tuple[AttributedKill, ...] = ()
    """Kills of which it is not known yet whose they were, oldest first."""
    listing: OpId | None = None
    retry_at: Instant = float("-inf")
    """When to ask for the pods again."""

    kills: tuple[AttributedKill, ...] = ()
    """The last ones, oldest first."""
    tolls: tuple[Toll, ...] = ()
    """The container that was counted last comes last."""
    system: int = 0
    """Kills for want of memory of the machine as a whole."""
    happenings: tuple[NodeEvent, ...] = ()
