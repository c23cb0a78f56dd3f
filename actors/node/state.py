"""What NodeManager knows: the machine, the runtime's last status, and who follows the facts that follow from both.

```text
DescribeNode   ──▶ machine ─┬─▶ health ─▶ NodeHealthSeen to each of its subscribers
RuntimeStatus  ──▶ runtime ─┤
NodeObjectSeen ──▶ object  ─┴─▶ facts ──▶ NodeChanged to each subscriber
```
"""

import msgspec
from msgspec.structs import replace

from actors.rules.retry import Retry
from api.errors import Failure
from api.ids import Instant, OpId, Path
from api.messages.node import NodeHealthSeen
from api.messages.nodestatus import NodeObjectSeen
from api.ports.node import CgroupDriver, NodeFacts
from api.ports.runtime import RuntimeInfo

NODE, RUNTIME = "node", "runtime"
NEVER_ASKED = float("-inf")


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """How one question stands that is asked again and again."""

    op: OpId | None = None
    """The call in flight."""
    due_at: Instant = float("-inf")
    failures: int = 0
    """In a row."""
    failure: Failure | None = None
    """Of the last answer; None where it was a good one, or none came yet."""


class PodRange(msgspec.Struct, frozen=True, kw_only=True):
    """How far the runtime knows which addresses the node's pods have."""

    given: str = ""
    """What it took last."""
    op: OpId | None = None
    """The call in flight."""
    asked: str = ""
    """What that call gives."""
    retry: Retry = Retry()
    failure: Failure | None = None
    """Of the last call, until one succeeds."""


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
    ready_at: Instant = NEVER_ASKED
    """When the runtime was last asked with the answer that it is ready."""
    health: NodeHealthSeen | None = None
    """The very same object for as long as nothing of it changes."""
    health_subscribers: tuple[Path, ...] = ()
    """In the order in which they came."""
    pod_cidr: str = ""
    """The range of pods that the configuration of an agent on its own names; empty for none."""
    pod_range: PodRange = PodRange()
    in_cluster: bool = False
    """Whether there is an API server, whose Node says which labels and taints this node has."""
    object: NodeObjectSeen | None = None
    """The Node as the API server has it; what it said last stands while there is none. None: it has said nothing yet."""
    object_asked_at: Instant = NEVER_ASKED


def pod_cidr_of(state: NodeState) -> str:
    """Return the addresses of the node's pods, with a comma between two families; empty while it has none."""
    if not state.in_cluster:
        return state.pod_cidr
    return ",".join(state.object.pod_cidrs) if state.object is not None else ""


def facts_of(machine: NodeFacts, runtime: RuntimeInfo) -> NodeFacts:
    """Return the facts of a machine with this runtime, whose word on cgroups wins over the settings."""
    return replace(
        machine,
        handlers=runtime.handlers,
        strict_groups=runtime.supplemental_groups_policy,
        stop_signals=runtime.stop_signals,
        cgroup_driver=CgroupDriver(runtime.cgroup_driver or machine.cgroup_driver),
    )


def with_object(facts: NodeFacts, seen: NodeObjectSeen | None) -> NodeFacts:
    """Return the facts with the labels and taints of the API server's Node, which others may have changed."""
    return facts if seen is None else replace(facts, labels=seen.labels, taints=seen.taints)


def health_of(state: NodeState) -> NodeHealthSeen:
    """Return how machine and runtime are."""
    runtime, is_answering = state.runtime, state.runtime is not None and state.asking.failure is None
    is_ready = is_answering and runtime is not None and runtime.ready
    return NodeHealthSeen(
        machine=state.machine if runtime is None else facts_of(state.machine, runtime),
        runtime=runtime,
        is_answering=is_answering,
        ready_until=None if is_ready else state.ready_at,
    )
