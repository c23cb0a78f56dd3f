"""Decisions: the actions that a pure core returns to its shell."""

from typing import Generic, TypeVar

import msgspec

from api.ids import Instant, OpId, Path
from api.messages import Message


class Action(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One thing to do. The kernel's shell performs those of this module; an actor may add its own."""


class Start(Action, frozen=True, kw_only=True):
    """Hand `call` to the port of this name; its outcome comes back as a message with `op`."""

    op: OpId
    port: str
    call: msgspec.Struct
    deadline_s: float


class Cancel(Action, frozen=True, kw_only=True):
    """Cancel an operation in flight. Its outcome still arrives, possibly with the kind `Cancelled`."""

    op: OpId


class Tell(Action, frozen=True, kw_only=True):
    """Send `message` to the actor at `to`; without an actor there it is a dead letter."""

    to: Path
    message: Message


class Listen(Action, frozen=True, kw_only=True):
    """Open the stream of this name; its items arrive as `Heard`. Opening an open stream does nothing."""

    stream: str


class Unlisten(Action, frozen=True, kw_only=True):
    """Close the stream of this name."""

    stream: str


class Watch(Action, frozen=True, kw_only=True):
    """Subscribe to `ChildDied` and `Restarted` of the actor at `path`."""

    path: Path


S = TypeVar("S", bound=msgspec.Struct)


class Decision(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """The decision of a core: the next state, actions in order, and the latest time of the next decision."""

    state: S
    actions: tuple[Action, ...] = ()
    wake_at: Instant | None = None
