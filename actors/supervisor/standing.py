"""What is true of one pod in charge, whoever else there is: which questions it is part of, and what others depend on."""

from actors.rules.resources.allocation import allocated_of, with_allocated
from actors.rules.resources.request import claim_of
from actors.supervisor.state import Charge
from api.messages.eviction import ActivePod
from api.messages.supervisor import PodLife

ENDED = (PodLife.TERMINATED, PodLife.FINISHED, PodLife.GONE)
OVER = (PodLife.TERMINATING, *ENDED)
NOTHING_LEFT = (PodLife.FINISHED, PodLife.GONE)
"""A pod whose containers have ended still has its volumes until then; an evicted one what they wrote, for a moment more."""


def stake(charge: Charge | None) -> tuple[object, ...]:
    """Return what of a pod others depend on: its name, its room, and how far it is as far as that matters to them."""
    if charge is None:
        return ()
    life: PodLife | bool | None = charge.life
    if charge.verdict is not None and charge.verdict.refusal is not None:
        life = None
    elif life not in OVER:
        life = is_unheard(charge)
    return (
        charge.pod,
        charge.verdict,
        charge.full_name,
        charge.source,
        charge.order,
        charge.spawned,
        charge.kill is None,
        charge.preemption is None,
        charge.stopping,
        bool(charge.died),
        charge.held,
        charge.resize,
        life,
    )


def is_open(charge: Charge) -> bool:
    """Tell whether a pod waits for its verdict."""
    return charge.verdict is None and charge.pod is not None and charge.kill is None and not charge.stopping


def is_housed(charge: Charge) -> bool:
    """Tell whether a pod takes something of the node: it was let in, and may have running containers."""
    return charge.verdict is not None and charge.verdict.refusal is None and charge.life not in ENDED


def is_asking(charge: Charge) -> bool:
    """Tell whether a pod that was admitted asks for other amounts than it has."""
    verdict, pod = charge.verdict, charge.pod
    if verdict is None or pod is None or verdict.refusal is not None or charge.kill is not None:
        return False
    if charge.life in OVER:
        return False
    return allocated_of(pod.spec) != verdict.allocated or claim_of(pod.spec) != verdict.claim


def is_resizing(charge: Charge) -> bool:
    """Tell whether a pod asks for other amounts than it has, or was told why it does not get them."""
    return charge.resize is not None or is_asking(charge)


def is_unkept(charge: Charge) -> bool:
    """Tell whether a verdict is not in the ledger yet."""
    return charge.verdict is not None and not charge.kept


def is_unheard(charge: Charge) -> bool:
    """Tell whether a pod that an earlier life admitted may have ended since, or be ending: its actor is about to say."""
    return not charge.fresh and charge.life in (None, PodLife.RECALLING)


def is_waiting(charge: Charge) -> bool:
    """Tell whether a pod has no actor yet, or is wanted by nobody and not stopped yet."""
    return not charge.spawned or (charge.pod is None and charge.kill is None)


def is_active(charge: Charge) -> bool:
    """Tell whether a pod may use something of the node."""
    verdict = charge.verdict
    return (
        charge.pod is not None
        and verdict is not None
        and verdict.refusal is None
        and (charge.life not in NOTHING_LEFT or charge.leaving)
    )


def is_leaving(charge: Charge) -> bool:
    """Tell whether a pod that no source wants any more may use something of the node."""
    return charge.pod is None and charge.spawned and charge.life not in NOTHING_LEFT


def is_ending(charge: Charge) -> bool:
    """Tell whether a pod is being stopped, by whomever."""
    stopping = charge.life in (PodLife.TERMINATING, PodLife.TERMINATED, PodLife.FINISHED)
    return stopping or charge.kill is not None or charge.preemption is not None


def active_pod(charge: Charge) -> ActivePod | None:
    """Return an active pod with the amounts that it was given, None for one that is not active."""
    if charge.pod is None or charge.verdict is None or not is_active(charge):
        return None
    pod = with_allocated(charge.pod, charge.verdict.allocated)
    return ActivePod(uid=charge.uid, pod=pod, ending=is_ending(charge))


def is_cleanable(charge: Charge) -> bool:
    """Tell whether something is kept of a pod that has ended and that its source still wants."""
    wanted = charge.pod is not None and charge.kill is None
    return wanted and charge.spawned and charge.life is PodLife.FINISHED and charge.left
