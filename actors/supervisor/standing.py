"""What is true of one pod entry by itself: which questions it is part of, and what others depend on."""

from actors.rules.resources.allocation import with_allocated
from actors.supervisor.state import Asked, Decided, Judged, NotAsked, PodEntry, Unspawned
from api.messages.eviction import ActivePod
from api.messages.supervisor import PodAdmitted, PodLife

ENDED = (PodLife.TERMINATED, PodLife.FINISHED, PodLife.GONE)
OVER = (PodLife.TERMINATING, *ENDED)
NOTHING_LEFT = (PodLife.FINISHED, PodLife.GONE)
"""A pod whose containers have ended still has its volumes until then; an evicted one what they wrote, for a moment more."""


def stake(entry: PodEntry | None) -> tuple[object, ...]:
    """Return what of a pod others of its name depend on, and what becomes of pods that have no entry."""
    if entry is None:
        return ()
    desired = entry.desired
    return (
        entry.full_name,
        desired.pod is None,
        desired.source,
        desired.order,
        type(entry.actor),
        entry.kill is None,
    )


def admitted(entry: PodEntry) -> PodAdmitted | None:
    """Return with what a pod was admitted, None when it was not."""
    answer = entry.admission.answer if isinstance(entry.admission, Decided) else None
    return answer if isinstance(answer, PodAdmitted) else None


def is_fresh(entry: PodEntry) -> bool:
    """Return whether a pod was decided on since the supervisor began: nothing of it can have ended before."""
    state = entry.admission
    return isinstance(state, Judged) or (isinstance(state, Decided) and state.fresh)


def is_unanswered(entry: PodEntry) -> bool:
    """Return whether admission has still to answer about a pod: whether it may run, or what else it gets."""
    if entry.desired.pod is None or entry.kill is not None:
        return False
    return isinstance(entry.admission, Asked | Judged) or is_awaited(entry)


def is_awaited(entry: PodEntry) -> bool:
    """Return whether admission has still to say what an admitted pod gets that asks for other amounts now."""
    answer = admitted(entry)
    if answer is None or entry.desired.pod is None or is_to_stop(entry) or entry.reported.life in OVER:
        return False
    return entry.desired.requested != answer.asked


def is_unheard(entry: PodEntry) -> bool:
    """Return whether a pod that an earlier life admitted may have ended since, or be ending: its actor is about to say."""
    begun = not isinstance(entry.actor, Unspawned) or isinstance(entry.admission, Decided)
    return begun and not is_fresh(entry) and entry.reported.life in (None, PodLife.RECALLING)


def is_waiting(entry: PodEntry) -> bool:
    """Return whether a pod has no actor yet, cannot be admitted yet, or is wanted by no source and not stopped yet."""
    if not entry.has_actor or isinstance(entry.admission, NotAsked):
        return True
    return entry.desired.pod is None and entry.kill is None


def is_active(entry: PodEntry) -> bool:
    """Return whether a pod may use something of the node."""
    if entry.desired.pod is None or admitted(entry) is None:
        return False
    return entry.reported.life not in NOTHING_LEFT or entry.reported.leaving


def is_leaving(entry: PodEntry) -> bool:
    """Return whether a pod that no source wants any more may use something of the node."""
    return entry.desired.pod is None and entry.has_actor and entry.reported.life not in NOTHING_LEFT


def is_ending(entry: PodEntry) -> bool:
    """Return whether a pod is being stopped, by whomever."""
    stopping = entry.reported.life in (PodLife.TERMINATING, PodLife.TERMINATED, PodLife.FINISHED)
    return stopping or is_to_stop(entry)


def is_to_stop(entry: PodEntry) -> bool:
    """Return whether a pod must be stopped, whether or not its actor knows."""
    return any(one is not None for one in (entry.kill, entry.deletion, entry.preemption))


def active_pod(entry: PodEntry) -> ActivePod | None:
    """Return an active pod with the amounts that it was given, None for one that is not active."""
    answer = admitted(entry)
    if entry.desired.pod is None or answer is None or not is_active(entry):
        return None
    pod = with_allocated(entry.desired.pod, answer.allocated)
    return ActivePod(uid=entry.uid, pod=pod, ending=is_ending(entry))


def is_cleanable(entry: PodEntry) -> bool:
    """Return whether something is kept of a pod that has ended and that its source still wants."""
    wanted = entry.desired.pod is not None and entry.kill is None
    return wanted and entry.has_actor and entry.reported.life is PodLife.FINISHED and entry.reported.kept
