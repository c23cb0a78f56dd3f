"""Decisions: what a pure core tells the shell around it to do."""

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
    """Send `message` to the actor at `to`; nobody there means a dead letter."""

    to: Path
    message: Message


class Listen(Action, frozen=True, kw_only=True):
    """Open the stream of this name; its items arrive as `Heard`. Opening an open stream does nothing."""

    stream: str


class Unlisten(Action, frozen=True, kw_only=True):
    """Close the stream of this name."""

    stream: str


class Watch(Action, frozen=True, kw_only=True):
    """Be told by `ChildDied` and `Restarted` what becomes of the actor at `path`."""

    path: Path


S = TypeVar("S", bound=msgspec.Struct)


class Decision(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """What a core decided: the next state, what to do in this order, and when to look again at the latest."""

    state: S
    actions: tuple[Action, ...] = ()
    wake_at: Instant | None = None
