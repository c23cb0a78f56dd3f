"""The static start gate: one running static pod per full name (reference ``pod-lifecycle`` section 4.7).

A new version of a manifest is another UID; it starts only when nothing is left of the old one, in the order in which
they came. Every way out of a pod's life frees its name, since only entries with an actor hold one.
"""

from collections.abc import Iterable

from actors.supervisor.state import PodEntry, SupervisorState, Unspawned
from actors.supervisor.work import Work
from api.messages.supervisor import RuntimePresence


def may_start(state: SupervisorState, entry: PodEntry, work: Work) -> bool:
    """Return whether a static pod's name is free for it: not held by another UID here or in the runtime."""
    if state.runtime.listed is None:
        return False
    holder = holder_of(entry, work.namesakes(entry))
    if holder is None:
        namesakes = state.runtime.listed.by_name.get((entry.name, entry.namespace), ())
        return not any(still_runs(state, presence, work) for presence in namesakes)
    return holder.uid == entry.uid


def holder_of(entry: PodEntry, entries: Iterable[PodEntry]) -> PodEntry | None:
    """Return who holds the name of `entry`: the one with an actor, else the first that waits for it."""
    rivals = [c for c in entries if c.full_name == entry.full_name and c.desired.source != "api"]
    begun = [c for c in rivals if not isinstance(c.actor, Unspawned) or c.kill is not None]
    if begun:
        return min(begun, key=lambda c: c.desired.order)
    waiting = [c for c in rivals if c.desired.pod is not None and c.is_static]
    return min(waiting, key=lambda c: c.desired.order, default=None)


def still_runs(state: SupervisorState, presence: RuntimePresence, work: Work) -> bool:
    """Return whether the runtime still runs an older pod that no entry stands for yet.

    A listing begun before the last trace of that pod was removed says nothing about it.
    """
    known = presence.uid in work.entries
    return presence.alive and presence.ours and not known and state.runtime.covers(presence.uid)
