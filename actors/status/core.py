"""StatusManager's decisions: each pod's status is versioned once and written to every sink, each at its own pace.

```text
PodStatusComposed ──▶ PodStatusVersion, one for all ──▶ a SinkProgress for each sink that takes it ──▶ a write
                                       └──▶ the followers, who get each version as it came, and all of them after a restart
```

The newest version wins; a pod has one write in flight per sink, and what changes meanwhile is written right after it. No
sink waits for another. What a sink takes, for how long it gathers, and when it tries again is said by its module.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.rules.agenda import Entry
from actors.rules.container.ownership import say_the_same
from actors.rules.retry import Retry
from actors.status.sink import Sink
from actors.status.state import PodStatusEntry, PodStatusVersion, SinkProgress, StatusState, StatusWrite
from api.ids import Instant, OpId, Path, Uid
from api.lifecycle import Action, Decision, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.status import ForgetPodStatus, PodStatusComposed, StatusMessage

Sinks = tuple[Sink, ...]


def decide(
    sinks: Sinks,
    before: StatusState,
    message: StatusMessage | KernelMessage,
    now: Instant,
    new_op: Callable[[], OpId],
    followers: tuple[Path, ...] = (),
) -> Decision[StatusState]:
    """Take in a message, send its news to the followers, and write what a sink lacks."""
    state = absorb(sinks, before, message, now)
    news = tuple(Tell(to=path, message=one) for path, one in news_of(before, state, message, followers))
    decision = plan(sinks, state, now, new_op)
    return replace(decision, actions=(*news, *decision.actions))


def news_of(
    before: StatusState,
    after: StatusState,
    message: StatusMessage | KernelMessage,
    followers: tuple[Path, ...],
) -> tuple[tuple[Path, PodStatusComposed | ForgetPodStatus], ...]:
    """Return what each follower must get after a message: a new version, or all of them when it has restarted."""
    match message:
        case PodStatusComposed(uid=uid) | ForgetPodStatus(uid=uid):
            old, new = before.pods.get(uid), after.pods.get(uid)
            if old is not None and new is not None and old.newest.number == new.newest.number:
                return ()
            return tuple((path, message) for path in followers)
        case Restarted(path=path) if path in followers:
            return tuple(
                (path, composed_of(entry.newest))
                for entry in after.pods.values()
                if not entry.newest.forgotten
            )
        case _:
            return ()


def composed_of(version: PodStatusVersion) -> PodStatusComposed:
    """Return a version as the message that brought it."""
    return PodStatusComposed(
        uid=version.uid,
        namespace=version.namespace,
        name=version.name,
        status=version.status,
        finished=version.finished,
    )


def absorb(
    sinks: Sinks, state: StatusState, message: StatusMessage | KernelMessage, now: Instant
) -> StatusState:
    """Return what is known after `message`."""
    match message:
        case PodStatusComposed():
            return composed(sinks, state, message, now)
        case ForgetPodStatus(uid=uid):
            return forgotten(sinks, state, uid, now)
        case Outcome():
            return written(sinks, state, message, now)
        case Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded():
            return state
        case _:
            assert_never(message)


def composed(sinks: Sinks, state: StatusState, message: PodStatusComposed, now: Instant) -> StatusState:
    """Take in a status: an equal one is no new version."""
    new = PodStatusVersion(
        uid=message.uid,
        namespace=message.namespace,
        name=message.name,
        status=message.status,
        finished=message.finished,
    )
    entry = state.pods.get(message.uid)
    if entry is not None and is_unchanged(entry.newest, new):
        # What others wrote may have changed: it is not for us to publish.
        return with_entry(state, replace(entry, newest=replace(entry.newest, status=new.status)))
    return with_version(sinks, state, new, now)


def is_unchanged(old: PodStatusVersion, new: PodStatusVersion) -> bool:
    """Return whether what the agent answers for is what it was."""
    return not old.forgotten and old.finished == new.finished and say_the_same(old.status, new.status)


def forgotten(sinks: Sinks, state: StatusState, uid: Uid, now: Instant) -> StatusState:
    """Have every sink remove a pod, now; an unknown one too, which a sink may hold from an earlier life of the agent."""
    entry = state.pods.get(uid)
    if entry is None or not entry.newest.forgotten:
        old = entry.newest if entry is not None else PodStatusVersion(uid=uid)
        state = with_version(sinks, state, replace(old, forgotten=True), now)
    entry = state.pods[uid]
    at_once = tuple(replace(one, due_at=now, retry=replace(one.retry, at=now)) for one in entry.progress)
    return with_entry(state, replace(entry, progress=at_once))


def with_version(sinks: Sinks, state: StatusState, version: PodStatusVersion, now: Instant) -> StatusState:
    """Return the state with a new version of a pod, which is wanted by each sink that takes it."""
    entry = state.pods.get(version.uid)
    old = entry.newest if entry is not None else None
    progress = entry.progress if entry is not None else (SinkProgress(),) * len(sinks)
    new = replace(version, number=old.number + 1 if old is not None else 1)
    after = tuple(
        wanting(sink, one, old, new, now) if sink.takes(old, new) else one
        for sink, one in zip(sinks, progress, strict=True)
    )
    return with_entry(state, PodStatusEntry(newest=new, progress=after))


def wanting(
    sink: Sink, progress: SinkProgress, old: PodStatusVersion | None, new: PodStatusVersion, now: Instant
) -> SinkProgress:
    """Return the progress of a sink that takes the new version; what waits already is not put off by it."""
    due_at = now + sink.gather_s(new)
    returns = old is not None and old.forgotten and progress.is_dirty
    return replace(
        progress,
        wanted=new.number,
        returned=new.number if returns else progress.returned,
        due_at=min(due_at, progress.due_at) if progress.is_dirty else due_at,
    )


def written(sinks: Sinks, state: StatusState, outcome: Outcome, now: Instant) -> StatusState:
    """Take in that a write ended; a pod that every sink has removed is dropped."""
    if outcome.op not in state.writes:
        return state
    uid, place = state.writes[outcome.op]
    state = replace(state, writes={op: write for op, write in state.writes.items() if op != outcome.op})
    entry = state.pods[uid]
    progress = entry.progress[place]
    assert progress.write is not None
    policy = sinks[place].retry_policy(outcome)
    if policy is not None:
        failed = replace(progress, write=None, retry=progress.retry.after(now, policy))
        return with_entry(state, in_place(entry, place, failed))
    stored = replace(progress, write=None, stored=progress.write.version, retry=Retry())
    entry = in_place(entry, place, stored)
    if entry.newest.forgotten and not any(one.is_dirty for one in entry.progress):
        return replace(state, pods={other: kept for other, kept in state.pods.items() if other != uid})
    return with_entry(state, entry)


def plan(sinks: Sinks, state: StatusState, now: Instant, new_op: Callable[[], OpId]) -> Decision[StatusState]:
    """Start a write for each sink that lacks a pod's newest version: of the pods that changed or are due."""
    found, agenda = state.agenda.due(now)
    actions: list[Action] = []
    entries: list[Entry] = []
    changed: dict[Uid, PodStatusEntry] = {}
    writes: dict[OpId, tuple[Uid, int]] = {}
    for uid in dict.fromkeys((*state.touched, *(uid for _, uid in found))):
        entry = state.pods.get(uid)
        if entry is None:
            continue
        for place, (sink, one) in enumerate(zip(sinks, entry.progress, strict=True)):
            if one.write_at is None:
                continue
            if now < one.write_at:
                entries.append((one.write_at, uid))
                continue
            op = new_op()
            call = sink.call_of(entry.newest, one)
            actions.append(Start(op=op, port=sink.PORT, call=call, deadline_s=sink.DEADLINE_S))
            write = StatusWrite(op=op, version=entry.newest.number)
            changed[uid] = in_place(changed.get(uid, entry), place, replace(one, write=write))
            writes[op] = (uid, place)
    if changed:
        state = replace(state, pods={**state.pods, **changed}, writes={**state.writes, **writes})
    wake_at, agenda = agenda.plus(entries).first(lambda entry: stands(state, entry))
    state = replace(state, touched=(), agenda=agenda)
    return Decision(state=state, actions=tuple(actions), wake_at=wake_at)


def stands(state: StatusState, entry: Entry) -> bool:
    """Return whether a sink still waits to be written when the agenda says."""
    at, uid = entry
    return uid in state.pods and any(one.write_at == at for one in state.pods[uid].progress)


def unwritten(sinks: Sinks, state: StatusState) -> tuple[tuple[str, tuple[msgspec.Struct, ...]], ...]:
    """Return, for each sink, its port and the calls that write everything that it lacks: for an orderly end."""
    return tuple(
        (
            sink.PORT,
            tuple(
                sink.call_of(entry.newest, entry.progress[place])
                for entry in state.pods.values()
                if entry.progress[place].is_dirty
            ),
        )
        for place, sink in enumerate(sinks)
    )


def in_place(entry: PodStatusEntry, place: int, progress: SinkProgress) -> PodStatusEntry:
    """Return the entry with the progress of the sink at that place."""
    return replace(entry, progress=(*entry.progress[:place], progress, *entry.progress[place + 1 :]))


def with_entry(state: StatusState, entry: PodStatusEntry) -> StatusState:
    """Return the state with this entry in place of the pod's last."""
    uid = entry.newest.uid
    return replace(state, pods={**state.pods, uid: entry}, touched=(*state.touched, uid))
