"""What AdmissionManager knows: the pods to decide on, those that take something of the node, and what it has decided."""

from collections.abc import Mapping

import msgspec

from actors.admission.verdict import Record, Verdict
from actors.rules.nodewatch import NEVER_ASKED
from actors.rules.resources.request import Claim
from api.ids import Instant, Uid
from api.messages.admission import Allocated, NodePressure, PodToAdmit
from api.messages.pod import Resize
from api.ports.node import NodeFacts


class AdmissionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How far the admission of one pod is."""

    row: PodToAdmit
    """What the supervisor says of it."""
    verdict: Verdict | None = None
    """What was decided; None while it is open."""
    kept: bool = False
    """The ledger holds the verdict, or would not take it: the supervisor may be told."""
    fresh: bool = False
    """This incarnation decided: nothing of the pod can have ended before."""
    waits: str = ""
    """What the verdict waits for."""
    scarce_since: Instant | None = None
    """Since when there is no room for it."""
    resize: Resize | None = None
    """Why it does not have the amounts that it asks for."""
    asked: tuple[Allocated, ...] = ()
    """What it asked for when it was decided on last."""
    held: Claim | None = None
    """What its containers may still have of an earlier allocation, until its actor says otherwise."""
    preempted: bool = False
    """It must make room for a critical pod."""
    generation: int = -1
    """Of the last answer about it."""
    sent: int = -1
    """Generation of the answer that the supervisor was sent last."""

    @property
    def uid(self) -> Uid:
        """Return the pod's UID."""
        return self.row.uid


class AdmissionIndex(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods each question is about, so that a change of one pod has no one walk over all of them."""

    open: Mapping[Uid, None] = {}
    """Those who wait for their verdict."""
    housed: Mapping[Uid, None] = {}
    """Those who take something of the node."""
    resizing: Mapping[Uid, None] = {}
    """Those who ask for other amounts than they have, or did."""
    unkept: Mapping[Uid, None] = {}
    """Those whose verdict the ledger does not hold yet."""
    unsent: Mapping[Uid, None] = {}
    """Those whose answer the supervisor was not sent."""
    preempting: Mapping[Uid, None] = {}
    """Those whom the supervisor does not know yet to make room."""


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of others besides the ledger."""

    node_at: Instant = NEVER_ASKED
    """When the node's facts were asked for last."""
    preempt_at: Instant = float("-inf")
    """When those that must make room are named again."""
    preempted: tuple[Uid, ...] = ()
    """Who was named last."""


class AdmissionState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that AdmissionManager knows."""

    epoch: int = 0
    """Its incarnation: generations of a later one are greater than all before."""
    next_generation: int = 0
    supervisor_epoch: int | None = None
    """Incarnation of the supervisor whose pods these are; None before all pods were heard of."""
    recall_due: bool = False
    """The supervisor waits to be told which verdicts no one owns."""
    pods: Mapping[Uid, AdmissionEntry] = {}
    index: AdmissionIndex = AdmissionIndex()
    room_due: bool = True
    """Something has changed on which it depends who is admitted or resized."""
    admit_at: Instant | None = None
    """When that is decided again though nothing changes."""
    node: NodeFacts = NodeFacts()
    """What the node has and is called; not wholly known before it was asked."""
    described: bool = False
    """It is known what the node is."""
    asking: Asking = Asking()
    record: Record = Record()
    pressure: NodePressure = NodePressure()
    """What the node is short of."""

    @property
    def is_ready(self) -> bool:
        """Return whether enough is known to decide on anything."""
        return self.record.recalled is not None and self.described and self.supervisor_epoch is not None
