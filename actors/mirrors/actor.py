"""MirrorManager, which shows static pods on the API server."""

from collections.abc import Mapping

from msgspec.structs import replace

from actors.mirrors.core import decide
from actors.mirrors.report import report
from actors.mirrors.state import MirrorMessage, MirrorsState
from api import paths
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class MirrorManager(CoreActor[MirrorMessage]):
    """Creates and deletes mirror pods; port: ``kube``. Its state names the node and the sources of static pods."""

    def __init__(self, state: MirrorsState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.state: MirrorsState = state
        self.ports = ports

    def begin(self, ctx: Context) -> Decision[MirrorsState]:
        """Ask for what others know; wait for the calls of the incarnation before."""
        ctx.watch(paths.PODS)
        ctx.watch(paths.NODESTATUS)
        first = replace(self.state, inherited=ctx.in_flight())
        return decide(first, None, ctx.now(), ctx.new_op)

    def decide(self, message: MirrorMessage | KernelMessage, ctx: Context) -> Decision[MirrorsState]:
        """Decide on one message and log what was done."""
        decision = decide(self.state, message, ctx.now(), ctx.new_op)
        for line in report(self.state, decision.state, message):
            (ctx.log.warning if line.warning else ctx.log.info)(line.text, **line.facts)
        return decision
