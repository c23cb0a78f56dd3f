"""EvictionManager: evicts pods under node pressure, one at a time."""

from collections.abc import Mapping

from msgspec.structs import replace

from actors.eviction.core import WatchOthers, begin, decide
from actors.eviction.report import report
from actors.eviction.state import EvictionState
from actors.rules.nodeevent import with_node_events_sent
from api import paths
from api.ids import Path
from api.lifecycle import Action, Decision
from api.messages.eviction import EvictionMessage
from api.messages.kernel import KernelMessage
from api.ports.port import Stream
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class EvictionManager(CoreActor[EvictionMessage]):
    """Evicts pods under node pressure. No ports, only messages; streams: ``memory.crossings``."""

    def __init__(
        self, state: EvictionState, streams: Mapping[str, Stream], followers: tuple[Path, ...] = ()
    ) -> None:
        self.followers = followers
        self.streams = streams
        self.state: EvictionState = state

    def begin(self, ctx: Context) -> Decision[EvictionState]:
        """Subscribe to pods and usage."""
        first = replace(self.state, epoch=str(ctx.incarnation))
        return begin(first, ctx.now(), ctx.wall())

    def decide(self, message: EvictionMessage | KernelMessage, ctx: Context) -> Decision[EvictionState]:
        """Decide on one message and log what changed."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.wall())
        for line in report(before, decision.state):
            log = ctx.log.warning if line.warning else ctx.log.info
            log(line.text, **line.facts)
        return with_node_events_sent(decision, before, decision.state, self.followers)

    def perform(self, action: Action, ctx: Context) -> None:
        """Watch the actors that receive commands."""
        match action:
            case WatchOthers():
                for path in (paths.PODS, paths.ADMISSION, paths.USAGE, paths.IMAGEGC):
                    ctx.watch(path)
            case _:
                raise AssertionError(action)
