"""OomWatcher: receives OOM kills from the kernel's log and counts them."""

from collections.abc import Mapping

from actors.oom.core import decide
from actors.oom.report import report
from actors.oom.state import OomState
from actors.rules.nodeevent import with_node_events_sent
from api.ids import Path
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.usage import UsageRead
from api.ports.port import BlockingPort, Port, Stream
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class OomWatcher(CoreActor[UsageRead]):
    """Counts OOM kills and records system OOMs as events; ports: ``runtime``; streams: ``kernel.ooms``."""

    def __init__(
        self,
        state: OomState,
        ports: Mapping[str, Port | BlockingPort],
        streams: Mapping[str, Stream],
        followers: tuple[Path, ...] = (),
    ) -> None:
        self.followers = followers
        self.ports = ports
        self.streams = streams
        self.state: OomState = state

    def begin(self, ctx: Context) -> Decision[OomState]:
        """Subscribe to the kernel's log."""
        return decide(self.state, None, ctx.now(), ctx.wall(), ctx.new_op)

    def decide(self, message: UsageRead | KernelMessage, ctx: Context) -> Decision[OomState]:
        """Decide on one message and log what changed."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.wall(), ctx.new_op)
        for line in report(before, decision.state):
            ctx.log.warning(line.text, **line.facts)
        return with_node_events_sent(decision, before, decision.state, self.followers)
