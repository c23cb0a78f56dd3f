"""Messages that the kernel itself sends to an actor.

Lane: control, so that they overtake messages between actors; but `Heard` and `StreamEnded` are ordinary, so that a
busy stream starves no other message and its end comes after its items.

Sent by: the kernel. Order: as they become true. Delivery: outcomes and alarms reserve their slot when asked for and
are never dropped. A loss can only come from a crash of the process, after which state is rebuilt from sources and
runtime.
"""

import msgspec

from api.errors import Failure
from api.ids import Instant, OpId, Path
from api.messages import Message


class Alarm(Message, frozen=True, kw_only=True):
    """The instant asked for with `wake_at` has come. One alarm per actor; a later request replaces it."""

    at: Instant

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Alarm at={self.at:.3f}"


class Outcome(Message, frozen=True, kw_only=True):
    """An operation ended: exactly one of `result` and `failure` is set."""

    op: OpId
    call: str
    """Class name of the call, for people."""
    result: msgspec.Struct | None = None
    failure: Failure | None = None
    started_at: Instant
    ended_at: Instant

    def brief(self) -> str:
        """Return one line for traces."""
        how = self.failure.brief() if self.failure else "ok"
        return f"Outcome op={self.op} {self.call} {how}"


class Heard(Message, frozen=True, kw_only=True):
    """A stream that the actor listens to brought an item."""

    stream: str
    item: Message

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Heard {self.stream}: {self.item.brief()}"

    def conflation_key(self) -> str | None:
        """Conflate by stream and the item's own key."""
        key = self.item.conflation_key()
        return None if key is None else f"{self.stream}:{key}"


class StreamEnded(Message, frozen=True, kw_only=True):
    """A stream died; the actor decides whether and when to listen again."""

    stream: str
    failure: Failure | None = None

    def brief(self) -> str:
        """Return one line for traces."""
        return f"StreamEnded {self.stream} {self.failure.brief() if self.failure else 'closed'}"


class Restarted(Message, frozen=True, kw_only=True):
    """A watched actor or child has a new incarnation, which knows nothing: resend your level."""

    path: Path
    incarnation: int
    cause: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Restarted {self.path} incarnation={self.incarnation} cause={self.cause}"


class ChildDied(Message, frozen=True, kw_only=True):
    """A watched actor or child is dead for good: stopped (`cause` empty) or past its restart budget."""

    path: Path
    cause: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ChildDied {self.path} cause={self.cause or 'stopped'}"


KernelMessage = Alarm | Outcome | Heard | StreamEnded | Restarted | ChildDied
