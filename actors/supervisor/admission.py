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
from actors.supervisor.standing import ENDED, is_to_stop, is_unheard
from actors.supervisor.state import PodEntry, Preemption, Quarantined, SupervisorState
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
        waiting = [work.entries[uid] for uid in work.members["open"]]
        if waiting:
            state = restore(state, work, waiting)
            fresh = [work.entries[uid] for uid in work.members["open"]]
            state = decide_on(state, work, fresh, now) if fresh else state
    return state


def is_ready(state: SupervisorState) -> bool:
    """Tell whether enough is known to decide on anything."""
    return state.book.recalled is not None and state.book.described and state.runtime.listed is not None


def give_back(state: SupervisorState, work: Work) -> SupervisorState:
    """Give back the verdicts of those whom no source describes, as far as they are in entry: what they take counts.

    The actor of a pod may live on while the supervisor begins anew, and be heard before the source of its pod.
    """
    for uid in tuple(state.book.recalled or ()):
        entry = work.entries.get(uid)
        if entry is not None and entry.admission.verdict is None and entry.desired.pod is None:
            state, after = claimed(state, entry)
            work.put(after)
    return state


def restore(state: SupervisorState, work: Work, waiting: list[PodEntry]) -> SupervisorState:
    """Give back the verdicts of an earlier life, and one to whatever runs or has ended already."""
    for entry in waiting:
        if entry.desired.pod is None:
            continue
        state, after = claimed(state, entry)
        if after.admission.verdict is None and is_past_judging(state, entry, entry.desired.pod):
            given = replace(entry.admission, verdict=accepted(entry.desired.pod), kept=True)
            after = replace(entry, admission=given)
            state = replace(state, book=replace(state.book, edition=state.book.edition + 1))
        if after is not entry:
            work.put(after)
    return state


def is_past_judging(state: SupervisorState, entry: PodEntry, pod: Pod) -> bool:
    """Tell whether a pod runs, has ended or is to end: nothing is decided on it any more.

    One that is being brought up was admitted, though that may be written nowhere: its actor was told so, and lives on.
    """
    over = pod.status.phase in TERMINAL or pod.metadata.deletion_timestamp is not None
    told = entry.reported.life in (PodLife.SYNCING, PodLife.TERMINATING, *ENDED)
    return over or told or runs(state, entry.uid)


def claimed(state: SupervisorState, entry: PodEntry) -> tuple[SupervisorState, PodEntry]:
    """Return the entry with what an earlier life decided on it, which is looked up once."""
    recalled = state.book.recalled or {}
    verdict = recalled.get(entry.uid)
    if verdict is None:
        return state, entry
    left = dict(recalled)
    del left[entry.uid]
    return replace(state, book=replace(state.book, recalled=left)), replace(
        entry, admission=replace(entry.admission, verdict=verdict, kept=True)
    )


def runs(state: SupervisorState, uid: Uid) -> bool:
    """Tell whether the runtime shows something of the pod alive, as of a listing that says something about it."""
    listed = state.runtime.listed
    if listed is None or listed.as_of <= state.runtime.ended.get(uid, float("-inf")):
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


def decide_on(state: SupervisorState, work: Work, fresh: list[PodEntry], now: Instant) -> SupervisorState:
    """Judge pods one after the other, each beside those before it."""
    house = house_of(state, work)
    edition = state.book.edition
    for entry in sorted(fresh, key=precedence):
        pod = entry.desired.pod
        assert pod is not None
        if entry.is_static and not entry.has_actor and not may_start(state, entry, work):
            continue
        claim = claim_of(pod.spec)
        name = full_name(pod)
        kept_out = refused_under(pod, state.pressure.conditions, spares_static=state.pressure.spares_static)
        verdict = judge(pod, claim, state.node, house) if kept_out is None else Refused(refusal=kept_out)
        if isinstance(verdict, Waiting):
            # Its room is promised, but there is nothing of it that could be stopped for others.
            house = house.plus(Tenant(uid=entry.uid, name=name, claim=claim))
            house = push_aside(work, verdict, house)
            work.put(replace(entry, admission=replace(entry.admission, waits=verdict.why)))
            continue
        decided = accepted(pod)
        if isinstance(verdict, Refused):
            if verdict.scarce and entry.is_static and not is_settled(entry, work, now):
                held = f"room on the node, or else it is refused: {verdict.refusal.message}"
                since = now if entry.admission.scarce_since is None else entry.admission.scarce_since
                waiting = replace(entry.admission, waits=held, scarce_since=since)
                work.put(replace(entry, admission=waiting))
                continue
            decided = Verdict(name=name, refusal=verdict.refusal)
        else:
            assert isinstance(verdict, Admitted)
            house = house.plus(Tenant(uid=entry.uid, name=name, claim=claim, pod=pod))
        made = replace(entry.admission, verdict=decided, kept=False, fresh=True, waits="")
        work.put(replace(entry, admission=made))
        edition += 1
    return replace(state, book=replace(state.book, edition=edition))


def is_settled(entry: PodEntry, work: Work, now: Instant) -> bool:
    """Tell whether a static pod has found no room for so long that it is refused for that.

    Manifests that are exchanged together are seen one by one: who is to make room may be seen to go a moment later.
    """
    since = now if entry.admission.scarce_since is None else entry.admission.scarce_since
    if now >= since + SETTLE_S:
        return True
    work.settling.append(since + SETTLE_S)
    return False


def precedence(entry: PodEntry) -> tuple[int, int]:
    """Return what pods without a verdict are sorted by: critical priorities first, then as they came."""
    pod = entry.desired.pod
    return (-priority_of(pod) if pod is not None and is_of_critical_priority(pod) else 0, entry.desired.order)


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
        work.put(replace(work.entries[uid], preemption=Preemption(message=kill)))
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
    """Yield who takes something of the node: those in entry, and those of whom no source has spoken yet."""
    for entry in sorted(
        (work.entries[uid] for uid in work.members["housed"]), key=lambda one: one.desired.order
    ):
        verdict = entry.admission.verdict
        assert verdict is not None
        ending = entry.desired.pod is None or is_to_stop(entry)
        yield Tenant(
            uid=entry.uid,
            name=verdict.name,
            claim=joined(entry.admission.held, verdict.claim)
            if entry.admission.held is not None
            else verdict.claim,
            leaving=is_unheard(entry) or ending or entry.reported.life is PodLife.TERMINATING,
            pod=None if isinstance(entry.actor, Quarantined) else entry.desired.pod,
        )
    for uid, verdict in (state.book.recalled or {}).items():
        if verdict.refusal is None and uid not in work.entries:
            yield Tenant(uid=uid, name=verdict.name, claim=verdict.claim, leaving=True)
