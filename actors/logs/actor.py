"""LogRotator: rotates container logs that are too big and removes dangling log links."""

from collections.abc import Mapping

from actors.logs.core import decide
from actors.logs.state import LogRotatorState, SayTrouble
from api.lifecycle import Action, Decision
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class LogRotator(CoreActor[KernelMessage]):
    """Rotates; ports: ``runtime``, ``logfiles``."""

    def __init__(self, state: LogRotatorState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: LogRotatorState = state

    def begin(self, ctx: Context) -> Decision[LogRotatorState]:
        """Begin with a scan of the log folders."""
        return decide(self.state, None, ctx.now(), ctx.wall(), ctx.new_op)

    def decide(self, message: KernelMessage, ctx: Context) -> Decision[LogRotatorState]:
        """Decide on one message."""
        return decide(self.state, message, ctx.now(), ctx.wall(), ctx.new_op)

    def perform(self, action: Action, ctx: Context) -> None:
        """Log failures."""
        if not isinstance(action, SayTrouble):
            super().perform(action, ctx)
            return
        trouble = action.trouble
        where = f"{trouble.namespace}/{trouble.pod}" if trouble.pod else ""
        ctx.log.warning(
            "container log not rotated", pod=where, container=trouble.container, why=trouble.message
        )
