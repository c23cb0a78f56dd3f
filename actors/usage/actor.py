"""UsageManager: one round of readings every ten seconds, shared by all subscribers."""

from collections.abc import Mapping

from actors.usage.core import decide
from actors.usage.report import report
from actors.usage.state import UsageState
from api import paths
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.usage import UsageMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class UsageManager(CoreActor[UsageMessage]):
    """Reads usage; ports: ``usage``, ``runtime``."""

    def __init__(self, state: UsageState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: UsageState = state

    def begin(self, ctx: Context) -> Decision[UsageState]:
        """Begin with a round."""
        ctx.watch(paths.NODE)
        return decide(self.state, None, ctx.now(), ctx.wall(), ctx.new_op)

    def decide(self, message: UsageMessage | KernelMessage, ctx: Context) -> Decision[UsageState]:
        """Decide on one message; log parts that fail and parts that recover."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.wall(), ctx.new_op)
        for line in report(before, decision.state):
            log = ctx.log.warning if line.warning else ctx.log.info
            log(line.text, **line.facts)
        return decision
