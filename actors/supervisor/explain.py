"""Explain pods that have no actor (yet): those that wait for their name, quarantined ones, and other agents'."""

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
        return f"its actor died past its restart budget and is kept in quarantine: {charge.died}"
    if state.listed is None:
        return "the container runtime's first listing"
    holder = holder_of(charge, state.charges.values())
    if holder is not None and holder.uid != charge.uid:
        return f"an older pod of the same name to end (uid {holder.uid})"
    if not is_ready(state):
        return f"to be admitted, for which {silent_on_admission(state)} has to answer"
    return charge.waits or "its actor to be started"


def silent_on_admission(state: SupervisorState) -> str:
    """Return who has not answered yet what has to be known before anything is admitted."""
    if state.book.recalled is not None:
        return "the container runtime (which it is)"
    problem = f": {state.book.problem}" if state.book.problem else ""
    return f"the ledger (what was admitted before{problem})"


def charge_row(state: SupervisorState, charge: Charge, now: Instant) -> PodRow:
    """Return the line of ``nodeagent pods`` of a pod without an actor."""
    containers = tuple(c.name for c in in_order(charge.pod.spec)) if charge.pod else ()
    lasts = len(lasting(charge.pod.spec)) if charge.pod else 0
    retry = f", again in {max(0.0, charge.retry_at - now):.0f} s" if charge.died else ""
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
        coming = (Step(in_s=max(0.0, charge.retry_at - now), what="start its actor again"),)
    return Explanation(
        namespace=charge.namespace,
        name=charge.name,
        uid=charge.uid,
        state="it has no actor; its containers, if any, are left as they are",
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
    """Return our pods that the runtime holds while the source that may want them has not spoken yet."""
    if state.listed is None or state.all_ready:
        return ()
    strange = {presence.uid for presence in state.foreign}
    ended = {uid for uid, at in state.ended.items() if state.listed.as_of <= at}
    known = {*state.charges, *strange, *ended}
    return tuple(presence for presence in state.listed.pods if presence.uid not in known)


def unclaimed_wait(state: SupervisorState) -> str:
    """Return what our pods without a source wait for."""
    silent = ", ".join(source for source in state.expected if source not in state.seen)
    return f"its source to speak (not heard yet from: {silent}); until then it is left as it is"


def unclaimed_row(state: SupervisorState, presence: RuntimePresence) -> PodRow:
    """Return the line of ``nodeagent pods`` of a pod whose source has not spoken yet."""
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
    """Return the answer to ``explain`` for a pod whose source has not spoken yet."""
    how = "something of it runs" if presence.alive else "nothing of it runs any more"
    return Explanation(
        namespace=presence.namespace,
        name=presence.name,
        uid=presence.uid,
        state=f"found in the container runtime, and {how}",
        waits_for=unclaimed_wait(state),
    )
