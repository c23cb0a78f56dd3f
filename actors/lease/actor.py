"""LeaseManager: renews the lease of this node."""

from collections.abc import Mapping

from actors.lease.core import begin, decide
from actors.lease.report import report
from actors.lease.state import LeaseState
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.nodestatus import NodeObjectSeen
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class LeaseManager(CoreActor[NodeObjectSeen]):
    """Renews the lease of this node; ports: ``kube``."""

    def __init__(self, state: LeaseState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: LeaseState = state

    def begin(self, ctx: Context) -> Decision[LeaseState]:
        """Begin by asking for the Node."""
        return begin(self.state, ctx.now(), ctx.wall(), ctx.new_op)

    def decide(self, message: NodeObjectSeen | KernelMessage, ctx: Context) -> Decision[LeaseState]:
        """Decide on one message, and log what changed."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.wall(), ctx.new_op)
        for line in report(before, decision.state):
            log = ctx.log.warning if line.warning else ctx.log.info
            log(line.text, **line.facts)
        return decision
