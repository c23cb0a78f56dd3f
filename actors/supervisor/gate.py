"""The static start gate: one running static pod per full name (reference ``pod-lifecycle`` section 4.7).

A new version of a manifest is another UID; it starts only when nothing is left of the old one, in the order in which
they came. Every way out of a pod's life frees its name, since only charges with an actor hold one.
"""

from collections.abc import Mapping

from actors.supervisor.state import Charge, SupervisorState
from api.ids import Instant, Uid
from api.messages.supervisor import RuntimeListed


def may_start(state: SupervisorState, charge: Charge, charges: Mapping[Uid, Charge]) -> bool:
    """Tell whether a static pod's name is free for it: not held by another UID here or in the runtime."""
    if state.listed is None:
        return False
    holder = holder_of(charge, charges)
    if holder is None:
        return not replaced_in_runtime(charge, state.listed, charges, state.ended)
    return holder.uid == charge.uid


def holder_of(charge: Charge, charges: Mapping[Uid, Charge]) -> Charge | None:
    """Return who holds the name of `charge`: the one with an actor, else the first that waits for it."""
    rivals = [c for c in charges.values() if c.full_name == charge.full_name and c.source != "api"]
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
        p.alive
        and p.ours
        and p.uid not in charges
        and listed.as_of > ended.get(p.uid, float("-inf"))
        and (p.name, p.namespace) == (charge.name, charge.namespace)
        for p in listed.pods
    )
