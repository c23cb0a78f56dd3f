"""What is kept of pods that have ended goes when the node is short of disk: their actors remove it, here it is asked for."""

from msgspec.structs import replace

from actors.supervisor.state import SupervisorState
from actors.supervisor.work import Work
from api.lifecycle import Tell
from api.messages.eviction import FinishedCleared
from api.messages.pod import ClearPod
from api.paths import pod_path


def clear_finished(state: SupervisorState, work: Work) -> SupervisorState:
    """Have the actors of pods that have ended remove what is kept of them, and say when that is over."""
    clearance = state.clearance
    if clearance is None:
        return state
    left, sent = work.members["cleanable"], frozenset(clearance.sent)
    fresh = tuple(uid for uid in left if uid not in sent)
    work.actions += [Tell(to=pod_path(uid), message=ClearPod(uid=uid)) for uid in fresh]
    if left:
        return replace(state, clearance=replace(clearance, sent=(*clearance.sent, *fresh)))
    done = FinishedCleared(run=clearance.asked.run, pods=len(clearance.sent))
    work.actions.append(Tell(to=clearance.asked.asked_by, message=done))
    return replace(state, clearance=None)
