"""Explain pods without an actor: pods that wait for their name or admission, quarantined pods, pods of other agents."""

from actors.rules.container.role import in_order, lasting
from actors.supervisor.gate import holder_of
from actors.supervisor.state import PodEntry, Quarantined, SupervisorState
from api.ids import Instant
from api.messages.supervisor import RuntimePresence
from api.shown.introspection import Explanation, PodRow, Step


def wait_of(state: SupervisorState, entry: PodEntry, admission: str) -> str:
    """Return what a pod without an actor waits for; `admission` is what its admission waits for, empty for nothing."""
    if isinstance(entry.actor, Quarantined):
        return f"its actor, which failed too often (quarantine): {entry.actor.cause}"
    if state.runtime.listed is None:
        return "the container runtime's first listing"
    holder = holder_of(entry, state.entries.values())
    if holder is not None and holder.uid != entry.uid:
        return f"an older pod of the same name to be removed (uid {holder.uid})"
    return admission or "its actor to start"


def entry_row(state: SupervisorState, entry: PodEntry, now: Instant, admission: str) -> PodRow:
    """Return the line of ``nodeagent pods`` of a pod without an actor."""
    containers = tuple(c.name for c in in_order(entry.desired.pod.spec)) if entry.desired.pod else ()
    lasts = len(lasting(entry.desired.pod.spec)) if entry.desired.pod else 0
    actor = entry.actor
    retry = f", restart in {max(0.0, actor.retry.at - now):.0f} s" if isinstance(actor, Quarantined) else ""
    return PodRow(
        namespace=entry.namespace,
        name=entry.name,
        uid=entry.uid,
        ready=f"0/{lasts}",
        status="Quarantined" if isinstance(actor, Quarantined) else "Pending",
        restarts=0,
        source=entry.desired.source or "orphan",
        why=wait_of(state, entry, admission) + retry,
        containers=containers,
    )


def entry_explanation(state: SupervisorState, entry: PodEntry, now: Instant, admission: str) -> Explanation:
    """Return the answer to ``explain`` for a pod without an actor."""
    kill = entry.kill or entry.deletion
    coming: tuple[Step, ...] = ()
    if isinstance(entry.actor, Quarantined):
        coming = (Step(in_s=max(0.0, entry.actor.retry.at - now), what="restart its actor"),)
    return Explanation(
        namespace=entry.namespace,
        name=entry.name,
        uid=entry.uid,
        state="no actor; its containers, if any, are left unchanged",
        waits_for=wait_of(state, entry, admission),
        next=coming,
        kill=kill.message.cause.value if kill is not None else "",
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
    if state.runtime.listed is None or state.sources.all_ready:
        return ()
    strange = {presence.uid for presence in state.runtime.foreign}
    ended = {uid for uid, at in state.runtime.ended.items() if state.runtime.listed.as_of <= at}
    known = {*state.entries, *strange, *ended}
    return tuple(presence for presence in state.runtime.listed.pods if presence.uid not in known)


def unclaimed_wait(state: SupervisorState) -> str:
    """Return what a pod waits for whose source has not listed its pods yet."""
    silent = ", ".join(state.sources.missing)
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
