"""AdmissionManager: decides which pods may run on this node."""

from collections.abc import Mapping

from msgspec.structs import replace

from actors.admission.core import decide
from actors.admission.state import AdmissionState
from actors.admission.work import GENERATIONS
from api import paths
from api.lifecycle import Decision
from api.messages.admission import AdmissionMessage
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class AdmissionManager(CoreActor[AdmissionMessage]):
    """Keeps the verdicts on pods and their claims on the node; ports: ``ledger``, in a cluster ``kube``."""

    def __init__(self, state: AdmissionState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: AdmissionState = state

    def begin(self, ctx: Context) -> Decision[AdmissionState]:
        """Begin by reading the stored verdicts."""
        ctx.watch(paths.NODE)
        first = replace(
            self.state,
            epoch=ctx.incarnation,
            next_generation=ctx.incarnation * GENERATIONS,
            record=replace(self.state.record, inherited=ctx.in_flight()),
        )
        return decide(first, None, ctx.now(), ctx.new_op)

    def decide(self, message: AdmissionMessage | KernelMessage, ctx: Context) -> Decision[AdmissionState]:
        """Decide on one message."""
        return decide(self.state, message, ctx.now(), ctx.new_op)
