"""ApiEventWriter, the one writer of events to the API server."""

from collections.abc import Mapping

from actors.apievents.core import decide
from actors.apievents.report import report
from actors.apievents.state import ApiEventState
from api.lifecycle import Decision
from api.messages.apievents import ApiEventsMessage
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class ApiEventWriter(CoreActor[ApiEventsMessage]):
    """Writes events of pods and of the node to the API server; port: ``kube``."""

    MAILBOX = 4096

    def __init__(self, state: ApiEventState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: ApiEventState = state

    def begin(self, ctx: Context) -> Decision[ApiEventState]:
        """Wait for the requests of the incarnation before."""
        return Decision(state=ApiEventState(settings=self.state.settings, inherited=ctx.in_flight()))

    def decide(self, message: ApiEventsMessage | KernelMessage, ctx: Context) -> Decision[ApiEventState]:
        """Decide on one message and log when writes begin to fail, and when they work again."""
        decision = decide(self.state, message, ctx.now(), ctx.new_op)
        for line in report(self.state, decision.state):
            (ctx.log.warning if line.warning else ctx.log.info)(line.text, **line.facts)
        return decision
