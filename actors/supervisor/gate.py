"""The static start gate: one running static pod per full name (reference ``pod-lifecycle`` section 4.7).

A new version of a manifest is another UID; it starts only when nothing is left of the old one, in the order in which
they came. Every way out of a pod's life frees its name, since only entries with an actor hold one.
"""

from collections.abc import Iterable, Mapping

from actors.rules.identity import kept_for_last
from actors.supervisor.state import PodEntry, SupervisorState, Unspawned
from actors.supervisor.work import Work
from api.ids import Instant, Uid
from api.messages.supervisor import RuntimeListed, RuntimePresence


def may_start(state: SupervisorState, entry: PodEntry, work: Work) -> bool:
    """Return whether a static pod's name is free for it: not held by another UID here or in the runtime."""
    if state.runtime.listed is None:
        return False
    holder = holder_of(entry, work.namesakes(entry))
    if holder is None:
        return not replaced_in_runtime(entry, state.runtime.listed, work.entries, state.runtime.ended)
    return holder.uid == entry.uid


def holder_of(entry: PodEntry, entries: Iterable[PodEntry]) -> PodEntry | None:
    """Return who holds the name of `entry`: the one with an actor, else the first that waits for it."""
    rivals = [c for c in entries if c.full_name == entry.full_name and c.desired.source != "api"]
    begun = [c for c in rivals if not isinstance(c.actor, Unspawned) or c.kill is not None]
    if begun:
        return min(begun, key=lambda c: c.desired.order)
    waiting = [c for c in rivals if c.desired.pod is not None and c.is_static]
    return min(waiting, key=lambda c: c.desired.order, default=None)


def replaced_in_runtime(
    entry: PodEntry, listed: RuntimeListed, entries: Mapping[Uid, PodEntry], ended: Mapping[Uid, Instant]
) -> bool:
    """Return whether the runtime still runs an older pod of the same name that no entry stands for yet.

    A listing begun before the last trace of that pod was removed says nothing about it.
    """
    return any(
        p.alive and p.ours and p.uid not in entries and listed.as_of > ended.get(p.uid, float("-inf"))
        for p in by_name(listed).get((entry.name, entry.namespace), ())
    )


@kept_for_last
def by_name(listed: RuntimeListed) -> Mapping[tuple[str, str], list[RuntimePresence]]:
    """Return what the runtime showed, by name and namespace."""
    found: dict[tuple[str, str], list[RuntimePresence]] = {}
    for presence in listed.pods:
        found.setdefault((presence.name, presence.namespace), []).append(presence)
    return found


@kept_for_last
def by_uid(listed: RuntimeListed) -> Mapping[Uid, RuntimePresence]:
    """Return what the runtime showed, by UID."""
    return {presence.uid: presence for presence in listed.pods}
