"""ImagePuller: looks for, fetches and removes images, for all pods."""

from collections.abc import Mapping

from actors.images.core import decide, start
from actors.images.state import ImagesState
from api.lifecycle import Decision
from api.messages.images import ImagesMessage
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class ImagePuller(CoreActor[ImagesMessage]):
    """Fetches images; ports: ``runtime``, ``credentials``."""

    MAILBOX = 1024

    def __init__(self, state: ImagesState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: ImagesState = state

    def begin(self, ctx: Context) -> Decision[ImagesState]:
        """Begin with nothing wanted."""
        return start(self.state, ctx.now(), restarted=ctx.incarnation > 0, leftover=ctx.in_flight())

    def decide(self, message: ImagesMessage | KernelMessage, ctx: Context) -> Decision[ImagesState]:
        """Decide on one message, and log pulls that ended."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.new_op)
        if decision.state.finished is not before.finished:
            for pull in decision.state.finished:
                if pull in before.finished:
                    continue
                if not pull.failure:
                    ctx.log.info(
                        "image pulled", image=pull.image, took_s=round(pull.took_s, 3), bytes=pull.size_bytes
                    )
                elif all((old.image, old.failure) != (pull.image, pull.failure) for old in before.finished):
                    ctx.log.warning("image pull failed", image=pull.image, why=pull.failure)
        return decision
