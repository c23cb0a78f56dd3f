"""StatusManager, the one writer of pod statuses."""

from collections.abc import Mapping

from actors.status.core import Sinks, decide, unwritten
from actors.status.state import StatusState
from api.ids import Path
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.status import StatusMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class StatusManager(CoreActor[StatusMessage]):
    """Versions statuses, writes them to its sinks and sends them to `followers`; ports: those of the sinks."""

    MAILBOX = 2048

    def __init__(
        self,
        sinks: Sinks,
        ports: Mapping[str, Port | BlockingPort],
        followers: tuple[Path, ...] = (),
    ) -> None:
        self.sinks = sinks
        self.ports = ports
        self.followers = followers
        self.state: StatusState = StatusState()

    def begin(self, ctx: Context) -> None:
        """Watch the followers: one that restarts gets everything again."""
        for path in self.followers:
            ctx.watch(path)

    def decide(self, message: StatusMessage | KernelMessage, ctx: Context) -> Decision[StatusState]:
        """Decide on one message."""
        return decide(self.sinks, self.state, message, ctx.now(), ctx.new_op, self.followers)

    def on_stop(self, ctx: Context) -> None:
        """Write what was gathered."""
        for port, calls in unwritten(self.sinks, self.state):
            self.perform_at_last(port, calls, ctx)
