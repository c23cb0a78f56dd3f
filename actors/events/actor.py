"""EventRecorder, the keeper of what happened."""

from collections.abc import Mapping

from actors.events.core import begin, decide, unwritten
from actors.events.state import EventsState
from actors.rules.nodeevent import node_events_to_log
from api.ids import Path
from api.lifecycle import Decision
from api.messages.events import EventsMessage
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class EventRecorder(CoreActor[EventsMessage]):
    """Keeps the events of pods and sends them to `followers`; ports: ``ledger``."""

    MAILBOX = 4096

    def __init__(
        self,
        state: EventsState,
        ports: Mapping[str, Port | BlockingPort],
        followers: tuple[Path, ...] = (),
    ) -> None:
        self.followers = followers
        self.ports = ports
        self.state: EventsState = state

    def begin(self, ctx: Context) -> Decision[EventsState]:
        """Begin by recalling the ledger's section."""
        return begin(self.state, ctx.now(), ctx.wall(), ctx.new_op)

    def on_stop(self, ctx: Context) -> None:
        """Write what is not written, as far as the time that is left to it goes: an orderly end loses nothing."""
        self.perform_at_last("ledger", unwritten(self.state, ctx.wall()), ctx)

    def decide(self, message: EventsMessage | KernelMessage, ctx: Context) -> Decision[EventsState]:
        """Decide on one message and report damaged ledger entries."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.wall(), ctx.new_op, self.followers)
        for fact in node_events_to_log(before.node_events, decision.state.node_events):
            ctx.log.warning("node event", reason=fact.reason, message=fact.message, count=fact.count)
        return decision
