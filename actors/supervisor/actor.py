"""PodSupervisor, the parent of all pod actors."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from actors.supervisor.core import decide
from actors.supervisor.state import SpawnPod, StopPod, SupervisorState
from api import paths
from api.errors import AlreadyExistsError
from api.ids import Instant, Uid
from api.lifecycle import Action, Decision
from api.messages.kernel import KernelMessage
from api.messages.supervisor import SupervisorMessage
from api.paths import pod_path
from api.ports.node import NodeFacts
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context, Spec
from runtime.kernel.shell import CoreActor


class PodSupervisor(CoreActor[SupervisorMessage]):
    """Keeps the desired set and one actor per UID; ports: ``ledger``, ``podfiles``."""

    def __init__(
        self,
        state: SupervisorState,
        ports: Mapping[str, Port | BlockingPort],
        pod_spec: Callable[[Uid, Instant | None, NodeFacts], Spec[Any]],
    ) -> None:
        self.ports = ports
        self.state: SupervisorState = state
        self._pod_spec = pod_spec

    def begin(self, ctx: Context) -> Decision[SupervisorState]:
        """Begin by asking for the desired set."""
        ctx.watch(paths.NODE)
        ctx.watch(paths.ADMISSION)
        first = replace(self.state, epoch=ctx.incarnation)
        return decide(first, None, ctx.now(), ctx.new_op)

    def decide(self, message: SupervisorMessage | KernelMessage, ctx: Context) -> Decision[SupervisorState]:
        """Decide on one message."""
        return decide(self.state, message, ctx.now(), ctx.new_op)

    def perform(self, action: Action, ctx: Context) -> None:
        """Start and stop pod actors."""
        match action:
            case SpawnPod(uid=uid, blank_as_of=blank_as_of):
                try:
                    ctx.spawn(self._pod_spec(uid, blank_as_of, self.state.node.facts))
                except AlreadyExistsError:
                    # It survived an earlier incarnation of this supervisor and goes on under the new one.
                    ctx.log.info("pod actor kept", uid=uid)
            case StopPod(uid=uid):
                ctx.stop(pod_path(uid))
            case _:
                raise AssertionError(action)
