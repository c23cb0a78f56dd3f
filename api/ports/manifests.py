"""The port ``manifests``: it takes `ReadManifests`. The stream ``manifests.changes`` brings `FileSettled` items."""

import msgspec

from api.messages import Message
from api.ports.call import HostCall

MANIFEST_LIMIT_BYTES = 1 << 20
"""A manifest file over this size is refused unread; a URL's body too (times ten, as a PodList)."""


class ReadManifests(HostCall, frozen=True, kw_only=True):
    """Read a folder (not recursive) or one file -> ManifestListing."""

    path: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ReadManifests {self.path}"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with an input: where, why, and what to do."""

    where: str
    """File and line, or file and field path: ``web.yaml:7``, ``web.yaml: spec.containers[0].image``."""
    message: str


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is to hold a manifest."""

    path: str
    """Absolute, as the source names it (symbolic links not resolved)."""
    digest: str
    """Of the content (sha256, hex); of name and size when it was refused unread."""
    document: bytes | None = None
    """The one document of the file as compact JSON, None when there is a problem."""
    problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        # A document may hold secrets in environment values.
        return f"ManifestFile(path={self.path!r}, digest={self.digest!r}, problems={self.problems!r})"


class ManifestListing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is at a manifest path, files sorted by name."""

    files: tuple[ManifestFile, ...] = ()
    ignored: tuple[Problem, ...] = ()
    """What is no manifest by its name or is no regular file, and why."""
    missing: bool = False
    """The path itself does not exist: as good as an empty folder."""
    place: str = ""
    """What is there and on which file system, in words; empty when nothing is."""


class FileSettled(Message, frozen=True, kw_only=True):
    """An item of ``manifests.changes``: a writer closed this file, or it was renamed, moved or removed."""

    path: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"FileSettled {self.path}"

    def conflation_key(self) -> str | None:
        """Keep one per file."""
        return self.path
