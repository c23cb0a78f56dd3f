"""PodActor owns one UID: only it changes this pod in the runtime."""

from collections.abc import Mapping

from actors.pod.container.hookcall import HOOK_CALLS
from actors.pod.core import begin, blank, decide
from actors.pod.life.event import namespace_and_name
from actors.pod.plan import rewriting
from actors.pod.state import PodState
from api import paths
from api.ids import Instant
from api.lifecycle import Decision
from api.messages.kernel import KernelMessage
from api.messages.pod import PodMessage
from api.ports.port import BlockingPort, Port
from runtime.kernel.actor import Context
from runtime.kernel.shell import CoreActor

STEPS = ("Pulled", "Created")
"""Reasons of events that are logged at DEBUG: ``Started``, which follows, says that these steps succeeded."""


class PodActor(CoreActor[PodMessage]):
    """The life of one pod; ports: ``runtime``, ``ledger``, ``podfiles``, ``cgroups``, ``volumes``, ``net``, in a cluster ``kube``."""

    def __init__(
        self,
        state: PodState,
        ports: Mapping[str, Port | BlockingPort],
        blank_as_of: Instant | None = None,
    ) -> None:
        """`blank_as_of`: when neither ledger nor runtime had anything of the pod; None when that is unknown."""
        self.ports = ports
        self.state: PodState = state
        self._blank_as_of = blank_as_of

    def begin(self, ctx: Context) -> Decision[PodState]:
        """Begin by reading ledger and runtime, unless both are known to have nothing of the pod."""
        if self._blank_as_of is not None and not ctx.incarnation:
            self.state = blank(self.state, self._blank_as_of)
        ctx.watch(paths.PODS)
        ctx.watch(paths.STATUS)
        ctx.watch(paths.PLEG)
        ctx.watch(paths.IMAGES)
        ctx.watch(paths.EVENTS)
        ctx.watch(paths.CGROUPS)
        ctx.watch(paths.PROBES)
        left_over = ctx.in_flight()
        hooks = tuple(op for op in left_over if ctx.call_name(op) in HOOK_CALLS)
        return begin(self.state, ctx.now(), ctx.wall(), ctx.new_op, left_over, hooks)

    def on_stop(self, ctx: Context) -> None:
        """Retry a failed write to the ledger: the disk may have space again."""
        stage = rewriting(self.state)
        if stage is not None:
            self.perform_at_last("ledger", [one.call for one in stage.calls], ctx)

    def decide(self, message: PodMessage | KernelMessage, ctx: Context) -> Decision[PodState]:
        """Decide on one message."""
        return decide(self.state, message, ctx.now(), ctx.wall(), ctx.new_op)

    def receive(self, message: PodMessage | KernelMessage, ctx: Context) -> None:
        """Carry out what follows from a message, then log its events."""
        before = self.state
        super().receive(message, ctx)
        if self.state.events is not before.events:
            self._log_events(before, self.state, ctx)

    def _log_events(self, before: PodState, after: PodState, ctx: Context) -> None:
        known = set(before.events)
        for event in after.events:
            # A repeated event is logged again each time its count has doubled.
            if event in known or event.count & (event.count - 1):
                continue
            _, name = namespace_and_name(after)
            tell = ctx.log.warning if event.type == "Warning" else ctx.log.info
            if event.reason in STEPS:
                tell = ctx.log.debug
            where = {"container": event.container} if event.container else {}
            tell(
                "pod event", pod=name, **where, reason=event.reason, message=event.message, count=event.count
            )
