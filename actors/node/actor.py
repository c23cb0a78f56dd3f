"""NodeManager: asks machine and runtime what they are, and tells whoever follows the node's facts."""

from collections.abc import Mapping

from actors.node.core import decide
from actors.node.report import report
from actors.node.state import NodeState
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.node import NodeMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class NodeManager(CoreActor[NodeMessage]):
    """Owns the node's facts and the runtime's status; ports: ``node``, ``runtime``."""

    def __init__(self, state: NodeState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: NodeState = state

    def begin(self, ctx: Context) -> Decision[NodeState]:
        """Begin by asking."""
        return decide(self.state, None, ctx.now(), ctx.new_op)

    def decide(self, message: NodeMessage | KernelMessage, ctx: Context) -> Decision[NodeState]:
        """Decide on one message, and tell the operator what changed."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.new_op)
        for line in report(before, decision.state):
            tell = ctx.log.warning if line.warning else ctx.log.info
            tell(line.text, **line.facts)
        return decision
