"""The drivers of the port ``manifests`` that the suite holds to `api.ports`. Another one is an entry in `MANIFESTS`."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from api.ports.port import BlockingPort, Stream
from runtime.drivers.memory.host import MemoryManifests


class ManifestBench(ABC):
    """A driver over one folder, and the hands of who edits files in it."""

    port: BlockingPort
    changes: Stream

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Absolute; made by the first `put`."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> str:
        """Write a file in the folder and return its path."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file."""


class MemoryBench(ManifestBench):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = self.manifests = MemoryManifests()
        self.changes = self.manifests.changes

    def put(self, name: str, content: bytes) -> str:
        path = str(self.folder / name)
        self.manifests.put(path, content)
        return path

    def remove(self, name: str) -> None:
        self.manifests.remove(str(self.folder / name))


MANIFESTS: dict[str, Callable[[Path], ManifestBench]] = {"memory": MemoryBench}
