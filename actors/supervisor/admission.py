"""Who is admitted, and when: walks the pods without a verdict, critical ones first, then as they came.

What was decided by an earlier life of the agent stays, and what runs is never refused. Everybody counts who may still
have a running container, also those who are being stopped and those whom nobody wants any more; who has ended or was
refused does not. A pod that would fit once others have ended waits for that, and its room is kept from those behind it.
Nothing here waits: whatever may change the answer has the supervisor look again.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from actors.rules.resources.admission import Admitted, House, Refused, Tenant, Waiting, judge
from actors.rules.resources.allocation import allocated_of, joined
from actors.rules.resources.pressure import refused_under
from actors.rules.resources.request import claim_of, is_of_critical_priority, priority_of
from actors.supervisor.gate import by_uid, may_start
from actors.supervisor.standing import ENDED, is_unheard
from actors.supervisor.state import Charge, SupervisorState
from actors.supervisor.verdict import Verdict
from actors.supervisor.work import Work
from api import paths
from api.ids import Instant, Uid
from api.kube.objects.pod import Pod
from api.messages.pod import KillCause, KillPod
from api.messages.supervisor import PodLife

TERMINAL = ("Succeeded", "Failed")
SETTLE_S = 1.0
PREEMPTING = "Preempting"
PREEMPTED = "Preempted in order to admit critical pod"


def admit(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Decide on every pod on which that can be done now."""
    if is_ready(state):
        state = give_back(state, work)
        waiting = [work.charges[uid] for uid in work.members["open"]]
        if waiting:
            state = restore(state, work, waiting)
            fresh = [work.charges[uid] for uid in work.members["open"]]
            state = decide_on(state, work, fresh, now) if fresh else state
    return state


def is_ready(state: SupervisorState) -> bool:
    """Tell whether enough is known to decide on anything."""
    return state.book.recalled is not None and state.book.described and state.listed is not None


def give_back(state: SupervisorState, work: Work) -> SupervisorState:
    """Give back the verdicts of those whom no source describes, as far as they are in charge: what they take counts.

    The actor of a pod may live on while the supervisor begins anew, and be heard before the source of its pod.
    """
    for uid in tuple(state.book.recalled or ()):
        charge = work.charges.get(uid)
        if charge is not None and charge.verdict is None and charge.pod is None:
            state, after = claimed(state, charge)
            work.put(after)
    return state


def restore(state: SupervisorState, work: Work, waiting: list[Charge]) -> SupervisorState:
    """Give back the verdicts of an earlier life, and one to whatever runs or has ended already."""
    for charge in waiting:
        if charge.pod is None:
            continue
        state, after = claimed(state, charge)
        if after.verdict is None and is_past_judging(state, charge, charge.pod):
            after = replace(charge, verdict=accepted(charge.pod), kept=True)
            state = replace(state, book=replace(state.book, edition=state.book.edition + 1))
        if after is not charge:
            work.put(after)
    return state


def is_past_judging(state: SupervisorState, charge: Charge, pod: Pod) -> bool:
    """Tell whether a pod runs, has ended or is to end: nothing is decided on it any more.

    One that is being brought up was admitted, though that may be written nowhere: its actor was told so, and lives on.
    """
    over = pod.status.phase in TERMINAL or pod.metadata.deletion_timestamp is not None
    told = charge.life in (PodLife.SYNCING, PodLife.TERMINATING, *ENDED)
    return over or told or runs(state, charge.uid)


def claimed(state: SupervisorState, charge: Charge) -> tuple[SupervisorState, Charge]:
    """Return the charge with what an earlier life decided on it, which is looked up once."""
    recalled = state.book.recalled or {}
    verdict = recalled.get(charge.uid)
    if verdict is None:
        return state, charge
    left = dict(recalled)
    del left[charge.uid]
    return replace(state, book=replace(state.book, recalled=left)), replace(
        charge, verdict=verdict, kept=True
    )


def runs(state: SupervisorState, uid: Uid) -> bool:
    """Tell whether the runtime shows something of the pod alive, as of a listing that says something about it."""
    listed = state.listed
    if listed is None or listed.as_of <= state.ended.get(uid, float("-inf")):
        return False
    shown = by_uid(listed).get(uid)
    return shown is not None and shown.alive and (shown.ours or state.take_over)


def accepted(pod: Pod) -> Verdict:
    """Return the verdict that a pod may run."""
    return Verdict(name=full_name(pod), claim=claim_of(pod.spec), allocated=allocated_of(pod.spec))


