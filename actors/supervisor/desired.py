"""What sources want: the complete set of pods, kept up to date by PodConfig's numbered changes and snapshots."""

from collections.abc import Iterable
from typing import assert_never

from msgspec.structs import replace

from actors.rules.desiredsources import after_change, after_snapshot, ask_for_snapshot
from actors.rules.resources.allocation import allocated_of
from actors.supervisor.state import (
    REVISIONS,
    Desired,
    PodEntry,
    SupervisorState,
    with_entries,
)
from actors.supervisor.work import Work
from api import paths
from api.ids import Instant, Uid
from api.messages.supervisor import PodOp, PodsChanged, PodsSnapshot, SourcedPod


def absorb_snapshot(state: SupervisorState, message: PodsSnapshot) -> SupervisorState:
    """Take in the whole desired set; pods of sources that were not seen stay as they are."""
    wanted = {Uid(sourced.pod.metadata.uid) for sourced in message.pods}
    left = (
        unwanted(entry)
        for uid, entry in state.entries.items()
        if entry.desired.pod is not None and uid not in wanted and entry.desired.source in message.seen
    )
    state = want(with_entries(state, left), message.pods)
    return replace(state, sources=after_snapshot(state.sources, message))


def absorb_change(state: SupervisorState, message: PodsChanged) -> SupervisorState:
    """Take in one numbered change; a gap in the numbers makes everything since unknown."""
    sources, counts = after_change(state.sources, message)
    state = replace(state, sources=sources)
    if not counts:
        return state
    match message.op:
        case PodOp.REMOVE:
            known = (state.entries.get(Uid(pod.metadata.uid)) for pod in message.pods)
            left = [
                unwanted(one) for one in known if one is not None and one.desired.source == message.source
            ]
            state = with_entries(state, left)
        case PodOp.ADD | PodOp.UPDATE | PodOp.DELETE | PodOp.RECONCILE | PodOp.RESTORE:
            state = want(state, tuple(SourcedPod(source=message.source, pod=pod) for pod in message.pods))
        case _:
            assert_never(message.op)
    return state


def want(state: SupervisorState, pods: Iterable[SourcedPod]) -> SupervisorState:
    """Take in that sources want these pods."""
    order = state.next_order
    changed: dict[Uid, PodEntry] = {}
    for source, pod in ((one.source, one.pod) for one in pods):
        meta = pod.metadata
        uid = Uid(meta.uid)
        entry = changed.get(uid) or state.entries.get(uid)
        if entry is None:
            entry = PodEntry(
                uid=uid,
                name=meta.name,
                namespace=meta.namespace,
                number=order,
                desired=Desired(order=order, revision=state.epoch * REVISIONS),
            )
            order += 1
        elif entry.desired.pod == pod and entry.desired.source == source:
            continue
        elif entry.desired.pod is None and entry.kill is None:
            entry = replace(entry, desired=replace(entry.desired, order=order))
            order += 1
        desired = replace(
            entry.desired,
            pod=pod,
            source=source,
            revision=entry.desired.revision + 1,
            requested=allocated_of(pod.spec),
        )
        # An actor that reported before it received its pod could not name it.
        changed[uid] = replace(entry, name=meta.name, namespace=meta.namespace, desired=desired)
    return with_entries(replace(state, next_order=order), changed.values())


def unwanted(entry: PodEntry) -> PodEntry:
    """Return the entry that no source wants any more."""
    return replace(entry, desired=replace(entry.desired, pod=None, requested=()))


def follow_sources(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Ask PodConfig for everything when a number is missing, again until it comes."""
    sources, asking, again_at = ask_for_snapshot(state.sources, paths.PODS, now)
    work.actions += asking
    if again_at is not None:
        work.wakes.append(again_at)
    return replace(state, sources=sources) if asking else state
