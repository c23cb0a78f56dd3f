"""Which pods are active: admitted, and what they take of the node is not known to be free. Told when it changes.

A pod that no source wants any more has no specification that it could be compared with others by, but takes what it takes
until nothing is left of it: it is told by its UID.
"""

from msgspec.structs import replace

from actors.rules.allocation import with_allocated
from actors.rules.identity import kept_for_each
from actors.supervisor.admission import is_ready, is_unheard
from actors.supervisor.state import ActiveKey, ActiveTold, Charge, SupervisorState, Work
from api.lifecycle import Tell
from api.messages.eviction import ActivePod, ActivePods
from api.messages.supervisor import PodLife

NOTHING_LEFT = (PodLife.FINISHED, PodLife.GONE)
"""A pod whose containers have ended still has its volumes until then; an evicted one what they wrote, for a moment more."""


def tell_active(state: SupervisorState, work: Work) -> SupervisorState:
    """Tell all watchers which pods are active, unless they know.

    Before it is known what was decided earlier and what runs, less than the truth would be told.
    """
    if not state.watchers or state.number < 0 or not is_ready(state):
        return state
    keys = tuple(key for charge in work.charges.values() if (key := key_of(charge)) is not None)
    leaving = tuple(charge.uid for charge in work.charges.values() if is_leaving(charge))
    whole = state.all_ready and not any(is_unheard(charge) for charge in work.charges.values())
    told = ActiveTold(keys=keys, leaving=leaving, whole=whole)
    if told == state.active_told:
        return state
    pods = tuple(active_pod(work.charges[key.uid]) for key in keys)
    message = ActivePods(pods=pods, leaving=leaving, whole=whole)
    work.actions += [Tell(to=path, message=message) for path in state.watchers]
    return replace(state, active_told=told)


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


@kept_for_each
def key_of(charge: Charge) -> ActiveKey | None:
    """Return what makes an active pod another one than before, None for a pod that is not active."""
    if charge.verdict is None or not is_active(charge):
        return None
    return ActiveKey(
        uid=charge.uid,
        revision=charge.revision,
        ending=is_ending(charge),
        allocated=charge.verdict.allocated,
    )


def active_pod(charge: Charge) -> ActivePod:
    """Return an active pod with the amounts that it was given."""
    assert charge.pod is not None
    assert charge.verdict is not None
    pod = with_allocated(charge.pod, charge.verdict.allocated)
    return ActivePod(uid=charge.uid, pod=pod, ending=is_ending(charge))
