"""What is kept of pods that have ended goes when the node is short of disk: their actors remove it, here it is asked for."""

from msgspec.structs import replace

from actors.supervisor.state import Charge, SupervisorState, Work
from api.ids import pod_path
from api.lifecycle import Tell
from api.messages.eviction import FinishedCleared
from api.messages.pod import ClearPod
from api.messages.supervisor import PodLife


def clear_finished(state: SupervisorState, work: Work) -> SupervisorState:
    """Have the actors of pods that have ended remove what is kept of them, and say when that is over."""
    asked = state.clearing
    if asked is None:
        return state
    left = [charge for charge in work.charges.values() if is_left(charge)]
    fresh = tuple(charge.uid for charge in left if charge.uid not in state.cleared)
    work.actions += [Tell(to=pod_path(uid), message=ClearPod(uid=uid)) for uid in fresh]
    if left:
        return replace(state, cleared=(*state.cleared, *fresh))
    done = FinishedCleared(run=asked.run, pods=len(state.cleared))
    work.actions.append(Tell(to=asked.asked_by, message=done))
    return replace(state, clearing=None, cleared=())


def is_left(charge: Charge) -> bool:
    """Tell whether something is kept of a pod that has ended and that its source still wants."""
    wanted = charge.pod is not None and charge.kill is None
    return wanted and charge.spawned and charge.life is PodLife.FINISHED and charge.left
