"""Messages to ImageGCManager, which removes unused images.

Sent by: ImagePuller (`ImageDropped`), the admin socket and eviction (`CollectImages`). An actor
that requests a collection receives its end (`ImagesCollected`). Delivery: a lost answer is repaired by the next round's
listing.
"""

from api.ids import Path
from api.messages import Message


class CollectImages(Message, frozen=True, kw_only=True):
    """Collect now, whatever the usage: every unused image that is old enough."""

    run: str
    """Names this run, so that its sender finds it in the manager's state."""
    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"CollectImages {self.run}"


class ImageDropped(Message, frozen=True, kw_only=True):
    """To ImageGCManager: what became of a `DropImage`."""

    id: str
    removed: bool
    wanted: bool = False
    """It was not removed because a pod wants it: nothing is wrong."""
    why: str = ""
    """Why it was not removed: wanted by a pod, or the runtime's error."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ImageDropped {self.id} {'removed' if self.removed else self.why}"


ImageGCMessage = CollectImages | ImageDropped
