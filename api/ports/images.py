"""The images that containers are made from: the calls and results of the port ``images``.

Each runtime has a driver for it (CRI, where an image service of its own may answer, embedded, memory), and one conformance
suite holds them to this page. Rules of the port:

- An unknown image is shown as None, not a failure; removing an unknown one succeeds.
- A pull may take as long as it takes; cancelling one gives up waiting. A removal that was begun is seen through.
- Credentials never show in a text.
"""

import msgspec

from api.ids import WallNs
from api.ports.confinement import Pairs

PULL_LIMIT_S = 365 * 86400.0
"""A pull has no limit of its own: CRI v1 reports no progress. Some runtimes end one that stands still."""
IMAGE_MISSING = "ImageNotFound"
"""Reason with which CreateContainer is rejected when its image is not there (any more): fetch it again."""


class ImageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One image that the runtime holds."""

    id: str
    """As the runtime says it: ``sha256:<hex>``, or bare hex."""
    names: tuple[str, ...] = ()
    """Tags (``registry/name:tag``), then digests (``registry/name@sha256:...``)."""
    size_bytes: int = 0
    pinned: bool = False
    user: int | None = None
    """Numeric user id that the image runs as, None when it names one or says nothing."""
    user_name: str = ""


class ImageAuth(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials for a registry. Nothing of them is ever shown."""

    username: str = ""
    password: str = ""
    auth: str = ""
    server_address: str = ""
    identity_token: str = ""
    registry_token: str = ""

    def __repr__(self) -> str:
        return "ImageAuth(<hidden>)"


class ImageCall(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One call on the port ``images``."""

    def brief(self) -> str:
        """Return one line for traces."""
        return type(self).__name__


class ListImages(ImageCall, frozen=True, kw_only=True):
    """List images -> ImageListing."""


class ImageStatus(ImageCall, frozen=True, kw_only=True):
    """Look up one image by any of its names or its id -> ImageShown."""

    image: str
    annotations: Pairs = ()
    """The pod's, for runtimes that choose by them."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ImageStatus {self.image}"


class PullImage(ImageCall, frozen=True, kw_only=True):
    """Fetch an image from its registry -> ImagePulled.

    Fails with Denied for refused credentials and an unknown repository, Rejected for what is no reference, Unavailable
    for the rest; `reason` may be RegistryUnavailable or SignatureValidationFailed.
    """

    image: str
    auth: ImageAuth | None = None
    annotations: Pairs = ()

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PullImage {self.image}{' with credentials' if self.auth else ''}"


class RemoveImage(ImageCall, frozen=True, kw_only=True):
    """Remove an image with all its names -> ImageRemoved."""

    image: str
    """Its id."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RemoveImage {self.image}"


class ImageFsUsage(ImageCall, frozen=True, kw_only=True):
    """Measure the file system that images are on -> ImageFs."""


AnyImageCall = ListImages | ImageStatus | PullImage | RemoveImage | ImageFsUsage


class ImageListing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Every image of the runtime, by id ascending."""

    images: tuple[ImageRow, ...] = ()


class ImageShown(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One image, None when the runtime does not have it."""

    image: ImageRow | None = None


class ImagePulled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What to make a container from: an id or a digest, whatever the runtime calls the pulled image."""

    ref: str


class ImageRemoved(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The image is gone."""


class ImageFs(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The file system of images as it is now."""

    mountpoint: str
    """A path on it."""
    capacity_bytes: int
    available_bytes: int
    used_bytes: int = 0
    """By images, as the runtime counts."""
    inodes: int = 0
    inodes_free: int = 0
    measured_at: WallNs = 0
