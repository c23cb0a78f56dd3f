"""The static start gate: one running static pod per full name (reference ``pod-lifecycle`` section 4.7).

A new version of a manifest is another UID; it starts only when nothing is left of the old one, in the order in which
they came. Every way out of a pod's life frees its name, since only charges with an actor hold one.
"""

from collections.abc import Iterable, Mapping

from actors.rules.identity import kept_for_last
from actors.supervisor.state import Charge, SupervisorState
from actors.supervisor.work import Work
from api.ids import Instant, Uid
from api.messages.supervisor import RuntimeListed, RuntimePresence


def may_start(state: SupervisorState, charge: Charge, work: Work) -> bool:
    """Tell whether a static pod's name is free for it: not held by another UID here or in the runtime."""
    if state.listed is None:
        return False
    holder = holder_of(charge, work.namesakes(charge))
    if holder is None:
        return not replaced_in_runtime(charge, state.listed, work.charges, state.ended)
    return holder.uid == charge.uid


def holder_of(charge: Charge, charges: Iterable[Charge]) -> Charge | None:
    """Return who holds the name of `charge`: the one with an actor, else the first that waits for it."""
    rivals = [c for c in charges if c.full_name == charge.full_name and c.source != "api"]
    spawned = [c for c in rivals if c.spawned or c.kill is not None or c.died]
    if spawned:
        return min(spawned, key=lambda c: c.order)
    waiting = [c for c in rivals if c.pod is not None and c.is_static]
    return min(waiting, key=lambda c: c.order, default=None)


def replaced_in_runtime(
    charge: Charge, listed: RuntimeListed, charges: Mapping[Uid, Charge], ended: Mapping[Uid, Instant]
) -> bool:
    """Tell whether the runtime still runs an older pod of the same name that no charge stands for yet.

    A listing begun before the last trace of that pod was removed says nothing about it.
    """
    return any(
        p.alive and p.ours and p.uid not in charges and listed.as_of > ended.get(p.uid, float("-inf"))
        for p in by_name(listed).get((charge.name, charge.namespace), ())
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
