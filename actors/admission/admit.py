"""Who is admitted, and when: walks the pods without a verdict, critical ones first, then as they came.

What was decided by an earlier life of the agent stays, and what runs is never refused. Everybody counts who may still
have a running container, also those who are being stopped and those whom no source wants any more; who has ended or was
refused does not. A pod that would fit once others have ended waits for that, and its room is kept from those behind it.
Nothing here waits: whatever may change the answer has the pods looked at again.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from actors.admission.amount import joined
from actors.admission.judge import Admitted, House, Refused, Tenant, Waiting, judge
from actors.admission.pressure import refused_under
from actors.admission.state import AdmissionEntry, AdmissionState
from actors.admission.turn import AdmissionTurn, is_leaving
from actors.admission.verdict import Verdict
from actors.rules.resources.allocation import allocated_of
from actors.rules.resources.request import claim_of, is_of_critical_priority, priority_of
from api.ids import Instant
from api.kube.objects.pod import Pod

SETTLE_S = 1.0


def admit(state: AdmissionState, turn: AdmissionTurn, now: Instant) -> None:
    """Decide on every pod on which that can be done now."""
    for entry in turn.named("open"):
        if entry.row.settled and entry.row.pod is not None:
            # It was admitted, though that may be written nowhere: what it takes counts from now on.
            verdict = accepted(entry.row.name, entry.row.pod)
            turn.edition += 1
            turn.answer(replace(entry, verdict=verdict, kept=True, waits=""), verdict.allocated)
    fresh = turn.named("open")
    if fresh:
        decide_on(state, turn, fresh, now)


def accepted(name: str, pod: Pod) -> Verdict:
    """Return the verdict that a pod may run."""
    return Verdict(name=name, claim=claim_of(pod.spec), allocated=allocated_of(pod.spec))


def decide_on(state: AdmissionState, turn: AdmissionTurn, fresh: list[AdmissionEntry], now: Instant) -> None:
    """Judge pods one after the other, each beside those before it."""
    house = house_of(turn)
    pressure = state.pressure
    for entry in sorted(fresh, key=precedence):
        pod, name = entry.row.pod, entry.row.name
        assert pod is not None
        claim = claim_of(pod.spec)
        kept_out = refused_under(pod, pressure.conditions, spares_static=pressure.spares_static)
        verdict = judge(pod, claim, state.node, house) if kept_out is None else Refused(refusal=kept_out)
        if isinstance(verdict, Waiting):
            # Its room is promised, but there is nothing of it that could be stopped for others.
            house = house.plus(Tenant(uid=entry.uid, name=name, claim=claim))
            house = preempt(turn, verdict, house)
            turn.put(replace(entry, waits=verdict.why))
            continue
        decided = accepted(name, pod)
        if isinstance(verdict, Refused):
            if verdict.scarce and entry.row.static and not is_settled(entry, turn, now):
                held = f"room on the node, or else it is refused: {verdict.refusal.message}"
                since = now if entry.scarce_since is None else entry.scarce_since
                turn.put(replace(entry, waits=held, scarce_since=since))
                continue
            decided = Verdict(name=name, refusal=verdict.refusal)
        else:
            assert isinstance(verdict, Admitted)
            house = house.plus(Tenant(uid=entry.uid, name=name, claim=claim, pod=pod))
        turn.edition += 1
        turn.judged.append((entry.uid, entry.row.number))
        judged = replace(entry, verdict=decided, kept=False, fresh=True, waits="")
        turn.answer(judged, decided.allocated)


def is_settled(entry: AdmissionEntry, turn: AdmissionTurn, now: Instant) -> bool:
    """Return whether a static pod has found no room for so long that it is refused for that.

    Manifests that are exchanged together are seen one by one: who is to make room may be seen to go a moment later.
    """
    since = now if entry.scarce_since is None else entry.scarce_since
    if now >= since + SETTLE_S:
        return True
    turn.settling.append(since + SETTLE_S)
    return False


def precedence(entry: AdmissionEntry) -> tuple[int, int]:
    """Return what pods without a verdict are sorted by: critical priorities first, then as they came."""
    pod = entry.row.pod
    return (-priority_of(pod) if pod is not None and is_of_critical_priority(pod) else 0, entry.row.order)


def preempt(turn: AdmissionTurn, verdict: Waiting, house: House) -> House:
    """Note whom a critical pod needs stopped; from now on these are leaving."""
    if not verdict.victims:
        return house
    for uid in verdict.victims:
        turn.put(replace(turn.pods[uid], preempted=True))
    after = House()
    for tenant in house.tenants:
        after = after.plus(replace(tenant, leaving=True) if tenant.uid in verdict.victims else tenant)
    return after


def house_of(turn: AdmissionTurn) -> House:
    """Return everybody who takes something of the node."""
    house = House()
    for tenant in tenants(turn):
        house = house.plus(tenant)
    return house


def tenants(turn: AdmissionTurn) -> Iterator[Tenant]:
    """Yield who takes something of the node: those that are known, and those of whom no source has spoken yet."""
    for entry in sorted(turn.named("housed"), key=lambda one: one.row.order):
        verdict = entry.verdict
        assert verdict is not None
        yield Tenant(
            uid=entry.uid,
            name=verdict.name,
            claim=joined(entry.held, verdict.claim) if entry.held is not None else verdict.claim,
            leaving=is_leaving(entry),
            pod=entry.row.pod if entry.row.stoppable else None,
        )
    for uid, verdict in (turn.recalled or {}).items():
        if verdict.refusal is None:
            yield Tenant(uid=uid, name=verdict.name, claim=verdict.claim, leaving=True)
