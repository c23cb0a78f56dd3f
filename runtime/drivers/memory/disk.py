"""The virtual file system of images: a capacity, layers that images share, and space that shows late.

What an image says of its size and what it really takes are two things, as on real runtimes: the size counts every layer
whole, the disk holds each layer once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from api.errors import Failure, FailureKind, RejectedError, UnavailableError
from api.ids import Instant, WallNs
from api.ports.images import ImageFs, ImageRow

MOUNTPOINT = "/var/lib/memory"


@dataclass
class Disk:
    """A file system that holds images and, in `other_bytes`, everything else."""

    capacity_bytes: int = 1 << 40
    other_bytes: int = 0
    delay_s: float = 0.0
    """How long after its removal an image's space goes on to show as used."""
    layers: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Image id -> its layers, each (name, bytes); an image that is not here has one of its own, of its size."""
    failure: Failure | None = None
    """What measuring fails with."""
    absurd: ImageFs | None = None
    """What measuring shows instead of the truth."""
    _lingering: list[tuple[Instant, ImageRow]] = field(default_factory=list)

    def removed(self, images: Iterable[ImageRow], now: Instant) -> None:
        """Take in that images were removed."""
        self._lingering += [(now + self.delay_s, image) for image in images]

    def measure(self, images: Iterable[ImageRow], now: Instant, wall: WallNs) -> ImageFs:
        """Return the usage of the file system. Raises the failure that was set."""
        if self.failure is not None:
            kind = RejectedError if self.failure.kind is FailureKind.REJECTED else UnavailableError
            raise kind(self.failure.message)
        if self.absurd is not None:
            return self.absurd
        self._lingering = [(until, image) for until, image in self._lingering if until > now]
        held = self.taken((*images, *(image for _, image in self._lingering)))
        return ImageFs(
            mountpoint=MOUNTPOINT,
            capacity_bytes=self.capacity_bytes,
            available_bytes=max(0, self.capacity_bytes - self.other_bytes - held),
            used_bytes=held,
            measured_at=wall,
        )

    def taken(self, images: Iterable[ImageRow]) -> int:
        """Return how many bytes a set of images really takes."""
        layers = {
            layer for image in images for layer in self.layers.get(image.id, ((image.id, image.size_bytes),))
        }
        return sum(size for _, size in layers)
