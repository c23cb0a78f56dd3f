"""NodeStatusManager: the only writer of this node's Node."""

from collections.abc import Mapping

from actors.nodestatus.core import begin, decide
from actors.nodestatus.report import report
from actors.nodestatus.state import NodeStatusState
from actors.rules.nodeevent import with_node_events_sent
from api.ids import Path
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.node import NodeHealthSeen
from api.messages.nodestatus import NodeStatusMessage
from api.ports.port import BlockingPort, Port, Stream
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class NodeStatusManager(CoreActor[NodeStatusMessage | NodeHealthSeen]):
    """Registers the node and reports its status; ports: ``kube``, ``images``; streams: ``kube.node``."""

    def __init__(
        self,
        state: NodeStatusState,
        ports: Mapping[str, Port | BlockingPort],
        streams: Mapping[str, Stream],
        followers: tuple[Path, ...] = (),
    ) -> None:
        self.followers = followers
        self.ports = ports
        self.streams = streams
        self.state: NodeStatusState = state

    def begin(self, ctx: Context) -> Decision[NodeStatusState]:
        """Begin with questions to those who know the node."""
        return self._published(begin(self.state, ctx.now(), ctx.wall(), ctx.new_op), ctx)

    def decide(
        self, message: NodeStatusMessage | NodeHealthSeen | KernelMessage, ctx: Context
    ) -> Decision[NodeStatusState]:
        """Decide on one message."""
        return self._published(decide(self.state, message, ctx.now(), ctx.wall(), ctx.new_op), ctx)

    def _published(self, decision: Decision[NodeStatusState], ctx: Context) -> Decision[NodeStatusState]:
        """Log what the decision changes, and return it with messages about its new events."""
        for line in report(self.state, decision.state):
            log = ctx.log.warning if line.warning else ctx.log.info
            log(line.text, **line.facts)
        return with_node_events_sent(decision, self.state, decision.state, self.followers)
