"""Messages to Pleg, which turns listings and runtime events into facts about pods.

Sent by: PodActors and the supervisor; NodeStatusManager (`WatchPlegHealth`). Order: per sender. Delivery: all are levels, whether a pod
is watched among them; a lost hint is repaired by the next relist; senders watch again when Pleg has a new incarnation.
"""

from api.ids import Path, Uid
from api.messages import Message


class WatchPod(Message, frozen=True, kw_only=True):
    """From now on send the pod's actor what the runtime shows of it."""

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"WatchPod {self.uid}"

    def conflation_key(self) -> str | None:
        """Keep whether the pod is watched, as its actor said last."""
        return f"watch:{self.uid}"


class UnwatchPod(Message, frozen=True, kw_only=True):
    """Everything of the pod is removed: send its actor nothing more."""

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"UnwatchPod {self.uid}"

    def conflation_key(self) -> str | None:
        """Keep whether the pod is watched, as its actor said last."""
        return f"watch:{self.uid}"


class WatchPlegHealth(Message, frozen=True, kw_only=True):
    """From now on send `asked_by` whether the runtime is listed in time: at once, and whenever that changes."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"WatchPlegHealth {self.asked_by}"


PlegMessage = WatchPod | UnwatchPod | WatchPlegHealth
