"""StatusManager, the one writer of pod statuses."""

from collections.abc import Mapping

from actors.status.core import decide, unwritten
from actors.status.state import StatusState
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.status import StatusMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class StatusManager(CoreActor[StatusMessage]):
    """Versions and stores statuses; ports: ``ledger``."""

    MAILBOX = 2048

    def __init__(self, state: StatusState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: StatusState = state

    def decide(self, message: StatusMessage | KernelMessage, ctx: Context) -> Decision[StatusState]:
        """Decide on one message."""
        return decide(self.state, message, ctx.now(), ctx.new_op)

    def on_stop(self, ctx: Context) -> None:
        """Write what was gathered."""
        self.perform_at_last("ledger", unwritten(self.state), ctx)