def full_name(pod: Pod) -> str:
    """Return ``namespace/name``."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


# those on whom nothing was decided yet


def decide_on(state: SupervisorState, work: Work, fresh: list[Charge], now: Instant) -> SupervisorState:
    """Judge pods one after the other, each beside those before it."""
    house = house_of(state, work)
    edition = state.book.edition
    for charge in sorted(fresh, key=precedence):
        pod = charge.pod
        assert pod is not None
        if charge.is_static and not charge.spawned and not may_start(state, charge, work):
            continue
        claim = claim_of(pod.spec)
        name = full_name(pod)
        kept_out = refused_under(pod, state.pressure.conditions, spares_static=state.pressure.spares_static)
        verdict = judge(pod, claim, state.node, house) if kept_out is None else Refused(refusal=kept_out)
        if isinstance(verdict, Waiting):
            # Its room is promised, but there is nothing of it that could be stopped for others.
            house = house.plus(Tenant(uid=charge.uid, name=name, claim=claim))
            house = push_aside(work, verdict, house)
            work.put(replace(charge, waits=verdict.why))
            continue
        decided = accepted(pod)
        if isinstance(verdict, Refused):
            if verdict.scarce and charge.is_static and not is_settled(charge, work, now):
                held = f"room on the node, or else it is refused: {verdict.refusal.message}"
                since = now if charge.scarce_since is None else charge.scarce_since
                work.put(replace(charge, waits=held, scarce_since=since))
                continue
            decided = Verdict(name=name, refusal=verdict.refusal)
        else:
            assert isinstance(verdict, Admitted)
            house = house.plus(Tenant(uid=charge.uid, name=name, claim=claim, pod=pod))
        work.put(replace(charge, verdict=decided, kept=False, fresh=True, waits=""))
        edition += 1
    return replace(state, book=replace(state.book, edition=edition))


def is_settled(charge: Charge, work: Work, now: Instant) -> bool:
    """Tell whether a static pod has found no room for so long that it is refused for that.

    Manifests that are exchanged together are seen one by one: who is to make room may be seen to go a moment later.
    """
    since = now if charge.scarce_since is None else charge.scarce_since
    if now >= since + SETTLE_S:
        return True
    work.settling.append(since + SETTLE_S)
    return False


def precedence(charge: Charge) -> tuple[int, int]:
    """Return what pods without a verdict are sorted by: critical priorities first, then as they came."""
    pod = charge.pod
    return (-priority_of(pod) if pod is not None and is_of_critical_priority(pod) else 0, charge.order)


def push_aside(work: Work, verdict: Waiting, house: House) -> House:
    """Note whom a critical pod needs stopped; from now on these are leaving."""
    if not verdict.victims:
        return house
    for uid in verdict.victims:
        kill = KillPod(
            uid=uid,
            cause=KillCause.PREEMPTED,
            evict=True,
            reason=PREEMPTING,
            message=PREEMPTED,
            asked_by=paths.PODS,
        )
        work.put(replace(work.charges[uid], preemption=kill))
    after = House()
    for tenant in house.tenants:
        after = after.plus(replace(tenant, leaving=True) if tenant.uid in verdict.victims else tenant)
    return after


def house_of(state: SupervisorState, work: Work) -> House:
    """Return everybody who takes something of the node."""
    house = House()
    for tenant in tenants(state, work):
        house = house.plus(tenant)
    return house


def tenants(state: SupervisorState, work: Work) -> Iterator[Tenant]:
    """Yield who takes something of the node: those in charge, and those of whom no source has spoken yet."""
    for charge in sorted((work.charges[uid] for uid in work.members["housed"]), key=lambda one: one.order):
        verdict = charge.verdict
        assert verdict is not None
        ending = charge.pod is None or charge.kill is not None or charge.preemption is not None
        yield Tenant(
            uid=charge.uid,
            name=verdict.name,
            claim=joined(charge.held, verdict.claim) if charge.held is not None else verdict.claim,
            leaving=is_unheard(charge) or ending or charge.life is PodLife.TERMINATING,
            pod=None if charge.died else charge.pod,
        )
    for uid, verdict in (state.book.recalled or {}).items():
        if verdict.refusal is None and uid not in work.charges:
            yield Tenant(uid=uid, name=verdict.name, claim=verdict.claim, leaving=True)
