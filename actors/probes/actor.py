"""Prober: asks every probed container of the node, in its time."""

from collections.abc import Mapping

from actors.probes.core import decide, start
from actors.probes.state import ProberState
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.probes import ProbesMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class Prober(CoreActor[ProbesMessage]):
    """Makes the checks of all probes; ports: ``runtime``, ``net``."""

    def __init__(self, state: ProberState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: ProberState = state

    def begin(self, ctx: Context) -> Decision[ProberState]:
        """Begin without any probes."""
        return start(self.state, ctx.now(), ctx.seed(), ctx.in_flight())

    def decide(self, message: ProbesMessage | KernelMessage, ctx: Context) -> Decision[ProberState]:
        """Decide on one message."""
        return decide(self.state, message, ctx.now(), ctx.wall(), ctx.new_op)
