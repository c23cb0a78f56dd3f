"""The file source: reads a folder or file of manifests and sends the list of pods to the merge."""

from actors.sources.file.core import CHANGES, LEDGER, MANIFESTS, PERIOD_S, begin, decide
from actors.sources.file.state import FileState, changed_rows
from actors.sources.row import log_rows
from api.ids import Path
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port, Stream
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class FileSource(CoreActor[KernelMessage]):
    """Reads `path` every `period_s` and whenever `changes` announces a file; sends `PodsSeen` to the merge at `config`."""

    state: FileState

    def __init__(
        self,
        *,
        path: str,
        node_name: str,
        config: Path,
        manifests: Port | BlockingPort,
        changes: Stream,
        ledger: Port | BlockingPort | None = None,
        period_s: float = PERIOD_S,
    ) -> None:
        self._path, self._node_name, self._config, self._period_s = path, node_name, config, period_s
        self.ports = {MANIFESTS: manifests} if ledger is None else {MANIFESTS: manifests, LEDGER: ledger}
        self.streams = {CHANGES: changes}

    def begin(self, ctx: Context) -> Decision[FileState]:
        """Listen, recall, read."""
        ctx.watch(self._config)
        return begin(
            self._path,
            self._node_name,
            self._config,
            ctx.now(),
            ctx.new_op,
            period_s=self._period_s,
            remembers=LEDGER in self.ports,
        )

    def decide(self, message: KernelMessage, ctx: Context) -> Decision[FileState]:
        """Decide on one message and log the state of each changed file."""
        decision = decide(self.state, message, ctx.now(), ctx.new_op)
        log_rows(ctx.log, changed_rows(self.state, decision.state))
        return decision
