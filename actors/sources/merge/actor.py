"""PodConfig: the actor around the merge."""

from actors.sources.merge.core import ConfigState, begin, decide, rows
from api.ids import Path
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.podconfig import PodConfigMessage
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class PodConfig(CoreActor[PodConfigMessage]):
    """Merges the lists of all sources and sends changes to `subscribers`."""

    state: ConfigState

    def __init__(self, *, subscribers: tuple[Path, ...]) -> None:
        self._subscribers = subscribers

    def begin(self, ctx: Context) -> Decision[ConfigState]:
        """Send the subscribers an empty snapshot: no source has been read yet."""
        for path in self._subscribers:
            ctx.watch(path)
        return begin(self._subscribers, ctx.incarnation)

    def decide(self, message: PodConfigMessage | KernelMessage, ctx: Context) -> Decision[ConfigState]:
        """Decide on one message and log pod names that occur twice."""
        decision = decide(self.state, message, ctx.wall())
        if decision.state.sources is not self.state.sources:
            known = set(rows(self.state))
            for row in rows(decision.state):
                if row not in known:
                    ctx.log.warning("pod wanted twice", source=row.source, pod=row.pod, problems=row.problems)
        return decision
