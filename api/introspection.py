"""What the kernel shows of its actors, in Ray's words where Ray has one."""

from enum import StrEnum

import msgspec

from api.ids import Path


class ActorState(StrEnum):
    """State of an actor, literally Ray's."""

    PENDING_CREATION = "PENDING_CREATION"
    ALIVE = "ALIVE"
    RESTARTING = "RESTARTING"
    DEAD = "DEAD"


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    """An operation in flight."""

    op: int
    port: str
    call: str
    age_s: float
    deadline_in_s: float


class ActorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One actor as `nodeagent actors` and ``GET /actors`` show it."""

    actor_id: str
    path: Path
    class_name: str
    name: str
    state: ActorState
    num_restarts: int
    death_cause: str = ""
    mailbox_depth: int = 0
    mailbox_high_water: int = 0
    current_message: str = ""
    current_message_age_s: float = 0.0
    oldest_pending_s: float = 0.0
    handled: int = 0
    handling_s: float = 0.0
    conflated: int = 0
    dead_lettered: int = 0
    operations: tuple[OperationRow, ...] = ()
    alarm_in_s: float | None = None
    parent: str = ""
    incarnation: int = 0
    unresponsive: str = ""
    """Why the kernel counts it as stuck, empty when it answers its ping."""


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery, as the trace keeps it."""

    at: float
    """Monotonic seconds."""
    path: Path
    message: str
    outcome: str
    """What the receiver decided, in one line, or the exception that ended the incarnation."""
    took_s: float


class DeadLetterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message that nobody handled."""

    at: float
    to: Path
    message: str
    reason: str
    """``no such actor``, ``full``, ``expired``, ``stopping`` or ``fault``."""


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the whole actor system."""

    actors: int
    by_state: tuple[tuple[str, int], ...] = ()
    by_class: tuple[tuple[str, int], ...] = ()
    accepted: int = 0
    handled: int = 0
    conflated: int = 0
    dead_lettered: int = 0
    pending: int = 0
    threads: int = 0
    stuck: tuple[str, ...] = ()
    """One sentence for each actor that does not answer: who, on which message, for how long, its stack's last line."""
