"""Merges the lists of all sources and sends numbered, ordered changes to subscribers.

```text
sources --PodsSeen--> absorb (merge.py) --+--> PodsChanged / PodsSnapshot --> subscribers
subscribers --Subscribe, SnapshotWanted --+
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
from api.messages.podconfig import NotificationMode, PodConfigMessage, PodsSeen, SnapshotWanted, Subscribe
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
    mode: NotificationMode
    number: int
    """Of the last message to it."""
    kept: bool = False
    """Subscribed by the assembly: also receives messages while it is dead, since it may not have started yet."""


class ConfigState(msgspec.Struct, frozen=True, kw_only=True):
    """All that PodConfig knows. Sources are sorted by name, subscribers by path."""

    incarnation: int = 0
    sources: tuple[SourceState, ...] = ()
    subscribers: tuple[SubscriberState, ...] = ()

    def source(self, name: str) -> SourceState:
        """Return what the source of this name wants; an unheard one wants nothing yet."""
        return next((s for s in self.sources if s.source == name), SourceState(source=name))


def begin(subscribers: tuple[tuple[Path, NotificationMode], ...], incarnation: int) -> Decision[ConfigState]:
    """Begin an incarnation: every subscriber learns that no source has been read yet."""
    state, actions = ConfigState(incarnation=incarnation), list[Action]()
    for path, mode in subscribers:
        number = incarnation * NUMBERS_PER_INCARNATION
        updated, more = snapshot(state, SubscriberState(path=path, mode=mode, number=number, kept=True))
        state = with_subscriber(state, updated)
        actions += more
    return Decision(state=state, actions=tuple(actions))


def decide(
    state: ConfigState, message: PodConfigMessage | KernelMessage, wall: WallNs
) -> Decision[ConfigState]:
    """Absorb one message and send the resulting changes."""
    match message:
        case PodsSeen():
            return take_list(state, message, wall)
        case Subscribe():
            after, actions = subscribed(state, message.subscriber, message.mode)
            return Decision(state=after, actions=actions)
        case SnapshotWanted():
            # A sender without a subscription lost it with an earlier incarnation.
            after, actions = snapshot_to(state, message.asked_by, subscribe=True)
            return Decision(state=after, actions=actions)
        case Restarted():
            after, actions = snapshot_to(state, message.path, subscribe=False)
            return Decision(state=after, actions=actions)
        case ChildDied():
            rest = tuple(s for s in state.subscribers if s.kept or s.path != message.path)
            return Decision(state=replace(state, subscribers=rest))
        case Alarm() | Outcome() | Heard() | StreamEnded():
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
    for subscriber in state.subscribers:
        updated, more = send_changes(state, subscriber, message.source, changes, first=first)
        state = with_subscriber(state, updated)
        actions += more
    return Decision(state=state, actions=tuple(actions))


def send_changes(
    state: ConfigState, subscriber: SubscriberState, source: str, changes: Changes, *, first: bool
) -> tuple[SubscriberState, tuple[Action, ...]]:
    """Return the messages to one subscriber for one list's changes."""
    ops = changes.in_order(first=first)
    if not ops:
        return subscriber, ()
    match subscriber.mode:
        case NotificationMode.SNAPSHOT:
            whole = True
        case NotificationMode.SNAPSHOT_AND_UPDATES:
            whole = first or changes.came_or_went()
        case NotificationMode.INCREMENTAL:
            # After a restart this actor does not know what the subscriber received before, so changes alone
            # would not show which pods of a source are gone: its first list is sent as a whole.
            whole = first and state.incarnation > 0
        case _:
            assert_never(subscriber.mode)
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


def subscribed(
    state: ConfigState, path: Path, mode: NotificationMode
) -> tuple[ConfigState, tuple[Action, ...]]:
    """Subscribe `path`, or change its mode, and send it everything."""
    known = next((s for s in state.subscribers if s.path == path), None)
    if known is None:
        known = SubscriberState(path=path, mode=mode, number=state.incarnation * NUMBERS_PER_INCARNATION)
    updated, actions = snapshot(state, replace(known, mode=mode))
    return with_subscriber(state, updated), actions


def snapshot_to(state: ConfigState, path: Path, *, subscribe: bool) -> tuple[ConfigState, tuple[Action, ...]]:
    """Send the subscriber at `path` everything; a stranger only when it asked (`subscribe`)."""
    known = next((s for s in state.subscribers if s.path == path), None)
    if known is not None:
        return subscribed(state, path, known.mode)
    if subscribe:
        return subscribed(state, path, NotificationMode.INCREMENTAL)
    return state, ()


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
