"""Resizes: a pod that requests other amounts than its allocation gets them when there is room (reference section 14).

The pod's actor works with the allocation; it changes only here, and is stored before it is sent to the supervisor.
Smaller claims go first, then those that came first. What a pod gives back is free only once its actor reports that its
containers are confined by less.
"""

from msgspec.structs import replace

from actors.admission.admit import pods_on_node
from actors.admission.amount import grows, joined
from actors.admission.fit import ResourceSum, shortages
from actors.admission.judge import PodsOnNode, shortage_details
from actors.admission.state import AdmissionEntry, AdmissionState
from actors.admission.work import AdmissionWork, is_asking
from actors.rules.resources.request import Claim
from api.messages.pod import Resize

DEFERRED = "Deferred"
INFEASIBLE = "Infeasible"


def resize(state: AdmissionState, work: AdmissionWork) -> None:
    """Resize every pod that requests other amounts and fits, and record why the others do not."""
    asking = []
    for entry in work.named("resizing"):
        if is_asking(entry):
            asking.append(entry)
        else:
            assert entry.verdict is not None
            work.answer(replace(entry, resize=None), entry.verdict.allocated)
    on_node = pods_on_node(work) if asking else PodsOnNode()
    for entry in sorted(asking, key=resize_order):
        on_node = decide_resize(state, work, entry, on_node)


def resize_order(entry: AdmissionEntry) -> tuple[bool, int]:
    """Return the sort key of resizes: those that do not grow first, then as they came."""
    assert entry.verdict is not None
    assert entry.requested is not None
    return grows(entry.verdict.claim, entry.requested.claim), entry.row.order


def decide_resize(
    state: AdmissionState, work: AdmissionWork, entry: AdmissionEntry, on_node: PodsOnNode
) -> PodsOnNode:
    """Decide on the resize of one pod, next to all others."""
    requested, verdict = entry.requested, entry.verdict
    assert requested is not None
    assert verdict is not None
    claim, asked = requested.claim, requested.allocated
    others = on_node.without(entry.uid)
    obstacle = obstacle_to(state, verdict.claim, claim, others)
    if obstacle is not None:
        if obstacle != entry.resize or asked != entry.asked:
            work.answer(replace(entry, resize=obstacle), asked)
        return on_node
    # What its containers have until they are confined by the new amounts is not free yet.
    held = joined(entry.held or verdict.claim, verdict.claim)
    given = replace(verdict, claim=claim, allocated=asked)
    work.edition += 1
    work.answer(replace(entry, verdict=given, held=held, kept=False, resize=None), asked)
    resized = next((one for one in on_node.pods if one.uid == entry.uid), None)
    return others.plus(replace(resized, claim=joined(held, claim))) if resized is not None else on_node


def obstacle_to(state: AdmissionState, before: Claim, claim: Claim, others: PodsOnNode) -> Resize | None:
    """Return why a pod cannot be resized (now), None when it can."""
    if not grows(before, claim):
        return None
    never = shortages(claim, ResourceSum(), state.node)
    if never:
        short = never[0]
        return Resize(
            reason=INFEASIBLE,
            message=f"Node didn't have enough capacity: {short.resource}, requested: {short.asked},"
            f" capacity: {short.capacity}",
            advice=("the node will never have that much; request less in the manifest",),
        )
    now = shortages(claim, others.load, state.node)
    if not now:
        return None
    return Resize(reason=DEFERRED, message=now[0].sentence(), advice=shortage_details(now[0], others))
