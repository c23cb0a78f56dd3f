"""Messages to Pleg, which turns listings and runtime events into facts about pods.

Sent by: PodActors and the supervisor. Order: none needed. Delivery: levels; a loss is repaired by the next relist.
"""

from api.ids import Uid
from api.messages import Message


class LookAtPod(Message, frozen=True, kw_only=True):
    """Inspect this pod soon and tell its actor, without waiting for the next relist."""

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"LookAtPod {self.uid}"

    def conflation_key(self) -> str | None:
        """Keep one per pod."""
        return f"look:{self.uid}"


class RelistNow(Message, frozen=True, kw_only=True):
    """List the whole runtime at once."""

    def conflation_key(self) -> str | None:
        """Keep one."""
        return "relist"


PlegMessage = LookAtPod | RelistNow
