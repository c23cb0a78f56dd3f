"""NodeStatusManager's lines for the log: once per change."""

from collections.abc import Mapping

import msgspec

from actors.nodestatus.state import NodeStatusState
from actors.rules.nodeevent import node_events_to_log
from actors.rules.subscription import newly_failed


class NodeStatusLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(before: NodeStatusState, after: NodeStatusState) -> tuple[NodeStatusLogLine, ...]:
    """Return what changed between two states."""
    lines = []
    if after.registration.is_done and not before.registration.is_done and after.settings.register:
        uid = after.node.metadata.uid if after.node is not None else ""
        lines.append(
            NodeStatusLogLine(text="node is registered", facts={"node": after.node_name, "uid": uid})
        )
    if before.registration.is_done and not after.registration.is_done:
        lines.append(
            NodeStatusLogLine(text="node is registered again", facts={"node": after.node_name}, warning=True)
        )
    if after.failure is not None and after.failure != before.failure and before.exchange is not None:
        facts = {"cannot": before.exchange.step.value, "why": after.failure.message}
        lines.append(NodeStatusLogLine(text="request about the node failed", facts=facts, warning=True))
    elif after.failure is None and before.failure is not None:
        lines.append(NodeStatusLogLine(text="requests about the node work again"))
    lines += [
        NodeStatusLogLine(text="part of the node's status is unknown", facts={"why": why}, warning=True)
        for why in after.troubles
        if why not in before.troubles
    ]
    if newly_failed(before.subscription, after.subscription):
        facts = {"why": after.subscription.why}
        lines.append(NodeStatusLogLine(text="node cannot be watched", facts=facts, warning=True))
    lines += [
        NodeStatusLogLine(
            text="node event",
            facts={"reason": one.reason, "message": one.message},
            warning=one.type == "Warning",
        )
        for one in node_events_to_log(before.node_events, after.node_events)
    ]
    return tuple(lines)
