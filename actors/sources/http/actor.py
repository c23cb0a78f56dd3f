"""The URL source: fetches manifests and sends the list of pods to the merge."""

from actors.sources.http.core import PERIOD_S, URLS, HttpState, begin, changed_rows, decide
from actors.sources.row import log_rows
from api.ids import Path
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class HttpSource(CoreActor[KernelMessage]):
    """Fetches `url` every `period_s` and sends `PodsSeen` to the merge at `config`. The values of `headers` are never shown."""

    state: HttpState

    def __init__(
        self,
        *,
        url: str,
        node_name: str,
        config: Path,
        urls: Port | BlockingPort,
        headers: tuple[tuple[str, str], ...] = (),
        period_s: float = PERIOD_S,
    ) -> None:
        self._url, self._node_name, self._config, self._period_s = url, node_name, config, period_s
        self._headers = headers
        self.ports = {URLS: urls}

    def begin(self, ctx: Context) -> Decision[HttpState]:
        """Fetch."""
        ctx.watch(self._config)
        return begin(
            self._url,
            self._headers,
            self._node_name,
            self._config,
            ctx.now(),
            ctx.new_op,
            period_s=self._period_s,
        )

    def decide(self, message: KernelMessage, ctx: Context) -> Decision[HttpState]:
        """Decide on one message and log what changed."""
        decision = decide(self.state, message, ctx.now(), ctx.new_op)
        log_rows(ctx.log, changed_rows(self.state, decision.state))
        return decision
