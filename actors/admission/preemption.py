"""Which pods a critical pod preempts: as few as suffice, BestEffort before Burstable before Guaranteed.

The kubelet's rule (reference ``pod-lifecycle`` section 12): of each class only what the classes below it leave missing,
greedily the one that comes nearest to what is missing, of equals the one that asks for less memory, then CPU.
"""

import msgspec

from actors.admission.fit import Shortage
from actors.rules.resources.request import Claim, is_critical, priority_of
from api.ids import Uid
from api.kube.objects.pod import Pod

CLASSES = ("BestEffort", "Burstable", "Guaranteed")

Missing = tuple[tuple[str, int], ...]
"""Resource, and how much of it is missing."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that may be preempted."""

    uid: Uid
    claim: Claim
    qos: str


class NoVictimsError(Exception):
    """No set of pods would make enough room; the text says what is missing after all of them."""


Standing = tuple[bool, int]
"""Whether a pod is critical, and its priority."""


def may_preempt(one: Standing, other: Standing) -> bool:
    """Return whether `one` may preempt `other`: a critical pod any that is not critical, else by priority."""
    return (one[0] and not other[0]) or one[1] > other[1]


def standing_of(pod: Pod) -> Standing:
    """Return whether a pod is critical, and its priority."""
    return is_critical(pod), priority_of(pod)


def victims(candidates: tuple[Candidate, ...], short: tuple[Shortage, ...]) -> tuple[Uid, ...]:
    """Return the pods to preempt so that nothing is short. Raises `NoVictimsError` when all of them are not enough."""
    missing: Missing = tuple((one.resource, one.missing) for one in short)
    left = without(missing, candidates)
    if left:
        rows = "".join(f"(res: {resource}, q: {amount}), " for resource, amount in left)
        raise NoVictimsError(f"no set of running pods found to reclaim resources: [{rows}]")
    best_effort, burstable, guaranteed = (
        tuple(one for one in candidates if one.qos == qos) for qos in CLASSES
    )
    third = nearest(guaranteed, without(missing, (*burstable, *best_effort)))
    second = nearest(burstable, without(missing, (*best_effort, *third)))
    first = nearest(best_effort, without(missing, (*second, *third)))
    return tuple(one.uid for one in (*first, *second, *third))


def without(missing: Missing, stopped: tuple[Candidate, ...]) -> Missing:
    """Return what is still missing once these pods are stopped."""
    left = (
        (resource, amount - sum(one.claim.amount(resource) for one in stopped))
        for resource, amount in missing
    )
    return tuple((resource, amount) for resource, amount in left if amount > 0)


def nearest(candidates: tuple[Candidate, ...], missing: Missing) -> tuple[Candidate, ...]:
    """Choose one after the other the pod that leaves least missing, until nothing is."""
    chosen: tuple[Candidate, ...] = ()
    while missing:
        left = (one for one in candidates if one not in chosen)
        best = min(
            left,
            key=lambda one: (distance(one, missing), one.claim.memory_bytes, one.claim.cpu_milli, one.uid),
        )
        chosen = (*chosen, best)
        missing = without(missing, (best,))
    return chosen


def distance(candidate: Candidate, missing: Missing) -> float:
    """Return how far a pod's end leaves what is missing: the sum of squares of what would still be, each as a part."""
    parts = (max(0, amount - candidate.claim.amount(resource)) / amount for resource, amount in missing)
    return sum(part * part for part in parts)
