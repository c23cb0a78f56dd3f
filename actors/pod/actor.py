"""PodActor, the owner of one UID: the only one who changes this pod in the runtime."""

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
"""Reasons of events that only lead to the next: ``Started`` tells an operator that they were well."""


class PodActor(CoreActor[PodMessage]):
    """The life of one pod; ports: ``runtime``, ``ledger``, ``podfiles``, ``cgroups``, ``volumes``, ``net``."""

    def __init__(
        self,
        state: PodState,
        ports: Mapping[str, Port | BlockingPort],
        blank_as_of: Instant | None = None,
    ) -> None:
        """Without `blank_as_of` it is not known whether ledger and runtime hold anything of the pod."""
        self.ports = ports
        self.state: PodState = state
        self._blank_as_of = blank_as_of

    def begin(self, ctx: Context) -> Decision[PodState]:
        """Begin by asking the ledger and the runtime what they know, unless that is known to be nothing."""
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
        """Try once more to write what the ledger did not take: the disk may have room again."""
        stage = rewriting(self.state)
        if stage is not None:
            self.perform_at_last("ledger", [one.call for one in stage.calls], ctx)

    def decide(self, message: PodMessage | KernelMessage, ctx: Context) -> Decision[PodState]:
        """Decide on one message."""
        return decide(self.state, message, ctx.now(), ctx.wall(), ctx.new_op)

    def receive(self, message: PodMessage | KernelMessage, ctx: Context) -> None:
        """Carry out what follows from a message, then tell the operator: the pod does not wait for its log."""
        before = self.state
        super().receive(message, ctx)
        if self.state.events is not before.events:
            self._log_events(before, self.state, ctx)

    def _log_events(self, before: PodState, after: PodState, ctx: Context) -> None:
        known = set(before.events)
        for event in after.events:
            # One that repeats is told again each time the count has doubled.
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
