"""What NodeManager knows: the machine, the runtime's last status, and who follows the facts that follow from both.

```text
DescribeNode  ──▶ machine ─┐
RuntimeStatus ──▶ runtime ─┴─▶ facts ──▶ NodeChanged to each subscriber
```
"""

import msgspec
from msgspec.structs import replace

from api.errors import Failure
from api.ids import Instant, OpId, Path
from api.ports.node import CgroupDriver, NodeFacts
from api.ports.runtime import RuntimeInfo

NODE, RUNTIME = "node", "runtime"


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """How one question stands that is asked again and again."""

    op: OpId | None = None
    """The call in flight."""
    due_at: Instant = float("-inf")
    failures: int = 0
    """In a row."""
    failure: Failure | None = None
    """Of the last answer; None where it was a good one, or none came yet."""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that NodeManager knows."""

    machine: NodeFacts
    """What machine and settings say, without the runtime's word."""
    runtime: RuntimeInfo | None = None
    """What the runtime said last; it stands while the runtime is silent. None: it never answered."""
    describing: Poll = Poll()
    asking: Poll = Poll()
    """Of the runtime."""
    facts: NodeFacts | None = None
    """The very same object for as long as nothing of it changes; None before the runtime answered."""
    subscribers: tuple[Path, ...] = ()
    """In the order in which they came."""


def facts_of(machine: NodeFacts, runtime: RuntimeInfo) -> NodeFacts:
    """Return the facts of a machine with this runtime, whose word on cgroups wins over the settings."""
    return replace(
        machine,
        handlers=runtime.handlers,
        strict_groups=runtime.supplemental_groups_policy,
        stop_signals=runtime.stop_signals,
        cgroup_driver=CgroupDriver(runtime.cgroup_driver or machine.cgroup_driver),
    )
