"""Messages to EventRecorder, which keeps the events of this node.

Sent by: PodActors; `LedgerDamaged` by the owner of a section of the ledger that is not about one pod. Order: per sender. Delivery: `EventSeen` is an edge, kept until handled, and so is `LedgerDamaged`; a lost one is an event that
is missing. `KeepEvents` is a level, sent again on `Restarted`; a lost one is repaired by the PodActor's next event, a lost
`ReleaseEvents` by the next start of the agent, which finds no pod for the entry.
"""

from api.ids import Uid, WallNs
from api.messages import Message


class EventSeen(Message, frozen=True, kw_only=True):
    """An event of a pod, which occurred `times` times."""

    uid: Uid
    namespace: str
    pod: str
    at: WallNs
    kind: str
    """``Normal`` or ``Warning``."""
    reason: str
    message: str
    field_path: str = ""
    """``spec.containers{name}`` for a container's."""
    times: int = 1

    def brief(self) -> str:
        """Return one line for traces."""
        return f"EventSeen {self.namespace}/{self.pod} {self.kind} {self.reason}"


class KeepEvents(Message, frozen=True, kw_only=True):
    """The pod exists: keep its events."""

    uid: Uid
    namespace: str
    pod: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"KeepEvents {self.namespace}/{self.pod}"

    def conflation_key(self) -> str | None:
        """Keep one of each pod."""
        return f"keep:{self.uid}"


class ReleaseEvents(Message, frozen=True, kw_only=True):
    """Everything of the pod is removed: keep its events for a while only."""

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ReleaseEvents {self.uid}"


class LedgerDamaged(Message, frozen=True, kw_only=True):
    """Entries of a section could not be read: what they said is lost."""

    section: str
    whys: tuple[str, ...]
    """A sentence for each."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"LedgerDamaged {self.section} entries={len(self.whys)}"


EventsMessage = EventSeen | KeepEvents | ReleaseEvents | LedgerDamaged
