"""Resizes: a pod that asks for other amounts than it was given gets them when there is room (reference section 14).

Allocated is what the pod's actor works with; it changes only here, and the page of verdicts holds it before the actor is
told. Smaller claims go first, then those that came first. What a pod gives back is free only once its actor says that
its containers are confined by less.
"""

from msgspec.structs import replace

from actors.rules.resources.admission import House, shares
from actors.rules.resources.allocation import allocated_of, grows, joined
from actors.rules.resources.fit import ResourceSum, shortages
from actors.rules.resources.request import Claim, claim_of
from actors.supervisor.admission import house_of, is_ready
from actors.supervisor.standing import is_asking
from actors.supervisor.state import PodEntry, SupervisorState
from actors.supervisor.work import Work
from api.messages.pod import Resize

DEFERRED = "Deferred"
INFEASIBLE = "Infeasible"


def resize(state: SupervisorState, work: Work) -> SupervisorState:
    """Give every pod that asks for other amounts what there is room for, or say why not."""
    if not is_ready(state):
        return state
    asking = []
    for uid in tuple(work.members["resizing"]):
        entry = work.entries[uid]
        if is_asking(entry):
            asking.append(entry)
        elif entry.admission.resize is not None:
            work.put(sent_again(replace(entry, admission=replace(entry.admission, resize=None))))
    house = house_of(state, work) if asking else House()
    for entry in sorted(asking, key=urgency):
        state, house = settle(state, work, entry, house)
    return state


def sent_again(entry: PodEntry) -> PodEntry:
    """Return the entry as one whose actor must be sent what has changed."""
    return replace(entry, desired=replace(entry.desired, revision=entry.desired.revision + 1))


def urgency(entry: PodEntry) -> tuple[bool, int]:
    """Return what askers are sorted by: those that do not grow first, then as they came."""
    assert entry.admission.verdict is not None
    assert entry.desired.pod is not None
    return grows(entry.admission.verdict.claim, claim_of(entry.desired.pod.spec)), entry.desired.order


def settle(
    state: SupervisorState, work: Work, entry: PodEntry, house: House
) -> tuple[SupervisorState, House]:
    """Decide on one pod, beside everybody else."""
    pod, verdict = entry.desired.pod, entry.admission.verdict
    assert pod is not None
    assert verdict is not None
    claim = claim_of(pod.spec)
    others = house.without(entry.uid)
    answer = obstacle(state, entry, claim, others)
    if answer is not None:
        if answer != entry.admission.resize:
            work.put(sent_again(replace(entry, admission=replace(entry.admission, resize=answer))))
        return state, house
    # What its containers have until they are confined otherwise is not free yet.
    held = joined(entry.admission.held or verdict.claim, verdict.claim)
    given = replace(
        entry.admission,
        verdict=replace(verdict, claim=claim, allocated=allocated_of(pod.spec)),
        held=held,
        kept=False,
        resize=None,
    )
    work.put(sent_again(replace(entry, admission=given)))
    book = replace(state.book, edition=state.book.edition + 1)
    tenant = next((one for one in house.tenants if one.uid == entry.uid), None)
    after = others.plus(replace(tenant, claim=joined(held, claim))) if tenant is not None else house
    return replace(state, book=book), after


def obstacle(state: SupervisorState, entry: PodEntry, claim: Claim, others: House) -> Resize | None:
    """Return why a pod cannot have other amounts (now), None when it can."""
    assert entry.admission.verdict is not None
    if not grows(entry.admission.verdict.claim, claim):
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
