"""The shell around a pure core: it calls `decide`, keeps the state, performs the actions, sets the alarm."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from api.errors import OperatingError
from api.lifecycle import Action, Cancel, Decision, Listen, Start, Tell, Unlisten, Watch
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port, Stream
from runtime.kernel.actor import Actor, Context
from runtime.kernel.trace import cut

M = TypeVar("M", contravariant=True)
LAST_CALL_S = 1.0


class CoreActor(Actor[M], Generic[M]):
    """An actor whose decisions are a pure core's.

    A subclass gives `ports` and `streams`, by the names that its core's actions use, and `decide`; `begin`, when the
    core has something to decide before the first message. A core gets operation ids from ``ctx.new_op``.
    """

    ports: Mapping[str, Port | BlockingPort] = {}
    streams: Mapping[str, Stream] = {}
    _last: Decision[Any] | None = None

    @abstractmethod
    def decide(self, message: M | KernelMessage, ctx: Context) -> Decision[Any]:
        """Ask the core what follows from `message`."""
        raise NotImplementedError

    def begin(self, ctx: Context) -> Decision[Any] | None:  # noqa: ARG002  # for those that have something to begin with
        """Ask the core what to do before the first message; None: nothing."""
        return None

    def perform(self, action: Action, ctx: Context) -> None:
        """Perform an action that only this actor knows."""
        raise NotImplementedError(
            f"{type(self).__name__} at {ctx.self.path} cannot perform {type(action).__name__}"
        )

    def on_start(self, ctx: Context) -> None:
        """Carry out the first decision."""
        decision = self.begin(ctx)
        if decision is not None:
            self._carry_out(decision, ctx)

    def perform_at_last(self, port: str, calls: Iterable[msgspec.Struct], ctx: Context) -> None:
        """Carry out calls on a blocking port in `on_stop`, when no outcome comes any more, until one fails."""
        driver = self.ports[port]
        if not hasattr(driver, "perform"):
            return
        for call in calls:
            try:
                driver.perform(call, LAST_CALL_S)
            except OperatingError as error:
                ctx.log.warning(
                    "a call failed as the actor stopped, the rest is left",
                    port=port,
                    call=type(call).__name__,
                    why=str(error),
                )
                return

    def receive(self, message: M | KernelMessage, ctx: Context) -> None:
        """Carry out what the core decides on `message`."""
        self._carry_out(self.decide(message, ctx), ctx)

    def _carry_out(self, decision: Decision[Any], ctx: Context) -> None:
        self._last = decision
        self.state = decision.state
        for action in decision.actions:
            match action:
                case Start(op=op, port=port, call=call, deadline_s=deadline_s):
                    ctx.start(op, self.ports[port], call, deadline_s)
                case Cancel(op=op):
                    ctx.cancel(op)
                case Tell(to=to, message=message):
                    ctx.handle(to).tell(message)
                case Listen(stream=stream):
                    ctx.listen(self.streams[stream])
                case Unlisten(stream=stream):
                    ctx.unlisten(self.streams[stream].name)
                case Watch(path=path):
                    ctx.watch(path)
                case _:
                    self.perform(action, ctx)
        ctx.wake_at(decision.wake_at)

    def explain_last(self) -> str:
        """Return the last decision in one line."""
        decision = self._last
        if decision is None:
            return ""
        words = [word for word in map(action_brief, decision.actions) if word]
        if decision.wake_at is not None:
            words.append(f"wake at {decision.wake_at:.3f}")
        return cut("; ".join(words))


def action_brief(action: Action) -> str:
    """Return one action in a few words."""
    match action:
        case Start(op=op, port=port, call=call):
            return f"start {op} {port} {type(call).__name__}"
        case Cancel(op=op):
            return f"cancel {op}"
        case Tell(to=to, message=message):
            return f"send {to} {message.brief()}"
        case Listen(stream=stream):
            return f"listen {stream}"
        case Unlisten(stream=stream):
            return f"unlisten {stream}"
        case Watch(path=path):
            return f"watch {path}"
        case _:
            return type(action).__name__
