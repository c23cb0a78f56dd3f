"""What AdmissionManager knows: the pods to decide on, those with a claim on the node, and its verdicts."""

from collections.abc import Mapping

import msgspec

from actors.admission.verdict import Record, Verdict
from actors.rules.nodewatch import NEVER_ASKED
from actors.rules.resources.request import Claim
from api.ids import Instant, OpId, Uid
from api.messages.admission import Allocated, NodePressure, PodToAdmit
from api.messages.pod import Resize
from api.ports.node import NodeFacts


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """What the spec of a pod requests."""

    claim: Claim
    allocated: tuple[Allocated, ...]
    """What its containers would be allocated."""


class AdmissionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How far the admission of one pod is."""

    row: PodToAdmit
    """The supervisor's row."""
    requested: Requested | None = None
    """By the row's pod; None when no source describes it."""
    verdict: Verdict | None = None
    """None while undecided."""
    kept: bool = False
    """The ledger holds the verdict, or failed to write it: it may be sent to the supervisor."""
    fresh: bool = False
    """This incarnation decided: nothing of the pod can have ended before."""
    waits: str = ""
    """What the verdict waits for."""
    scarce_since: Instant | None = None
    """Since when there is no room for it."""
    misplaced_since: Instant | None = None
    """Since when the node's labels or taints, as they are known, keep it out."""
    resize: Resize | None = None
    """Why it does not have the amounts that it requests."""
    asked: tuple[Allocated, ...] = ()
    """What it requested when it was last decided on."""
    held: Claim | None = None
    """What its containers may still have of an earlier allocation, until its actor reports otherwise."""
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
    """Pods by question, so that a change of one pod costs no walk over all of them."""

    open: Mapping[Uid, None] = {}
    """Pods that wait for their verdict."""
    on_node: Mapping[Uid, None] = {}
    """Pods with a claim on the node."""
    resizing: Mapping[Uid, None] = {}
    """Pods that request other amounts than they have, or did."""
    unkept: Mapping[Uid, None] = {}
    """Pods whose verdict the ledger does not hold yet."""
    unsent: Mapping[Uid, None] = {}
    """Pods whose answer was not sent to the supervisor."""
    preempting: Mapping[Uid, None] = {}
    """Pods whose preemption the supervisor has not confirmed."""


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """Requests to other actors."""

    node_at: Instant = NEVER_ASKED
    """When the node's facts were last requested."""
    preempt_at: Instant = float("-inf")
    """When the preemptions are requested again."""
    preempted: tuple[Uid, ...] = ()
    """The pods of the last request."""


class NodeReading(msgspec.Struct, frozen=True, kw_only=True):
    """The read of the API server's Node that pods wait for."""

    op: OpId | None = None
    read_at: Instant = float("-inf")
    """When the last read began that has ended."""


class AdmissionState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that AdmissionManager knows."""

    epoch: int = 0
    """Its incarnation: generations of a later one are greater than all before."""
    next_generation: int = 0
    supervisor_epoch: int | None = None
    """Incarnation of the supervisor whose pods these are; None before it has sent all pods."""
    recall_due: bool = False
    """The supervisor waits for the verdicts that no one owns."""
    pods: Mapping[Uid, AdmissionEntry] = {}
    index: AdmissionIndex = AdmissionIndex()
    room_due: bool = True
    """Something has changed on which admissions or resizes depend."""
    admit_at: Instant | None = None
    """When admission is evaluated again without a change."""
    node: NodeFacts = NodeFacts()
    """The node's facts; incomplete before `described`."""
    described: bool = False
    """The node's facts were received."""
    asking: Asking = Asking()
    reading: NodeReading = NodeReading()
    record: Record = Record()
    pressure: NodePressure = NodePressure()
    """The node's pressure conditions."""

    @property
    def is_ready(self) -> bool:
        """Return whether enough is known to decide on anything."""
        return self.record.recalled is not None and self.described and self.supervisor_epoch is not None
