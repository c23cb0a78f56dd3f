"""ImageGCManager: removes unused images through the image puller."""

from collections.abc import Mapping

from actors.imagegc.core import WatchImages, decide
from actors.imagegc.report import report
from actors.imagegc.state import ImageGCState
from actors.rules.nodeevent import with_node_events_sent
from api import paths
from api.ids import Path
from api.lifecycle import Action, Decision
from api.messages.imagegc import ImageGCMessage
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class ImageGCManager(CoreActor[ImageGCMessage]):
    """Collects unused images; ports: ``runtime``."""

    def __init__(
        self, state: ImageGCState, ports: Mapping[str, Port | BlockingPort], followers: tuple[Path, ...] = ()
    ) -> None:
        self.followers = followers
        self.ports = ports
        self.state: ImageGCState = state

    def begin(self, ctx: Context) -> Decision[ImageGCState]:
        """Begin with a round."""
        return decide(self.state, None, ctx.now(), ctx.wall(), ctx.new_op)

    def decide(self, message: ImageGCMessage | KernelMessage, ctx: Context) -> Decision[ImageGCState]:
        """Decide on one message, and log the result of a round."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.wall(), ctx.new_op)
        for line in report(before, decision.state):
            log = ctx.log.warning if line.warning else ctx.log.info
            log(line.text, **line.facts)
        return with_node_events_sent(decision, before, decision.state, self.followers)

    def perform(self, action: Action, ctx: Context) -> None:
        """Watch the image puller."""
        match action:
            case WatchImages():
                ctx.watch(paths.IMAGES)
            case _:
                raise AssertionError(action)
