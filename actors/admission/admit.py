"""Which pods are admitted, and when: walks the pods without a verdict, critical ones first, then as they came.

Verdicts of an earlier life of the agent stay, and a running pod is never refused. Each pod counts that may still have a
running container, also one that is being stopped or that no source lists any more; one that has ended or was refused does
not. A pod that would fit once others have ended waits for them, and its room is reserved. Each change that may alter a
verdict starts a new evaluation.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from actors.admission.amount import joined
from actors.admission.judge import Admitted, PodOnNode, PodsOnNode, Refused, Waiting, judge
from actors.admission.pressure import refused_under
from actors.admission.reread import must_read
from actors.admission.state import AdmissionEntry, AdmissionState, Requested
from actors.admission.verdict import Verdict
from actors.admission.work import AdmissionWork, is_leaving
from actors.rules.resources.request import is_of_critical_priority, priority_of
from api.ids import Instant

SETTLE_S = 1.0


def admit(state: AdmissionState, work: AdmissionWork, now: Instant) -> None:
    """Decide on every pod on which that can be done now."""
    for entry in work.named("open"):
        if entry.row.settled and entry.requested is not None:
            # It was admitted, though no verdict of it may be stored: its claim counts from now on.
            verdict = admitted_verdict(entry.row.name, entry.requested)
            work.edition += 1
            work.answer(replace(entry, verdict=verdict, kept=True, waits=""), verdict.allocated)
    fresh = work.named("open")
    if fresh:
        decide_on(state, work, fresh, now)


def admitted_verdict(name: str, requested: Requested) -> Verdict:
    """Return the verdict that a pod may run."""
    return Verdict(name=name, claim=requested.claim, allocated=requested.allocated)


def decide_on(state: AdmissionState, work: AdmissionWork, fresh: list[AdmissionEntry], now: Instant) -> None:
    """Judge pods one after the other; each counts for those after it."""
    on_node = pods_on_node(work)
    pressure = state.pressure
    for entry in sorted(fresh, key=admission_order):
        pod, requested, name = entry.row.pod, entry.requested, entry.row.name
        assert pod is not None
        assert requested is not None
        claim = requested.claim
        kept_out = refused_under(pod, pressure.conditions, spares_static=pressure.spares_static)
        verdict = judge(pod, claim, state.node, on_node) if kept_out is None else Refused(refusal=kept_out)
        if isinstance(verdict, Waiting):
            # Its room is reserved; nothing of it can be preempted for others.
            on_node = on_node.plus(PodOnNode(uid=entry.uid, name=name, claim=claim))
            on_node = preempt(work, verdict, on_node)
            work.put(replace(entry, waits=verdict.why))
            continue
        decided = admitted_verdict(name, requested)
        if isinstance(verdict, Refused):
            if must_read(state, entry, verdict):
                work.must_read = True
                waits = f"the Node, read again before it is refused: {verdict.refusal.message}"
                since = now if entry.misplaced_since is None else entry.misplaced_since
                work.put(replace(entry, waits=waits, misplaced_since=since))
                continue
            if verdict.scarce and entry.row.static and not is_settled(entry, work, now):
                held = f"room on the node, or else it is refused: {verdict.refusal.message}"
                since = now if entry.scarce_since is None else entry.scarce_since
                work.put(replace(entry, waits=held, scarce_since=since))
                continue
            decided = Verdict(name=name, refusal=verdict.refusal)
        else:
            assert isinstance(verdict, Admitted)
            on_node = on_node.plus(PodOnNode(uid=entry.uid, name=name, claim=claim, pod=pod))
        work.edition += 1
        work.judged.append((entry.uid, entry.row.number))
        judged = replace(entry, verdict=decided, kept=False, fresh=True, waits="")
        work.answer(judged, decided.allocated)


def is_settled(entry: AdmissionEntry, work: AdmissionWork, now: Instant) -> bool:
    """Return whether a static pod has had no room for `SETTLE_S`, after which it is refused.

    Manifests that are replaced together are seen one by one: the removal that frees the room may follow a moment later.
    """
    since = now if entry.scarce_since is None else entry.scarce_since
    if now >= since + SETTLE_S:
        return True
    work.settling.append(since + SETTLE_S)
    return False


def admission_order(entry: AdmissionEntry) -> tuple[int, int]:
    """Return the sort key of pods without a verdict: critical priorities first, then as they came."""
    pod = entry.row.pod
    return (-priority_of(pod) if pod is not None and is_of_critical_priority(pod) else 0, entry.row.order)


def preempt(work: AdmissionWork, verdict: Waiting, on_node: PodsOnNode) -> PodsOnNode:
    """Mark the victims of a critical pod as preempted and leaving."""
    if not verdict.victims:
        return on_node
    for uid in verdict.victims:
        work.put(replace(work.pods[uid], preempted=True))
    return PodsOnNode.of(
        replace(pod, leaving=True) if pod.uid in verdict.victims else pod for pod in on_node.pods
    )


def pods_on_node(work: AdmissionWork) -> PodsOnNode:
    """Return every pod that has a claim on the node."""
    return PodsOnNode.of(each_pod_on_node(work))


def each_pod_on_node(work: AdmissionWork) -> Iterator[PodOnNode]:
    """Yield the pods with a claim on the node: known ones, and those of an earlier life that no source has listed yet."""
    for entry in sorted(work.named("on_node"), key=lambda one: one.row.order):
        verdict = entry.verdict
        assert verdict is not None
        yield PodOnNode(
            uid=entry.uid,
            name=verdict.name,
            claim=joined(entry.held, verdict.claim) if entry.held is not None else verdict.claim,
            leaving=is_leaving(entry),
            pod=entry.row.pod if entry.row.stoppable else None,
        )
    for uid, verdict in (work.recalled or {}).items():
        if verdict.refusal is None:
            yield PodOnNode(uid=uid, name=verdict.name, claim=verdict.claim, leaving=True)
