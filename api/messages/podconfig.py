"""Messages to PodConfig, the merge of all sources.

Sent by: sources (`PodsSeen`), the supervisor and tests (`Subscribe`, `SnapshotWanted`). Order: per sender.
Delivery: `PodsSeen` is a level, the newest of a source wins. A loss is repaired by the source's next reading, or by the
source on `Restarted`.
"""

from enum import StrEnum

from api.ids import Path
from api.kube.objects.pod import Pod
from api.messages import Message


class NotificationMode(StrEnum):
    """How a subscriber of the merge receives changes."""

    INCREMENTAL = "incremental"
    """One numbered `PodsChanged` for each kind of change, in the order REMOVE, ADD, UPDATE, DELETE, RECONCILE."""
    SNAPSHOT_AND_UPDATES = "snapshot-and-updates"
    """`PodsSnapshot` when pods came or went, else `PodsChanged` for updates."""
    SNAPSHOT = "snapshot"
    """`PodsSnapshot` for every change."""


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


class Subscribe(Message, frozen=True, kw_only=True):
    """Send `subscriber` every change from now on, beginning with a snapshot."""

    subscriber: Path
    mode: NotificationMode = NotificationMode.INCREMENTAL

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Subscribe {self.subscriber} {self.mode}"


class SnapshotWanted(Message, frozen=True, kw_only=True):
    """A subscriber saw a gap in the numbers, or has restarted: send it a `PodsSnapshot`."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"SnapshotWanted by {self.asked_by}"

    def conflation_key(self) -> str | None:
        """Keep one per asker."""
        return f"snapshot:{self.asked_by}"


PodConfigMessage = PodsSeen | Subscribe | SnapshotWanted
