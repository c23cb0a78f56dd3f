"""Verdicts on pods, and the one entry of the ledger that stores them.

Decided once per UID and durable before the supervisor receives it: a restart of the agent changes no verdict, and an
admitted pod keeps its room. One entry for all pods, so that a hundred that come together cost one write, in parallel with
the first inspections by their actors.
"""

from collections.abc import Mapping

import msgspec

from actors.rules.resources.request import Claim
from api.decoding import ready
from api.ids import Instant, OpId, Uid
from api.messages.admission import Allocated
from api.messages.pod import Refusal

SECTION = "admission"
KEY = "verdicts"


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An admitted pod's claim and allocation, or the refusal."""

    name: str
    """``namespace/name``."""
    claim: Claim = Claim()
    allocated: tuple[Allocated, ...] = ()
    """The allocation of its containers, which a resize changes."""
    refusal: Refusal | None = None


class AdmissionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger entry, UIDs ascending."""

    verdicts: tuple[tuple[Uid, Verdict], ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Ledger calls in flight, what they write, and what the ledger holds."""

    inherited: tuple[OpId, ...] = ()
    """Calls of an earlier incarnation: one of them may still write."""
    recalled: Mapping[Uid, Verdict] | None = None
    """Verdicts of an earlier life on pods that no one owns yet; None before the ledger was read."""
    recall_op: OpId | None = None
    recall_at: Instant = float("-inf")
    recall_failures: int = 0
    edition: int = 0
    """Counts changes of what must be written."""
    written: int = 0
    """The edition that the ledger holds."""
    write_op: OpId | None = None
    writing: int = 0
    writing_uids: tuple[Uid, ...] = ()
    """Pods whose verdict is being written for the first time."""
    write_at: Instant = float("-inf")
    problem: str = ""
    """Why the verdicts could not be read or written, as a sentence."""
    damaged: str = ""
    """Why stored verdicts were lost, to be sent as an event of the node."""


def encoded(verdicts: Mapping[Uid, Verdict]) -> bytes:
    """Return the verdicts as an `AdmissionRecord` in MessagePack."""
    return msgspec.msgpack.encode(
        AdmissionRecord(verdicts=tuple(sorted(verdicts.items(), key=lambda row: row[0])))
    )


def decoded(data: bytes | None) -> Mapping[Uid, Verdict] | None:
    """Return the stored verdicts, empty for no entry, None for bytes that cannot be decoded."""
    if data is None:
        return {}
    try:
        return dict(msgspec.msgpack.decode(data, type=ready(AdmissionRecord)).verdicts)
    except msgspec.DecodeError:
        return None
