"""Resizes: a pod that asks for other amounts than it was given gets them when there is room (reference section 14).

Allocated is what the pod's actor works with; it changes only here, and the ledger holds it before the supervisor is told.
Smaller claims go first, then those that came first. What a pod gives back is free only once its actor says that its
containers are confined by less.
"""

from msgspec.structs import replace

from actors.admission.admit import house_of
from actors.admission.amount import grows, joined
from actors.admission.fit import ResourceSum, shortages
from actors.admission.judge import House, shares
from actors.admission.state import AdmissionEntry, AdmissionState
from actors.admission.turn import AdmissionTurn, is_asking
from actors.rules.resources.allocation import allocated_of
from actors.rules.resources.request import Claim, claim_of
from api.messages.pod import Resize

DEFERRED = "Deferred"
INFEASIBLE = "Infeasible"


def resize(state: AdmissionState, turn: AdmissionTurn) -> None:
    """Give every pod that asks for other amounts what there is room for, or say why not."""
    asking = []
    for entry in turn.named("resizing"):
        if is_asking(entry):
            asking.append(entry)
        else:
            assert entry.verdict is not None
            turn.answer(replace(entry, resize=None), entry.verdict.allocated)
    house = house_of(turn) if asking else House()
    for entry in sorted(asking, key=urgency):
        house = settle(state, turn, entry, house)


def urgency(entry: AdmissionEntry) -> tuple[bool, int]:
    """Return what askers are sorted by: those that do not grow first, then as they came."""
    assert entry.verdict is not None
    assert entry.row.pod is not None
    return grows(entry.verdict.claim, claim_of(entry.row.pod.spec)), entry.row.order


def settle(state: AdmissionState, turn: AdmissionTurn, entry: AdmissionEntry, house: House) -> House:
    """Decide on one pod, beside everybody else."""
    pod, verdict = entry.row.pod, entry.verdict
    assert pod is not None
    assert verdict is not None
    claim, asked = claim_of(pod.spec), allocated_of(pod.spec)
    others = house.without(entry.uid)
    obstacle = obstacle_to(state, verdict.claim, claim, others)
    if obstacle is not None:
        if obstacle != entry.resize or asked != entry.asked:
            turn.answer(replace(entry, resize=obstacle), asked)
        return house
    # What its containers have until they are confined otherwise is not free yet.
    held = joined(entry.held or verdict.claim, verdict.claim)
    given = replace(verdict, claim=claim, allocated=asked)
    turn.edition += 1
    turn.answer(replace(entry, verdict=given, held=held, kept=False, resize=None), asked)
    tenant = next((one for one in house.tenants if one.uid == entry.uid), None)
    return others.plus(replace(tenant, claim=joined(held, claim))) if tenant is not None else house


def obstacle_to(state: AdmissionState, before: Claim, claim: Claim, others: House) -> Resize | None:
    """Return why a pod cannot have other amounts (now), None when it can."""
    if not grows(before, claim):
        return None
    never = shortages(claim, ResourceSum(), state.node)
    if never:
        short = never[0]
        return Resize(
            reason=INFEASIBLE,
            message=f"Node didn't have enough capacity: {short.resource}, requested: {short.asked},"
            f" capacity: {short.capacity}",
            advice=(
                "the node will never have that much: a manifest that asks for less takes the resize back",
            ),
        )
    now = shortages(claim, others.load, state.node)
    if not now:
        return None
    return Resize(reason=DEFERRED, message=now[0].sentence(), advice=shares(now[0], others))
