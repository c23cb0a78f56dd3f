"""PodConfig: the actor around the merge."""

from actors.sources.merge.core import ConfigState, begin, decide, rows
from api.ids import Path
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.podconfig import NotificationMode, PodConfigMessage
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class PodConfig(CoreActor[PodConfigMessage]):
    """Merges the lists of all sources and sends changes to `subscribers`, each in its mode."""

    state: ConfigState

    def __init__(self, *, subscribers: tuple[tuple[Path, NotificationMode], ...]) -> None:
        self._subscribers = subscribers

    def begin(self, ctx: Context) -> Decision[ConfigState]:
        """Send the subscribers an empty snapshot: no source has been read yet."""
        for path, _ in self._subscribers:
            ctx.watch(path)
        return begin(self._subscribers, ctx.incarnation)

    def decide(self, message: PodConfigMessage | KernelMessage, ctx: Context) -> Decision[ConfigState]:
        """Decide on one message and log pod names that occur twice."""
        decision = decide(self.state, message, ctx.wall())
        known_paths = {subscriber.path for subscriber in self.state.subscribers}
        for subscriber in decision.state.subscribers:
            if subscriber.path not in known_paths:
                ctx.watch(subscriber.path)
        if decision.state.sources is not self.state.sources:
            known = set(rows(self.state))
            for row in rows(decision.state):
                if row not in known:
                    ctx.log.warning("pod wanted twice", source=row.source, pod=row.pod, problems=row.problems)
        return decision
