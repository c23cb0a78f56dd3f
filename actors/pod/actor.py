"""PodActor, the owner of one UID: the only one who changes this pod in the runtime."""

from collections.abc import Mapping

from actors.pod.core import decide, initial
from actors.pod.report import STATUS_MANAGER, SUPERVISOR
from actors.pod.state import PodState
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.pod import PodMessage
from api.ports import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class PodActor(CoreActor[PodMessage]):
    """The life of one pod; ports: ``runtime``, ``ledger``, ``podfiles``."""

    def __init__(self, state: PodState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: PodState = state

    def begin(self, ctx: Context) -> Decision[PodState]:
        """Begin by asking the ledger and the runtime what they know."""
        ctx.watch(SUPERVISOR)
        ctx.watch(STATUS_MANAGER)
        state = initial(self.state, ctx.now(), ctx.in_flight())
        return decide(state, None, ctx.now(), ctx.wall(), ctx.new_op)

    def decide(self, message: PodMessage | KernelMessage, ctx: Context) -> Decision[PodState]:
        """Decide on one message."""
        return decide(self.state, message, ctx.now(), ctx.wall(), ctx.new_op)
