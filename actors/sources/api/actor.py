"""The API source: reads the pods that are bound to this node and sends them to the merge and to those that report on them."""

from actors.sources.api.checkpoint import LEDGER, last_writes
from actors.sources.api.core import begin, decide
from actors.sources.api.state import ApiSourceState
from api import paths
from api.ids import Path
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.ports.kube import PODS
from api.ports.port import BlockingPort, Port, Stream
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class ApiSource(CoreActor[KernelMessage]):
    """Listens to `pods`, keeps a checkpoint in `ledger`, sends `PodsSeen` to the merge at `config`, `ApiPodsSeen` to `followers`."""

    state: ApiSourceState

    def __init__(
        self,
        *,
        server: str,
        config: Path,
        pods: Stream,
        ledger: Port | BlockingPort,
        followers: tuple[Path, ...] = (paths.APISTATUS, paths.MIRRORS),
    ) -> None:
        self._server, self._config, self._followers = server, config, followers
        self.ports = {LEDGER: ledger}
        self.streams = {PODS: pods}

    def begin(self, ctx: Context) -> Decision[ApiSourceState]:
        """Listen and recall."""
        for path in (self._config, *self._followers):
            ctx.watch(path)
        return begin(self._server, self._config, self._followers, ctx.now(), ctx.new_op, ctx.in_flight())

    def decide(self, message: KernelMessage, ctx: Context) -> Decision[ApiSourceState]:
        """Decide on one message and log whether the API server answers."""
        decision = decide(self.state, message, ctx.now(), ctx.new_op)
        before, after = self.state, decision.state
        if after.failure is not None and after.failure != before.failure:
            ctx.log.warning(
                "cannot read pods of the API server", server=after.server, why=after.failure.message
            )
        elif after.level is not None and (before.level is None or (before.failure and not after.failure)):
            facts = {"pods": len(after.level.pods), "mirrors": len(after.level.mirrors)}
            ctx.log.info("pods of the API server read", server=after.server, **facts)
        known = before.level.ignored if before.level is not None else ()
        for one in after.level.ignored if after.level is not None else ():
            if one not in known:
                ctx.log.warning("pod of the API server ignored", pod=one.where, why=one.message)
        problem = after.checkpoint.problem
        if problem and problem != before.checkpoint.problem:
            ctx.log.warning("checkpoint of pods", why=problem)
        return decision

    def on_stop(self, ctx: Context) -> None:
        """Write what was gathered."""
        self.perform_at_last(LEDGER, last_writes(self.state), ctx)
