"""ApiStatusWriter, the one writer of pods to the API server."""

from collections.abc import Mapping

from actors.apistatus.core import decide
from actors.apistatus.report import report
from actors.apistatus.state import ApiStatusState
from api.lifecycle import Decision
from api.messages.apistatus import ApiStatusMessage
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class ApiStatusWriter(CoreActor[ApiStatusMessage]):
    """Writes the status of each pod to the API server; port: ``kube``."""

    MAILBOX = 2048

    def __init__(self, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: ApiStatusState = ApiStatusState()

    def begin(self, ctx: Context) -> Decision[ApiStatusState]:
        """Wait for the calls of the incarnation before."""
        return Decision(state=ApiStatusState(inherited=ctx.in_flight()))

    def decide(self, message: ApiStatusMessage | KernelMessage, ctx: Context) -> Decision[ApiStatusState]:
        """Decide on one message and log writes that fail."""
        decision = decide(self.state, message, ctx.now(), ctx.new_op)
        for line in report(self.state, decision.state, message):
            (ctx.log.warning if line.warning else ctx.log.info)(line.text, **line.facts)
        return decision
