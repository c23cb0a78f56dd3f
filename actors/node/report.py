"""What NodeManager says of machine and runtime: in the log once per change, and when somebody asks whether they are ready."""

from collections.abc import Mapping

import msgspec

from actors.node.state import NodeState
from api.ports.node import NodeFacts


class NodeLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(before: NodeState, after: NodeState) -> tuple[NodeLogLine, ...]:
    """Return what changed between two states."""
    lines = [
        line
        for line, known in (
            (runtime_line(after), runtime_line(before)),
            (machine_line(after), machine_line(before)),
            (range_line(after), range_line(before)),
        )
        if line is not None and line != known
    ]
    if before.facts is not None and after.facts is not None and after.facts is not before.facts:
        lines.append(NodeLogLine(text="node changed", facts=changes(before.facts, after.facts)))
    return tuple(lines)


def runtime_line(state: NodeState) -> NodeLogLine | None:
    """Return how the container runtime is, None before it was asked."""
    failure, info = state.asking.failure, state.runtime
    if failure is not None:
        return NodeLogLine(
            text="container runtime does not answer", facts={"why": failure.message}, warning=True
        )
    if info is None:
        return None
    facts: dict[str, object] = {"runtime": info.name, "version": info.version}
    if info.detail:
        facts["detail"] = info.detail
    if not info.ready:
        return NodeLogLine(text="container runtime not ready", facts=facts, warning=True)
    if not info.network_ready:
        return NodeLogLine(text="container runtime ready, its network is not", facts=facts, warning=True)
    return NodeLogLine(text="container runtime ready", facts=facts)


def machine_line(state: NodeState) -> NodeLogLine | None:
    """Return why the machine cannot be described again, None where it can."""
    failure = state.describing.failure
    if failure is None:
        return None
    return NodeLogLine(text="node cannot be described", facts={"why": failure.message}, warning=True)


def range_line(state: NodeState) -> NodeLogLine | None:
    """Return how far the runtime knows the addresses of the node's pods, None where there is nothing to say."""
    known = state.pod_range
    if known.failure is not None:
        facts = {"pod_cidr": known.asked, "why": known.failure.message}
        return NodeLogLine(text="runtime does not take the range of pod addresses", facts=facts, warning=True)
    return (
        NodeLogLine(text="runtime knows the range of pod addresses", facts={"pod_cidr": known.given})
        if known.given
        else None
    )


def changes(before: NodeFacts, after: NodeFacts) -> Mapping[str, object]:
    """Return the facts that differ, as they are now."""
    changed = {
        name: getattr(after, name)
        for name in NodeFacts.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    }
    if "taints" in changed:
        changed["taints"] = [f"{one.key}={one.value}:{one.effect}" for one in after.taints]
    return changed


def runtime_health(state: NodeState) -> tuple[bool, str]:
    """Return whether the runtime can run pods as far as it says, and why not."""
    failure, info = state.asking.failure, state.runtime
    if failure is not None:
        return False, failure.message
    if info is None:
        return False, "the runtime has not answered yet"
    return info.ready, info.detail
