"""Which pods are active: admitted, and what they take of the node is not known to be free. Told when it changes.

A pod that no source wants any more has no specification that it could be compared with others by, but takes what it takes
until nothing is left of it: it is told by its UID.
"""

from msgspec.structs import replace

from actors.supervisor.state import ActiveTold, Asked, PodEntry, SupervisorState
from actors.supervisor.work import Work
from api.lifecycle import Tell
from api.messages.eviction import ActivePods


def tell_active(state: SupervisorState, work: Work) -> SupervisorState:
    """Tell all watchers which pods are active, unless they know.

    Before it is known what was decided earlier and what runs, less than the truth would be told.
    """
    if not state.watchers.paths or state.sources.number < 0 or not is_ready(state, work):
        return state
    leaving = work.members["leaving"]
    whole = state.sources.all_ready and not work.members["unheard"]
    before = state.watchers.told
    if before is not None and before.whole is whole:
        same = before.pods is work.active or before.pods == work.active
        if same and (before.leaving is leaving or before.leaving == leaving):
            return state
    pods = tuple(pod for _, pod in sorted(work.active.items()))
    message = ActivePods(pods=pods, leaving=tuple(sorted(leaving)), whole=whole)
    work.actions += [Tell(to=path, message=message) for path in state.watchers.paths]
    told = ActiveTold(pods=work.active, leaving=leaving, whole=whole)
    return replace(state, watchers=replace(state.watchers, told=told))


def is_ready(state: SupervisorState, work: Work) -> bool:
    """Return whether it is known what runs, and of each pod that was asked for what was decided earlier."""
    known = state.link.ready and state.node.known and state.runtime.listed is not None
    return known and not any(is_recalled(state, work.entries[uid]) for uid in work.members["unanswered"])


def is_recalled(state: SupervisorState, entry: PodEntry) -> bool:
    """Return whether a pod may run already, and is not active yet only because the answer of admission is under way."""
    asked = entry.admission
    return isinstance(asked, Asked) and (asked.settled or entry.uid in state.link.recalled)
