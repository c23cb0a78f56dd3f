"""What was decided on pods, and the one page of the ledger that remembers it.

Decided once per UID and durable before the pod's actor is told: a restart of the agent changes no verdict, and a pod that
was given room keeps it. One page for all pods, so that a hundred that come together cost one write, which goes on beside
the first looks of their actors.
"""

from collections.abc import Mapping

import msgspec

from actors.rules.nodewatch import NEVER_ASKED
from actors.rules.resources.allocation import Allocated
from actors.rules.resources.request import Claim
from api.decoding import ready
from api.ids import Instant, OpId, Uid
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
    """The page as it is written, UIDs ascending."""

    verdicts: tuple[tuple[Uid, Verdict], ...] = ()


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """How far the remembering is: what the ledger and NodeManager were asked, what is being written."""

    inherited: tuple[OpId, ...] = ()
    """Calls of an earlier incarnation: one of them may still write the page."""
    recalled: Mapping[Uid, Verdict] | None = None
    """What an earlier life decided and nobody has asked for yet; None before the ledger was read."""
    recall_op: OpId | None = None
    recall_at: Instant = float("-inf")
    recall_failures: int = 0
    described: bool = False
    """It is known what the node is."""
    node_asked_at: Instant = NEVER_ASKED
    """When that was asked last."""
    edition: int = 0
    """Counts changes of what the page is to say."""
    written: int = 0
    """The edition that the ledger holds."""
    write_op: OpId | None = None
    writing: int = 0
    writing_uids: tuple[Uid, ...] = ()
    """Of whom a verdict is being written for the first time."""
    write_at: Instant = float("-inf")
    problem: str = ""
    """Why the page could not be read or written, for people."""
    damaged: str = ""
    """That the page was lost, to be told as an event of the node."""


def encoded(verdicts: Mapping[Uid, Verdict]) -> bytes:
    """Return the page that says these verdicts."""
    return msgspec.msgpack.encode(
        AdmissionRecord(verdicts=tuple(sorted(verdicts.items(), key=lambda row: row[0])))
    )


def decoded(data: bytes | None) -> Mapping[Uid, Verdict] | None:
    """Return the verdicts of a page, none where there is no page, None for one of an unknown shape."""
    if data is None:
        return {}
    try:
        return dict(msgspec.msgpack.decode(data, type=ready(AdmissionRecord)).verdicts)
    except msgspec.DecodeError:
        return None
