"""The port ``ledger``: it takes `Remember`, `Forget`, `Recall` and `RecallAll`."""

import re

import msgspec

from api.errors import RejectedError
from api.ports.call import HostCall

LEDGER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""What a section and a key may be: both are file names."""


LEDGER_DAMAGED = ".damaged-"
"""Stands in the name of an entry that was set aside; no key may hold it."""


def check_ledger_names(section: str, key: str = "key") -> None:
    """Raise `RejectedError` for a section or key that is no plain file name."""
    for what, name in (("section", section), ("key", key)):
        if LEDGER_NAME.fullmatch(name) is None or LEDGER_DAMAGED in name:
            raise RejectedError(
                f"ledger {what} {name!r} is not usable: at most 200 letters, digits, '.', '_' and '-', the first one"
                f" a letter or digit, without {LEDGER_DAMAGED!r}"
            )


def not_ours(section: str, key: str) -> str:
    """Say that an entry is whole and holds something else than its owner writes there."""
    return f"ledger entry {section}/{key} holds what no agent of this version writes; it counts as missing"


class Remember(HostCall, frozen=True, kw_only=True):
    """Write one entry, atomically -> Done. `durable`: on disk (fsync, folder too) before it completes."""

    section: str
    key: str
    data: bytes
    durable: bool = False

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Remember {self.section}/{self.key}{' durable' if self.durable else ''}"


class Forget(HostCall, frozen=True, kw_only=True):
    """Remove one entry -> Done; a missing one is fine. `durable`: no power failure brings it back once that is done."""

    section: str
    key: str
    durable: bool = False

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Forget {self.section}/{self.key}{' durable' if self.durable else ''}"


class Recall(HostCall, frozen=True, kw_only=True):
    """Read one entry -> Recalled."""

    section: str
    key: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Recall {self.section}/{self.key}"


class RecallAll(HostCall, frozen=True, kw_only=True):
    """Read a whole section -> RecalledAll, keys ascending."""

    section: str
    only_look: bool = False
    """A damaged entry stays where it is: its owner reads it, and says that it was lost."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RecallAll {self.section}"


class Recalled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One entry; `data` None when there is none, `damaged` says that a broken one was set aside."""

    data: bytes | None = None
    damaged: str = ""


class RecalledAll(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All entries of a section."""

    entries: tuple[tuple[str, bytes], ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    """Keys of what could not be read and why, set aside or left; the empty key stands for the whole section."""
