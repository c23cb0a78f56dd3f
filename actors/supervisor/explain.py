"""Explain pods without an actor: pods that wait for their name or admission, quarantined pods, pods of other agents."""

from actors.rules.container.role import in_order, lasting
from actors.supervisor.admission import is_ready
from actors.supervisor.gate import holder_of
from actors.supervisor.state import Charge, SupervisorState
from api.ids import Instant
from api.messages.supervisor import RuntimePresence
from api.shown.introspection import Explanation, PodRow, Step


def wait_of(state: SupervisorState, charge: Charge) -> str:
    """Return what a pod without an actor waits for."""
    if charge.died:
        return f"its actor, which failed too often (quarantine): {charge.died}"
    if state.listed is None:
        return "the container runtime's first listing"
    holder = holder_of(charge, state.charges.values())
    if holder is not None and holder.uid != charge.uid:
        return f"an older pod of the same name to be removed (uid {holder.uid})"
    if not is_ready(state):
        return f"admission, which needs an answer of {silent_on_admission(state)}"
    return charge.waits or "its actor to start"


def silent_on_admission(state: SupervisorState) -> str:
    """Return which answer admission still needs."""
    if state.book.recalled is not None:
        return "the container runtime (name and version)"
    problem = f": {state.book.problem}" if state.book.problem else ""
    return f"the ledger (pods admitted before{problem})"


def charge_row(state: SupervisorState, charge: Charge, now: Instant) -> PodRow:
    """Return the line of ``nodeagent pods`` of a pod without an actor."""
    containers = tuple(c.name for c in in_order(charge.pod.spec)) if charge.pod else ()
    lasts = len(lasting(charge.pod.spec)) if charge.pod else 0
    retry = f", restart in {max(0.0, charge.retry_at - now):.0f} s" if charge.died else ""
    return PodRow(
        namespace=charge.namespace,
        name=charge.name,
        uid=charge.uid,
        ready=f"0/{lasts}",
        status="Quarantined" if charge.died else "Pending",
        restarts=0,
        source=charge.source or "orphan",
        why=wait_of(state, charge) + retry,
        containers=containers,
    )


def charge_explanation(state: SupervisorState, charge: Charge, now: Instant) -> Explanation:
    """Return the answer to ``explain`` for a pod without an actor."""
    coming: tuple[Step, ...] = ()
    if charge.died:
        coming = (Step(in_s=max(0.0, charge.retry_at - now), what="restart its actor"),)
    return Explanation(
        namespace=charge.namespace,
        name=charge.name,
        uid=charge.uid,
        state="no actor; its containers, if any, are left unchanged",
        waits_for=wait_of(state, charge),
        next=coming,
        kill=charge.kill.cause.value if charge.kill else "",
    )


def foreign_row(presence: RuntimePresence) -> PodRow:
    """Return the line of ``nodeagent pods`` of a pod that another agent made."""
    return PodRow(
        namespace=presence.namespace,
        name=presence.name,
        uid=presence.uid,
        ready="-",
        status="Foreign" if presence.alive else "Foreign (dead)",
        restarts=0,
        source="foreign",
        why="made by another agent; --take-over would adopt it",
    )


def unclaimed(state: SupervisorState) -> tuple[RuntimePresence, ...]:
    """Return our pods in the runtime whose source has not listed its pods yet."""
    if state.listed is None or state.all_ready:
        return ()
    strange = {presence.uid for presence in state.foreign}
    ended = {uid for uid, at in state.ended.items() if state.listed.as_of <= at}
    known = {*state.charges, *strange, *ended}
    return tuple(presence for presence in state.listed.pods if presence.uid not in known)


def unclaimed_wait(state: SupervisorState) -> str:
    """Return what a pod waits for whose source has not listed its pods yet."""
    silent = ", ".join(source for source in state.expected if source not in state.seen)
    return f"the first list of its source ({silent}); until then it is left unchanged"


def unclaimed_row(state: SupervisorState, presence: RuntimePresence) -> PodRow:
    """Return the line of ``nodeagent pods`` of a pod whose source has not listed its pods yet."""
    return PodRow(
        namespace=presence.namespace,
        name=presence.name,
        uid=presence.uid,
        ready="-",
        status="Waiting",
        restarts=0,
        source="unknown",
        why=unclaimed_wait(state),
    )


def unclaimed_explanation(state: SupervisorState, presence: RuntimePresence) -> Explanation:
    """Return the answer to ``explain`` for a pod whose source has not listed its pods yet."""
    how = "running" if presence.alive else "not running"
    return Explanation(
        namespace=presence.namespace,
        name=presence.name,
        uid=presence.uid,
        state=f"found in the container runtime, {how}",
        waits_for=unclaimed_wait(state),
    )
