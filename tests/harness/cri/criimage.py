"""The images of a personality, and its ImageService."""

import hashlib
import threading
import time
from dataclasses import dataclass, field

from runtime.wire.generated import cri_pb2 as pb
from tests.harness.cri.criserver import Call, not_found, unknown


@dataclass(frozen=True)
class StoredImage:
    """An image as the personality keeps it. `hex` is its id without the algorithm."""

    hex: str
    name: str
    size: int = 5_000_000
    user: str = ""
    pinned: bool = False

    @property
    def digest(self) -> str:
        """Return the reference by digest."""
        repository, _, tag = self.name.rpartition(":")
        name = repository if "/" not in tag else self.name
        return f"{name}@sha256:{hashlib.sha256(self.hex.encode()).hexdigest()}"


def image_named(name: str, **fields) -> StoredImage:
    """Return an image whose id follows from its name."""
    return StoredImage(hex=hashlib.sha256(b"image " + name.encode()).hexdigest(), name=name, **fields)


@dataclass
class ImageStore:
    """What the personality holds and what its registries offer. `bare` ids have no ``sha256:`` in front."""

    bare: bool = False
    pull_gives_digest: bool = False
    held: dict[str, StoredImage] = field(default_factory=dict)
    """By id without the algorithm."""
    offered: dict[str, StoredImage] = field(default_factory=dict)
    """By name: what can be pulled."""
    passwords: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By name: who may pull it."""
    folder: str = "/"
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def id_of(self, image: StoredImage) -> str:
        """Return an image's id in this runtime's form."""
        return image.hex if self.bare else f"sha256:{image.hex}"

    def find(self, reference: str) -> StoredImage | None:
        """Return the image of this name, digest or id, None when it is not held."""
        with self._lock:
            for image in self.held.values():
                if reference in (image.name, image.digest, image.hex, f"sha256:{image.hex}"):
                    return image
        return None

    def add(self, image: StoredImage) -> None:
        """Put an image into the store."""
        with self._lock:
            self.held[image.hex] = image

    def show(self, image: StoredImage) -> pb.Image:
        """Return an image as the CRI shows it."""
        shown = pb.Image(
            id=self.id_of(image),
            repo_tags=[image.name],
            repo_digests=[image.digest],
            size=image.size,
            pinned=image.pinned,
            spec=pb.ImageSpec(image=self.id_of(image)),
        )
        if image.user.isdecimal():
            shown.uid.value = int(image.user)
        elif image.user:
            shown.username = image.user
        return shown

    def ListImages(self, request: pb.ListImagesRequest, call: Call) -> pb.ListImagesResponse:  # noqa: N802
        with self._lock:
            return pb.ListImagesResponse(images=[self.show(image) for image in self.held.values()])

    def ImageStatus(self, request: pb.ImageStatusRequest, call: Call) -> pb.ImageStatusResponse:  # noqa: N802
        found = self.find(request.image.image)
        return pb.ImageStatusResponse(image=self.show(found)) if found else pb.ImageStatusResponse()

    def PullImage(self, request: pb.PullImageRequest, call: Call) -> pb.PullImageResponse:  # noqa: N802
        name = request.image.image
        image = self.offered.get(name)
        if image is None:
            raise not_found(
                f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": {name}: not found'
            )
        wanted = self.passwords.get(name)
        if wanted is not None and wanted != (request.auth.username, request.auth.password):
            raise unknown(f'failed to pull image "{name}": pull access denied: authorization failed')
        self.add(image)
        return pb.PullImageResponse(image_ref=image.digest if self.pull_gives_digest else self.id_of(image))

    def RemoveImage(self, request: pb.RemoveImageRequest, call: Call) -> pb.RemoveImageResponse:  # noqa: N802
        found = self.find(request.image.image)
        with self._lock:
            if found is not None:
                self.held.pop(found.hex, None)
        return pb.RemoveImageResponse()

    def ImageFsInfo(self, request: pb.ImageFsInfoRequest, call: Call) -> pb.ImageFsInfoResponse:  # noqa: N802
        with self._lock:
            used = sum(image.size for image in self.held.values())
        usage = pb.FilesystemUsage(
            timestamp=time.time_ns(), fs_id=pb.FilesystemIdentifier(mountpoint=self.folder)
        )
        usage.used_bytes.value, usage.inodes_used.value = used, 1000
        return pb.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])
