"""What was decided on pods, and the one entry of the ledger that remembers it.

Decided once per UID and durable before the supervisor is told: a restart of the agent changes no verdict, and a pod that
was given room keeps it. One entry for all pods, so that a hundred that come together cost one write, which goes on beside
the first inspections of their actors.
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
    """That a pod may run and what it takes of the node, or that it may not."""

    name: str
    """``namespace/name``."""
    claim: Claim = Claim()
    allocated: tuple[Allocated, ...] = ()
    """What its containers were given, which a resize changes."""
    refusal: Refusal | None = None


class AdmissionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts as they are written, UIDs ascending."""

    verdicts: tuple[tuple[Uid, Verdict], ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """How far the remembering is: what the ledger was asked, what is being written."""

    inherited: tuple[OpId, ...] = ()
    """Calls of an earlier incarnation: one of them may still write."""
    recalled: Mapping[Uid, Verdict] | None = None
    """What an earlier life decided on pods that no one owns yet; None before the ledger was read."""
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
    """Of whom a verdict is being written for the first time."""
    write_at: Instant = float("-inf")
    problem: str = ""
    """Why the verdicts could not be read or written, for people."""
    damaged: str = ""
    """That they were lost, to be told as an event of the node."""


def encoded(verdicts: Mapping[Uid, Verdict]) -> bytes:
    """Return the bytes that say these verdicts."""
    return msgspec.msgpack.encode(
        AdmissionRecord(verdicts=tuple(sorted(verdicts.items(), key=lambda row: row[0])))
    )


def decoded(data: bytes | None) -> Mapping[Uid, Verdict] | None:
    """Return the verdicts that were written, none where nothing was, None for bytes of an unknown shape."""
    if data is None:
        return {}
    try:
        return dict(msgspec.msgpack.decode(data, type=ready(AdmissionRecord)).verdicts)
    except msgspec.DecodeError:
        return None
