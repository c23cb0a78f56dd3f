"""PodSupervisor's decisions: which UIDs have an actor, what each is sent, which pods are stopped, which wait.

Level-triggered: `plan` does whatever is not done yet for each pod that changed or is due, so a lost message or a restart
is repaired by the next look. Nothing is stopped for want of a source before all sources were seen.

```text
desired.py    what sources want              podactor.py  spawn, update, quarantine, stop a pod's actor
gate.py       one static pod of a name       kill.py      kills, sent until they are answered
admission.py  rows and answers               garbage.py   pods that no source wants: orphans, and what is left of them
```
"""

from collections.abc import Callable, Mapping
from typing import assert_never

from msgspec.structs import replace

from actors.rules.agenda import Entry
from actors.rules.nodewatch import NEVER_ASKED, follow_node
from actors.supervisor.active import tell_active
from actors.supervisor.admission import absorb_answer, forget_recalled, lost_admission, send_rows
from actors.supervisor.clear import clear_finished
from actors.supervisor.desired import absorb_change, absorb_snapshot, follow_sources
from actors.supervisor.garbage import absorb_garbage, collect_garbage, find_orphans, with_dropped
from actors.supervisor.podactor import absorb_death, absorb_move, absorb_restart, attend, end_quarantine
from actors.supervisor.state import (
    Clearance,
    Listing,
    PodEntry,
    SupervisorState,
    Watchers,
    with_entries,
)
from actors.supervisor.work import Work
from api import paths
from api.ids import Instant, OpId, Uid
from api.lifecycle import Action, Decision, Tell
from api.messages.eviction import PodKilled
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.node import NodeChanged
from api.messages.pod import KillPod
from api.messages.supervisor import (
    ClearFinished,
    PodMoved,
    PodsChanged,
    PodsDecided,
    PodsJudged,
    PodsSnapshot,
    PreemptPods,
    RuntimeListed,
    SupervisorMessage,
    VerdictsRecalled,
    WatchPods,
)
from api.paths import pod_path
from api.ports.node import NodeFacts


def decide(
    before: SupervisorState,
    message: SupervisorMessage | KernelMessage | None,
    now: Instant,
    new_op: Callable[[], OpId],
) -> Decision[SupervisorState]:
    """Take in a message (None: only look again) and choose what to do."""
    state = absorb(before, message, now)
    if isinstance(message, PodMoved) and state is before:
        # Each resync has every pod say again what is known of it.
        return Decision(state=before, wake_at=before.wake_at)
    if state.sources.seen != before.sources.seen or state.sources.all_ready is not before.sources.all_ready:
        state = replace(state, due=replace(state.due, waiting=True, strays=True))
    decision = plan(state, now, new_op)
    return replace(decision, actions=(*decision.actions, *answers(decision.state, message)))


def answers(after: SupervisorState, message: SupervisorMessage | KernelMessage | None) -> tuple[Action, ...]:
    """Pass a kill on to the pod's actor; where there is none, nothing of the pod runs and that is the answer.

    An incarnation that was told of no pods yet may have actors of an earlier one's time that it does not know.
    """
    if not isinstance(message, KillPod):
        return ()
    entry = after.entries.get(message.uid)
    if (entry is not None and entry.has_actor) or after.sources.number < 0:
        return (Tell(to=pod_path(message.uid), message=message),)
    return (Tell(to=message.asked_by, message=PodKilled(uid=message.uid)),)


# ---------------------------------------------------------------- absorb


def absorb(  # noqa: C901  # one case per message
    state: SupervisorState, message: SupervisorMessage | KernelMessage | None, now: Instant
) -> SupervisorState:
    """Return what is known after `message`; decides nothing."""
    match message:
        case PodsSnapshot():
            return absorb_snapshot(state, message)
        case PodsChanged():
            return absorb_change(state, message)
        case RuntimeListed():
            return absorb_listing(state, message)
        case PodMoved():
            return absorb_move(state, message)
        case ChildDied(path=path, cause=cause):
            return absorb_death(state, Uid(path.rpartition("/")[2]), cause, now)
        case NodeChanged(facts=facts):
            return absorb_node(state, facts)
        case Restarted(path=path) if path == paths.NODE:
            return replace(state, node=replace(state.node, asked_at=NEVER_ASKED))
        case Restarted(path=path) if path == paths.ADMISSION:
            return lost_admission(state)
        case PodsDecided() | PodsJudged() | VerdictsRecalled() | PreemptPods():
            return absorb_answer(state, message)
        case Restarted(path=path):
            return absorb_restart(state, Uid(path.rpartition("/")[2]))
        case Outcome():
            return absorb_garbage(state, message)
        case KillPod(uid=uid) if uid in state.entries:
            return end_quarantine(state, state.entries[uid], now)
        case WatchPods() | ClearFinished():
            return absorb_eviction(state, message)
        case KillPod() | Alarm() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def absorb_node(state: SupervisorState, facts: NodeFacts) -> SupervisorState:
    """Absorb the node's facts; a change is sent to every wanted pod."""
    node = state.node
    if node.known and facts == node.facts:
        return state
    told = [
        replace(one, desired=replace(one.desired, revision=one.desired.revision + 1))
        for one in (state.entries.values() if node.known else ())
        if one.desired.pod is not None
    ]
    after = replace(node, facts=facts, known=True)
    return with_entries(replace(state, node=after, due=replace(state.due, waiting=True)), told)


