"""Messages to ImagePuller, which pulls and removes images.

Sent by: PodActors (`WantImages`), ImageGCManager (`DropImage`). Order: per sender. Delivery: `WantImages` is a level, the
newest wins, and PodActors repeat it to a new incarnation; the answer is `ImageReport`. A wanted image is leased: it is not removed, and neither is one that is just being fetched.
"""

from enum import StrEnum

import msgspec

from api.ids import Instant, Path, Uid
from api.messages import Message
from api.ports.confinement import Pairs
from api.ports.images import ImageAuth


class PullPolicy(StrEnum):
    """When an image is fetched."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class ImageWant(msgspec.Struct, frozen=True, kw_only=True):
    """One container's next instance needs this image."""

    container: str
    attempt: int
    image: str
    """As the pod names it."""
    policy: PullPolicy
    again: int = 0
    """Grows when no container could be made from the answer, so that the image must be looked up again."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """What one registry (or a path on it, host labels may hold globs) is to be given. Nothing of it is ever shown."""

    where: str
    auth: ImageAuth

    def __repr__(self) -> str:
        # A place may be written as a URL with a user and a password in it.
        return f"Credential(where={self.where.rpartition('@')[2]!r}, auth=<hidden>)"


class WantImages(Message, frozen=True, kw_only=True):
    """All images that a pod needs now, the whole truth: what is not named any more is needed no longer."""

    uid: Uid
    wants: tuple[ImageWant, ...] = ()
    credentials: tuple[Credential, ...] = ()
    """From the pod's own pull secrets, in order."""
    annotations: Pairs = ()
    """The pod's."""

    def brief(self) -> str:
        """Return one line for traces."""
        names = " ".join(f"{want.container}#{want.attempt}={want.image}" for want in self.wants)
        return f"WantImages {self.uid} {names or 'none'}"

    def conflation_key(self) -> str | None:
        """Keep the newest of each pod."""
        return f"want:{self.uid}"


class DropImage(Message, frozen=True, kw_only=True):
    """Remove an image unless a pod wants it; `ImageDropped` is the answer."""

    id: str
    names: tuple[str, ...] = ()
    as_of: Instant
    """When the sender began to list which containers use it: an image wanted since then may be in use unseen."""
    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"DropImage {self.id}"


ImagesMessage = WantImages | DropImage
