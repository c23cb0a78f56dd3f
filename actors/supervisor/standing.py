"""What is true of one pod in entry, whoever else there is: which questions it is part of, and what others depend on."""

from msgspec.structs import replace

from actors.rules.resources.allocation import allocated_of, with_allocated
from actors.rules.resources.request import claim_of
from actors.supervisor.state import PodEntry, Stopping
from api.messages.eviction import ActivePod
from api.messages.supervisor import PodLife

ENDED = (PodLife.TERMINATED, PodLife.FINISHED, PodLife.GONE)
OVER = (PodLife.TERMINATING, *ENDED)
NOTHING_LEFT = (PodLife.FINISHED, PodLife.GONE)
"""A pod whose containers have ended still has its volumes until then; an evicted one what they wrote, for a moment more."""


def stake(entry: PodEntry | None) -> tuple[object, ...]:
    """Return what of a pod others depend on: its name, its room, and how far it is as far as that matters to them."""
    if entry is None:
        return ()
    life: PodLife | bool | None = entry.reported.life
    admission = entry.admission
    if admission.verdict is not None and admission.verdict.refusal is not None:
        life = None
    elif life not in OVER:
        life = is_unheard(entry)
    return (
        replace(entry.desired, revision=0),
        entry.full_name,
        type(entry.actor),
        entry.kill is None,
        is_to_stop(entry),
        admission.verdict,
        admission.held,
        admission.resize,
        life,
    )


def is_open(entry: PodEntry) -> bool:
    """Tell whether a pod waits for its verdict."""
    wanted = entry.desired.pod is not None and entry.kill is None
    return entry.admission.verdict is None and wanted and not isinstance(entry.actor, Stopping)


def is_housed(entry: PodEntry) -> bool:
    """Tell whether a pod takes something of the node: it was let in, and may have running containers."""
    return (
        entry.admission.verdict is not None
        and entry.admission.verdict.refusal is None
        and entry.reported.life not in ENDED
    )


def is_asking(entry: PodEntry) -> bool:
    """Tell whether a pod that was admitted asks for other amounts than it has."""
    verdict, pod = entry.admission.verdict, entry.desired.pod
    if verdict is None or pod is None or verdict.refusal is not None:
        return False
    if entry.kill is not None or entry.deletion is not None or entry.reported.life in OVER:
        return False
    return allocated_of(pod.spec) != verdict.allocated or claim_of(pod.spec) != verdict.claim


def is_resizing(entry: PodEntry) -> bool:
    """Tell whether a pod asks for other amounts than it has, or was told why it does not get them."""
    return entry.admission.resize is not None or is_asking(entry)


def is_unkept(entry: PodEntry) -> bool:
    """Tell whether a verdict is not in the ledger yet."""
    return entry.admission.verdict is not None and not entry.admission.kept


def is_unheard(entry: PodEntry) -> bool:
    """Tell whether a pod that an earlier life admitted may have ended since, or be ending: its actor is about to say."""
    return not entry.admission.fresh and entry.reported.life in (None, PodLife.RECALLING)


def is_waiting(entry: PodEntry) -> bool:
    """Tell whether a pod has no actor yet, or is wanted by nobody and not stopped yet."""
    return not entry.has_actor or (entry.desired.pod is None and entry.kill is None)


def is_active(entry: PodEntry) -> bool:
    """Tell whether a pod may use something of the node."""
    verdict = entry.admission.verdict
    return (
        entry.desired.pod is not None
        and verdict is not None
        and verdict.refusal is None
        and (entry.reported.life not in NOTHING_LEFT or entry.reported.leaving)
    )


def is_leaving(entry: PodEntry) -> bool:
    """Tell whether a pod that no source wants any more may use something of the node."""
    return entry.desired.pod is None and entry.has_actor and entry.reported.life not in NOTHING_LEFT


def is_ending(entry: PodEntry) -> bool:
    """Tell whether a pod is being stopped, by whomever."""
    stopping = entry.reported.life in (PodLife.TERMINATING, PodLife.TERMINATED, PodLife.FINISHED)
    return stopping or is_to_stop(entry)


def is_to_stop(entry: PodEntry) -> bool:
    """Tell whether a pod must be stopped, whether or not its actor knows."""
    return any(one is not None for one in (entry.kill, entry.deletion, entry.preemption))


def active_pod(entry: PodEntry) -> ActivePod | None:
    """Return an active pod with the amounts that it was given, None for one that is not active."""
    if entry.desired.pod is None or entry.admission.verdict is None or not is_active(entry):
        return None
    pod = with_allocated(entry.desired.pod, entry.admission.verdict.allocated)
    return ActivePod(uid=entry.uid, pod=pod, ending=is_ending(entry))


def is_cleanable(entry: PodEntry) -> bool:
    """Tell whether something is kept of a pod that has ended and that its source still wants."""
    wanted = entry.desired.pod is not None and entry.kill is None
    return wanted and entry.has_actor and entry.reported.life is PodLife.FINISHED and entry.reported.kept
