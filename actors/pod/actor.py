"""PodActor, the owner of one UID: the only one who changes this pod in the runtime."""

from collections.abc import Mapping

from actors.pod.core import begin, decide
from actors.pod.explain import full_name
from actors.pod.image import IMAGES
from actors.pod.report import PLEG, STATUS_MANAGER, SUPERVISOR
from actors.pod.state import PodState
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.pod import PodMessage
from api.ports import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor


class PodActor(CoreActor[PodMessage]):
    """The life of one pod; ports: ``runtime``, ``ledger``, ``podfiles``, ``node``."""

    def __init__(self, state: PodState, ports: Mapping[str, Port | BlockingPort]) -> None:
        self.ports = ports
        self.state: PodState = state

    def begin(self, ctx: Context) -> Decision[PodState]:
        """Begin by asking the ledger and the runtime what they know."""
        ctx.watch(SUPERVISOR)
        ctx.watch(STATUS_MANAGER)
        ctx.watch(PLEG)
        ctx.watch(IMAGES)
        return begin(self.state, ctx.now(), ctx.wall(), ctx.new_op, ctx.in_flight())

    def decide(self, message: PodMessage | KernelMessage, ctx: Context) -> Decision[PodState]:
        """Decide on one message, and tell the operator what became of the pod."""
        before = self.state
        decision = decide(before, message, ctx.now(), ctx.wall(), ctx.new_op)
        if decision.state.events is not before.events:
            self._log_events(before, decision.state, ctx)
        return decision

    def _log_events(self, before: PodState, after: PodState, ctx: Context) -> None:
        known = set(before.events)
        for event in after.events:
            # One that repeats is told again each time the count has doubled.
            if event in known or event.count & (event.count - 1):
                continue
            _, name = full_name(after)
            tell = ctx.log.warning if event.type == "Warning" else ctx.log.info
            tell("pod event", pod=name, reason=event.reason, message=event.message, count=event.count)
