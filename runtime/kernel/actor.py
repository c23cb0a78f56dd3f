"""The surface that actors are written against: `Actor`, what it is made from, and the `Context` it acts through.

An actor is an *incarnation* inside a *cell* (`runtime.kernel.cell`). `Handle` and path outlive every incarnation.

```text
PodActor.options(name=uid, max_restarts=5).bind(uid, ports)   -> Spec     plain data: OTP's child spec
ctx.spawn(spec)                                                -> Handle
handle.tell(message)                                              never blocks, never raises
```
"""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from api.ids import Instant, OpId, Path, WallNs
from api.messages.kernel import KernelMessage
from api.ports.port import BlockingPort, Port, Stream

M = TypeVar("M", contravariant=True)


class Handle(Protocol[M]):
    """The address of an actor. It survives restarts, can be compared, and is never part of a message."""

    @property
    def path(self) -> Path:
        """Return where the actor lives."""
        ...

    def tell(self, message: M) -> None:
        """Send `message`. Never blocks and never raises; what does not fit becomes a dead letter."""
        ...


class Log(Protocol):
    """Structured logging: the text is a constant, facts are fields."""

    def debug(self, text: str, **facts: object) -> None:
        """Log for a developer."""
        ...

    def info(self, text: str, **facts: object) -> None:
        """Log one line that an operator would tell another."""
        ...

    def warning(self, text: str, **facts: object) -> None:
        """Log what an operator should check."""
        ...

    def error(self, text: str, **facts: object) -> None:
        """Log what is broken."""
        ...


LogFactory = Callable[[Path], Log]
"""Makes the logger of the actor at a path. The kernel itself knows no logging library."""


class Silence:
    """The log of a system that was given none."""

    def debug(self, text: str, **facts: object) -> None:
        """Log nothing."""

    def info(self, text: str, **facts: object) -> None:
        """Log nothing."""

    def warning(self, text: str, **facts: object) -> None:
        """Log nothing."""

    def error(self, text: str, **facts: object) -> None:
        """Log nothing."""


SILENCE = Silence()


def silent(path: Path) -> Log:  # noqa: ARG001  # every path is as silent
    """Return the log that keeps nothing."""
    return SILENCE


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """Restart policy: at most `max_restarts` within `window_s`, each after a growing delay."""

    max_restarts: int = 10
    window_s: float = 60.0
    delay_s: float = 0.1
    growth: float = 2.0
    delay_limit_s: float = 10.0


class Spec(msgspec.Struct, Generic[M], frozen=True, kw_only=True):
    """How to start an actor: OTP's child spec."""

    actor: type["Actor[Any]"]
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    name: str
    restart: Restart
    mailbox: int
    stop_deadline_s: float

    def make(self) -> "Actor[Any]":
        """Build a new incarnation; no effects."""
        return self.actor(*self.args, **dict(self.kwargs))


class Context(Protocol):
    """All that an actor can do to the world. There is no other way out of `receive`."""

    @property
    def self(self) -> Handle[Any]:
        """Return the actor's own handle."""
        ...

    @property
    def incarnation(self) -> int:
        """Return 0 for the first incarnation, one more for each restart."""
        ...

    @property
    def log(self) -> Log:
        """Return a logger that knows the actor's path."""
        ...

    def now(self) -> Instant:
        """Return monotonic seconds; the same value within one `receive`."""
        ...

    def wall(self) -> WallNs:
        """Return the wall clock in nanoseconds."""
        ...

    def seed(self) -> int:
        """Return a number to seed jitter with, new at each call; in simulation a function of the run's seed."""
        ...

    def new_op(self) -> OpId:
        """Return the next operation id of this actor."""
        ...

    def wake_at(self, at: Instant | None) -> None:
        """Ask for one `Alarm` at `at`, replacing an earlier request; None cancels it."""
        ...

    def start(self, op: OpId, port: Port | BlockingPort, call: msgspec.Struct, deadline_s: float) -> None:
        """Hand `call` to `port`; one `Outcome` with `op` follows, at the deadline at the latest."""
        ...

    def cancel(self, op: OpId) -> None:
        """Cancel an operation; its `Outcome` still comes."""
        ...

    def in_flight(self) -> tuple[OpId, ...]:
        """Return the operations in flight, ascending; an earlier incarnation may have started them."""
        ...

    def call_name(self, op: OpId) -> str:
        """Return the class name of the call of an operation in flight, empty for one that is not."""
        ...

    def listen(self, stream: Stream) -> None:
        """Open `stream`; its items arrive as `Heard`, its end as `StreamEnded`. An open one is left as it is."""
        ...

    def unlisten(self, name: str) -> None:
        """Close the stream of this name."""
        ...

    def spawn(self, spec: Spec[M]) -> Handle[M]:
        """Start a child. Raises `AlreadyExistsError` while a child of that name is not wholly gone.

        Children survive a restart of their parent, so an `on_start` that spawns checks `children` first.
        """
        ...

    def children(self) -> tuple[Path, ...]:
        """Return the children in the order of their start. They survive a restart of their parent."""
        ...

    def stop(self, child: Path) -> None:
        """Stop a child, or this actor itself; its parent and watchers get `ChildDied` when it is gone."""
        ...

    def watch(self, path: Path) -> None:
        """Get `Restarted` and `ChildDied` of the actor at `path`; a parent gets those of its children anyway."""
        ...

    def handle(self, path: Path) -> Handle[Any]:
        """Return a handle on the actor that lives at `path` when a message arrives there."""
        ...


class Options(Generic[M]):
    """Options of a spec, waiting for the constructor's arguments."""

    def __init__(
        self, actor: type["Actor[M]"], name: str, restart: Restart, mailbox: int, stop_s: float
    ) -> None:
        self._actor, self._name, self._restart, self._mailbox, self._stop_s = (
            actor,
            name,
            restart,
            mailbox,
            stop_s,
        )

    def bind(self, *args: Any, **kwargs: Any) -> Spec[M]:
        """Return the spec that starts the actor with these constructor arguments."""
        return Spec(
            actor=self._actor,
            args=args,
            kwargs=tuple(sorted(kwargs.items())),
            name=self._name,
            restart=self._restart,
            mailbox=self._mailbox,
            stop_deadline_s=self._stop_s,
        )


class Actor(Generic[M]):
    """One incarnation. `__init__` and everything outside `receive` and `on_start` has no effects."""

    MAILBOX: ClassVar[int] = 256

    state: msgspec.Struct | None = None
    """The last committed state, an immutable value: the kernel keeps it for people after each handled message."""

    @classmethod
    def options(
        cls,
        *,
        name: str,
        max_restarts: int = 10,
        restart: Restart | None = None,
        mailbox: int | None = None,
        stop_deadline_s: float = 2.0,
    ) -> Options[M]:
        """Begin a spec, as in Ray; `bind` completes it."""
        policy = restart or Restart(max_restarts=max_restarts)
        return Options(cls, name, policy, mailbox or cls.MAILBOX, stop_deadline_s)

    def on_start(self, ctx: Context) -> None:
        """Begin: ask for the first alarm, operations, streams and children."""

    def receive(self, message: M | KernelMessage, ctx: Context) -> None:
        """Handle one message. An exception ends this incarnation."""
        raise NotImplementedError

    def on_stop(self, ctx: Context) -> None:
        """End in order; bounded by the spec's stop deadline."""

    def explain_last(self) -> str:
        """Return one line on what the last message led to, for the trace."""
        return ""
