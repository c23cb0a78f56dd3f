"""Messages to PodConfig, the merge of all sources.

Sent by: sources (`PodsSeen`), the supervisor (`SnapshotWanted`). Order: per sender.
Delivery: `PodsSeen` is a level, the newest of a source wins. A loss is repaired by the source's next reading, or by the
source on `Restarted`.
"""

from api.ids import Path
from api.kube.objects.pod import Pod
from api.messages import Message


class PodsSeen(Message, frozen=True, kw_only=True):
    """The complete list of pods of one source (the operation SET). An empty one is as good as any other."""

    source: str
    """``file``, ``http``, ``api`` or ``checkpoint``."""
    pods: tuple[Pod, ...] = ()
    restored: bool = False
    """From a checkpoint, not from the source itself: does not make the source ready."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PodsSeen {self.source} pods={len(self.pods)}{' restored' if self.restored else ''}"

    def conflation_key(self) -> str | None:
        """Keep the newest list of each source."""
        return f"seen:{self.source}:{self.restored}"


class SnapshotWanted(Message, frozen=True, kw_only=True):
    """A subscriber saw a gap in the numbers, or has restarted: send it a `PodsSnapshot`."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"SnapshotWanted by {self.asked_by}"

    def conflation_key(self) -> str | None:
        """Keep one per asker."""
        return f"snapshot:{self.asked_by}"


PodConfigMessage = PodsSeen | SnapshotWanted
