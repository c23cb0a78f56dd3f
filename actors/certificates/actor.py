"""CertificateManager: has the node's client certificate renewed before it expires, and asks for the first one."""

from collections.abc import Mapping

from actors.certificates.core import decide
from actors.certificates.report import report
from actors.certificates.state import CertificatesState
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class CertificateManager(CoreActor[KernelMessage]):
    """Renews the client certificate; ports: ``certificates``, ``kube``, ``bootstrap``."""

    def __init__(self, state: CertificatesState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: CertificatesState = state

    def begin(self, ctx: Context) -> Decision[CertificatesState]:
        """Begin by reading the client certificate."""
        return decide(self.state, None, ctx.now(), ctx.wall(), ctx.new_op)

    def decide(self, message: KernelMessage, ctx: Context) -> Decision[CertificatesState]:
        """Decide on one message, and log what changed."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.wall(), ctx.new_op)
        for line in report(before, decision.state):
            log = ctx.log.warning if line.warning else ctx.log.info
            log(line.text, **line.facts)
        return decision