def absorb_listing(state: SupervisorState, message: RuntimeListed) -> SupervisorState:
    """Take in a listing, and of whom the one before showed containers only; the same one twice says nothing more."""
    runtime = state.runtime
    before = runtime.listed
    ended = {uid: at for uid, at in runtime.ended.items() if at >= message.as_of}
    loose = runtime.loose
    if before is not None and before.as_of != message.as_of:
        loose = frozenset(p.uid for p in before.pods if p.loose)
    listed = Listing(as_of=message.as_of, pods=message.pods)
    after = replace(runtime, listed=listed, strays=message.pods, ended=ended, loose=loose)
    return replace(state, runtime=after, due=replace(state.due, strays=True, waiting=True))


def absorb_eviction(state: SupervisorState, message: WatchPods | ClearFinished) -> SupervisorState:
    """Take in who must know which pods are active, or that what is kept of those that ended must go."""
    match message:
        case WatchPods(asked_by=path):
            others = tuple(one for one in state.watchers.paths if one != path)
            return replace(state, watchers=Watchers(paths=(*others, path)))
        case ClearFinished():
            return replace(state, clearance=Clearance(asked=message))
        case _:
            assert_never(message)


# ---------------------------------------------------------------- plan


def plan(state: SupervisorState, now: Instant, new_op: Callable[[], OpId]) -> Decision[SupervisorState]:
    """Do whatever is not done yet; sees no message."""
    work = Work(state)
    state = follow_sources(state, work, now)
    state = collect_garbage(state, work, now, new_op)
    state = follow(state, work, now)
    state = find_orphans(state, work)
    state = attend_due(state, work, now)
    state = clear_finished(tell_active(send_rows(state, work, now), work), work)
    agenda = state.agenda.plus(work.looks_due)
    next_look, agenda = agenda.first(lambda look: stands(work.entries, look))
    if next_look is not None:
        work.wakes.append(next_look)
    wake_at = min(work.wakes, default=None)
    state = replace(
        state,
        entries=work.entries,
        index=work.index(),
        touched=work.later,
        agenda=agenda,
        due=replace(state.due, strays=work.strays_due),
        runtime=replace(state.runtime, strays=with_dropped(state, work)),
        wake_at=wake_at,
    )
    return Decision(state=state, actions=tuple(work.actions), wake_at=wake_at)


def follow(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Follow what the node is."""
    node = state.node
    asked_at, asking, again_at = follow_node(paths.PODS, node.asked_at, now, known=node.known)
    work.actions += asking
    work.wakes.append(again_at)
    return replace(state, node=replace(node, asked_at=asked_at)) if asking else state


def attend_due(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Attend every entry that changed, is due, or waited for what has come."""
    found, agenda = state.agenda.due(now)
    for look in found:
        if stands(work.entries, look):
            work.queue(look[1])
    if state.due.waiting:
        for uid in work.members["waiting"]:
            work.queue(uid)
    state = replace(state, agenda=agenda, due=replace(state.due, waiting=False))
    for entry in work.attended():
        work.looks = []
        after = attend(state, entry, work, now)
        if after is None:
            state = forget_recalled(state, entry.uid)
            work.drop(entry.uid)
            continue
        look_at = min(work.looks, default=None)
        if look_at != after.look_at:
            after = replace(after, look_at=look_at)
        if look_at is not None:
            work.looks_due.append((look_at, entry.uid))
        work.settle(after)
    return state


def stands(entries: Mapping[Uid, PodEntry], look: Entry) -> bool:
    """Return whether an agenda entry still holds for its pod."""
    entry = entries.get(look[1])
    return entry is not None and entry.look_at == look[0]
