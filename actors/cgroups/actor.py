"""CgroupManager: keeps the cgroups above the pods."""

from collections.abc import Mapping

from actors.cgroups.core import decide
from actors.cgroups.state import CgroupsState
from actors.rules.nodeevent import node_events_to_log, with_node_events_sent
from api import paths
from api.ids import Path
from api.lifecycle import Decision
from api.messages.cgroups import CgroupsMessage
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class CgroupManager(CoreActor[CgroupsMessage]):
    """Owner of the pods' root, of the QoS classes' and of the reserved cgroups' values; ports: ``cgroups``."""

    def __init__(
        self, state: CgroupsState, ports: Mapping[str, Port | BlockingPort], followers: tuple[Path, ...] = ()
    ) -> None:
        self.followers = followers
        self.ports = ports
        self.state: CgroupsState = state

    def begin(self, ctx: Context) -> Decision[CgroupsState]:
        """Subscribe to the node's facts."""
        ctx.watch(paths.NODE)
        return decide(self.state, None, ctx.now(), ctx.wall(), ctx.new_op)

    def decide(self, message: CgroupsMessage | KernelMessage, ctx: Context) -> Decision[CgroupsState]:
        """Decide on one message and log new node events."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.wall(), ctx.new_op)
        if decision.state.node_events is not before.node_events:
            for fact in node_events_to_log(before.node_events, decision.state.node_events):
                log = ctx.log.warning if fact.type == "Warning" else ctx.log.info
                log("node event", reason=fact.reason, message=fact.message, count=fact.count)
        return with_node_events_sent(decision, before, decision.state, self.followers)
