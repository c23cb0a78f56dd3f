"""Pleg, the observer of the runtime: it acts on no pod."""

from collections.abc import Mapping

from msgspec.structs import replace

from actors.pleg.core import decide
from actors.pleg.state import PlegState
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.pleg import PlegMessage
from api.ports.port import BlockingPort, Port, Stream
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class Pleg(CoreActor[PlegMessage]):
    """Lists and inspects; ports: ``runtime``; streams: ``runtime.events``."""

    MAILBOX = 2048

    def __init__(
        self, state: PlegState, ports: Mapping[str, Port | BlockingPort], streams: Mapping[str, Stream]
    ) -> None:
        self.ports = ports
        self.streams = streams
        self.state: PlegState = state

    def begin(self, ctx: Context) -> Decision[PlegState]:
        """Begin with a first listing."""
        return decide(replace(self.state, started_at=ctx.now()), None, ctx.now(), ctx.new_op)

    def decide(self, message: PlegMessage | KernelMessage, ctx: Context) -> Decision[PlegState]:
        """Decide on one message; log when the runtime cannot be listed any more, and when it can again."""
        decision = decide(self.state, message, ctx.now(), ctx.new_op)
        before, after = self.state.failure, decision.state.failure
        if after and after != before:
            ctx.log.warning("runtime cannot be listed, pods are left unchanged", why=after)
        elif before and not after:
            ctx.log.info("runtime is listed again")
        return decision
