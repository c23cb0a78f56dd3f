"""Merges the lists of all sources and sends numbered, ordered changes to subscribers.

```text
sources --PodsSeen--> merge.py --+--> PodsChanged / PodsSnapshot --> subscribers
subscribers --SnapshotWanted-----+
```

State: the list of each source and what each subscriber has been sent. All of it is lost with an incarnation, and nothing
of it needs to be kept: sources watch this actor and send their lists again. Until a source did, it is missing from
`PodsSnapshot.seen`, so that its pods are not taken for removed.
"""

from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.sources.merge.merge import Changes, Dropped, description, full_name, merge
from api.ids import Path, WallNs
from api.kube.objects.pod import Pod
from api.lifecycle import Action, Decision, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.podconfig import PodConfigMessage, PodsSeen, SnapshotWanted
from api.messages.supervisor import PodsChanged, PodsSnapshot, SourcedPod
from api.shown.introspection import SourceRow

NUMBERS_PER_INCARNATION = 1 << 32
"""Incarnations number in separate ranges, so that a lost first snapshot of a new one always shows as a gap."""


class SourceState(msgspec.Struct, frozen=True, kw_only=True):
    """What one source wants."""

    source: str
    seen: bool = False
    """It delivered a list of its own, not only a checkpoint."""
    pods: tuple[Pod, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class SubscriberState(msgspec.Struct, frozen=True, kw_only=True):
    """What one subscriber has been sent."""

    path: Path
    number: int
    """Of the last message to it."""


class ConfigState(msgspec.Struct, frozen=True, kw_only=True):
    """All that PodConfig knows. Sources are sorted by name, subscribers by path."""

    incarnation: int = 0
    sources: tuple[SourceState, ...] = ()
    subscribers: tuple[SubscriberState, ...] = ()

    def source(self, name: str) -> SourceState:
        """Return what the source of this name wants; an unheard one wants nothing yet."""
        return next((s for s in self.sources if s.source == name), SourceState(source=name))


def begin(subscribers: tuple[Path, ...], incarnation: int) -> Decision[ConfigState]:
    """Begin an incarnation: every subscriber learns that no source has been read yet."""
    number = incarnation * NUMBERS_PER_INCARNATION
    known = tuple(SubscriberState(path=path, number=number) for path in sorted(subscribers))
    state, actions = ConfigState(incarnation=incarnation, subscribers=known), list[Action]()
    for path in subscribers:
        state, more = snapshot_to(state, path)
        actions += more
    return Decision(state=state, actions=tuple(actions))


def decide(
    state: ConfigState, message: PodConfigMessage | KernelMessage, wall: WallNs
) -> Decision[ConfigState]:
    """Absorb one message and send the resulting changes."""
    match message:
        case PodsSeen():
            return take_list(state, message, wall)
        case SnapshotWanted(asked_by=path) | Restarted(path=path):
            after, actions = snapshot_to(state, path)
            return Decision(state=after, actions=actions)
        case Alarm() | Outcome() | Heard() | StreamEnded() | ChildDied():
            return Decision(state=state)
        case _:
            assert_never(message)


def take_list(state: ConfigState, message: PodsSeen, wall: WallNs) -> Decision[ConfigState]:
    """Merge one list and send every subscriber its changes."""
    before = state.source(message.source)
    if message.restored and before.seen:
        # The source itself has spoken; a checkpoint is older than that.
        return Decision(state=state)
    changes = merge(message.source, before.pods, message.pods, wall, restored=message.restored)
    first = not before.seen and not message.restored
    after = SourceState(
        source=message.source,
        seen=before.seen or not message.restored,
        pods=changes.pods,
        dropped=changes.dropped,
    )
    others = tuple(s for s in state.sources if s.source != message.source)
    state = replace(state, sources=tuple(sorted((*others, after), key=lambda s: s.source)))
    actions: list[Action] = []
    # Not after the first of several changes, but with all of them, a source counts as seen: what it no longer wants and
    # what nobody knew of it are of one list. Nor does a new incarnation know what subscribers received before.
    whole = first and (state.incarnation > 0 or bool(before.pods))
    for subscriber in state.subscribers:
        updated, more = send_changes(state, subscriber, message.source, changes, first=first, whole=whole)
        state = with_subscriber(state, updated)
        actions += more
    return Decision(state=state, actions=tuple(actions))


def send_changes(
    state: ConfigState,
    subscriber: SubscriberState,
    source: str,
    changes: Changes,
    *,
    first: bool,
    whole: bool,
) -> tuple[SubscriberState, tuple[Action, ...]]:
    """Return the messages to one subscriber for one list's changes; `whole`: everything instead."""
    ops = changes.in_order(first=first)
    if not ops:
        return subscriber, ()
    if whole:
        return snapshot(state, subscriber)
    actions = tuple(
        Tell(
            to=subscriber.path,
            message=PodsChanged(number=subscriber.number + 1 + index, source=source, op=op, pods=pods),
        )
        for index, (op, pods) in enumerate(ops)
    )
    return replace(subscriber, number=subscriber.number + len(ops)), actions


def snapshot(state: ConfigState, subscriber: SubscriberState) -> tuple[SubscriberState, tuple[Action, ...]]:
    """Return a message with everything for one subscriber."""
    message = PodsSnapshot(
        number=subscriber.number + 1,
        seen=tuple(s.source for s in state.sources if s.seen),
        pods=tuple(SourcedPod(source=s.source, pod=pod) for s in state.sources for pod in s.pods),
    )
    updated = replace(subscriber, number=message.number)
    return updated, (Tell(to=subscriber.path, message=message),)


def snapshot_to(state: ConfigState, path: Path) -> tuple[ConfigState, tuple[Action, ...]]:
    """Send the subscriber at `path` everything; a stranger gets nothing."""
    known = next((s for s in state.subscribers if s.path == path), None)
    if known is None:
        return state, ()
    updated, actions = snapshot(state, known)
    return with_subscriber(state, updated), actions


def with_subscriber(state: ConfigState, updated: SubscriberState) -> ConfigState:
    """Return a copy that records what a subscriber has been sent."""
    others = tuple(s for s in state.subscribers if s.path != updated.path)
    return replace(state, subscribers=tuple(sorted((*others, updated), key=lambda s: s.path)))


def rows(state: ConfigState) -> tuple[SourceRow, ...]:
    """Return what the merge itself found wrong: pods it dropped, and names that two sources want."""
    found = [
        SourceRow(source=s.source, where=s.source, status="duplicate", pod=d.pod, problems=(d.problem,))
        for s in state.sources
        for d in s.dropped
    ]
    wanted: dict[str, list[tuple[str, Pod]]] = {}
    for source in state.sources:
        for pod in source.pods:
            wanted.setdefault(full_name(pod), []).append((source.source, pod))
    for name, claims in sorted(wanted.items()):
        if len(claims) > 1:
            sources = ", ".join(source for source, _ in claims)
            found += [
                SourceRow(
                    source=source,
                    where=source,
                    status="duplicate",
                    pod=description(pod),
                    problems=(
                        f"the pod {name} is wanted by several sources ({sources}): only one of them can run",
                    ),
                )
                for source, pod in claims
            ]
    return tuple(found)
