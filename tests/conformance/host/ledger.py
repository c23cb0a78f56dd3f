"""The ledgers that the suite holds to `api.ports`, each with the hands that break its disk."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import pytest

from api.ports.port import BlockingPort
from runtime.drivers.host.ledger import FileLedger
from runtime.drivers.memory.host import MemoryLedger


class LedgerBench(ABC):
    port: BlockingPort

    @abstractmethod
    def reopen(self) -> None:
        """Make a new driver over what the old one left."""

    @abstractmethod
    def damage(self, section: str, key: str) -> None:
        """Change an entry behind the driver's back."""

    @abstractmethod
    def fill(self) -> None:
        """Fill the disk."""


class MemoryBench(LedgerBench):
    def __init__(self) -> None:
        self.port = self.ledger = MemoryLedger()

    def reopen(self) -> None:
        pass

    def damage(self, section: str, key: str) -> None:
        self.ledger.damage(section, key)

    def fill(self) -> None:
        self.ledger.full = True


class FileBench(LedgerBench):
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.port = FileLedger(root)
        self.monkeypatch = monkeypatch

    def reopen(self) -> None:
        self.port = FileLedger(self.root)

    def damage(self, section: str, key: str) -> None:
        path = self.root / "ledger" / section / key
        content = bytearray(path.read_bytes())
        content[-1] ^= 0x40
        path.write_bytes(content)

    def fill(self) -> None:
        def write(fd: int, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        self.monkeypatch.setattr("runtime.drivers.host.ledger.os.write", write)


LEDGERS: dict[str, Callable[[Path, pytest.MonkeyPatch], LedgerBench]] = {
    "memory": lambda _root, _patch: MemoryBench(),
    "files": FileBench,
}
