"""OomWatcher's decisions: which OOM kill is an event of the node, and for which container it counts.

A kill counts for the cgroup of the killed process, whichever cgroup's limit was reached. The status ``OOMKilled`` of a
container comes from the runtime, not from here.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

from msgspec.structs import replace

from actors.oom.state import OOMS, RUNTIME, AttributedKill, OomCount, OomState
from actors.rules.nodeevent import NodeEvent, with_node_event
from api import paths
from api.ids import Instant, OpId, WallNs
from api.lifecycle import Action, Decision, Listen, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.usage import UnwatchUsage, UsageRead, WatchUsage
from api.ports.ooms import MACHINE, OomKill
from api.ports.runtime import ListPods, PodListing, RuntimeContainer, RuntimePod
from api.usage import ContainerUsage, PodUsage, Usage

SYSTEM_OOM = "SystemOOM"
LIST_AGAIN_S = 1.0
GIVE_UP_S = 30.0
"""For how long to look for the container of a kill."""
SILENCE_S = 35.0
"""Without usage for this long, subscribe again."""
SETTLED_S = 2.0
"""A log that stays open for this long is readable; without permission it ends at once."""
KEPT_KILLS = 50
KEPT_COUNTS = 512
SHORTEST_ID = 8
"""A shorter id may occur in a path by chance."""


def decide(
    before: OomState,
    message: UsageRead | KernelMessage | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[OomState]:
    """Absorb a message (None: begin) and choose the next actions."""
    return plan(absorb(before, message, now, wall), now, new_op)


# ---------------------------------------------------------------- absorb


def absorb(
    state: OomState, message: UsageRead | KernelMessage | None, now: Instant, wall: WallNs
) -> OomState:
    """Return the state after `message`; decides nothing."""
    match message:
        case Heard(item=OomKill() as kill):
            return with_kill(state, kill, now, wall)
        case StreamEnded(failure=failure):
            return replace(state, subscription=state.subscription.ended(failure, now))
        case UsageRead(usage=usage):
            return with_counters(replace(state, heard_at=now), usage) if state.is_watching else state
        case Outcome(op=op, result=result) if op == state.listing:
            state = replace(state, listing=None, retry_at=now + LIST_AGAIN_S)
            return with_owners(state, result, now) if isinstance(result, PodListing) else state
        case Outcome() | Alarm() | Restarted() | ChildDied() | Heard() | None:
            return state
        case _:
            assert_never(message)


def with_kill(state: OomState, kill: OomKill, now: Instant, wall: WallNs) -> OomState:
    """Absorb a kill."""
    seen = AttributedKill(at=wall, kill=kill, since=now)
    if kill.is_system:
        state = happened(replace(state, system=state.system + 1), wall, system_message(kill))
    if kill.victim_group == MACHINE:
        return replace(state, kills=(*state.kills, seen)[-KEPT_KILLS:])
    return replace(state, open=(*state.open, seen)[-KEPT_KILLS:])


def system_message(kill: OomKill) -> str:
    """Return a kubelet's message for a system OOM kill."""
    known = kill.process and kill.pid
    victim = f", victim process: {kill.process}, pid: {kill.pid}" if known else ""
    return f"System OOM encountered{victim}"


def happened(state: OomState, wall: WallNs, message: str) -> OomState:
    """Add an event of the node; an equal one counts up."""
    fact = NodeEvent(at=wall, reason=SYSTEM_OOM, message=message)
    return replace(state, node_events=with_node_event(state.node_events, fact))


def with_owners(state: OomState, listing: PodListing, now: Instant) -> OomState:
    """Find the containers of kills; retry for a while, since a listing may lag behind."""
    left = []
    for seen in state.open:
        found = owner_of(listing, seen.kill.victim_group)
        if found is None and now < seen.since + GIVE_UP_S:
            left.append(seen)
            continue
        if found is not None:
            pod, container = found
            seen = replace(seen, container=f"{pod.namespace}/{pod.name}/{container.name}")  # noqa: PLW2901  # the same kill
            if pod.ours or state.take_over:
                state = counted(state, pod, container.name, 1)
        state = replace(state, kills=(*state.kills, seen)[-KEPT_KILLS:])
    return replace(state, open=tuple(left))


def owner_of(listing: PodListing, group: str) -> tuple[RuntimePod, RuntimeContainer] | None:
    """Return the container whose id is in the path of a cgroup."""
    for pod in listing.pods:
        for container in pod.containers:
            identity = container.id.rpartition("://")[2]
            if len(identity) >= SHORTEST_ID and any(identity in step for step in group.split("/")):
                return pod, container
    return None


def counted(state: OomState, pod: RuntimePod | PodUsage, container: str, kills: int) -> OomState:
    """Count kills for a container."""
    known = next((one for one in state.oom_counts if (one.uid, one.container) == (pod.uid, container)), None)
    others = tuple(one for one in state.oom_counts if one is not known)
    row = OomCount(
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        container=container,
        kills=kills + (known.kills if known else 0),
    )
    return replace(state, oom_counts=(*others, row)[-KEPT_COUNTS:])


def with_counters(state: OomState, usage: Usage) -> OomState:
    """Count by the counters of cgroups since the previous reading; the first reading is the baseline."""
    rows = [(pod, row) for pod in usage.pods for row in pod.containers if row.oom_kills is not None]
    before = state.counters
    state = replace(state, counters={row.id: row.oom_kills or 0 for _, row in rows})
    if before is None or state.subscription.is_open:
        return state
    for pod, row in rows:
        more = since(before, row)
        if more > 0:
            state = counted(state, pod, row.name, more)
    return state


def since(before: Mapping[str, int], row: ContainerUsage) -> int:
    """Return the OOM kills of a container since the previous reading."""
    return (row.oom_kills or 0) - before.get(row.id, 0)


# ---------------------------------------------------------------- plan


def plan(state: OomState, now: Instant, new_op: Callable[[], OpId]) -> Decision[OomState]:
    """Subscribe to the kernel's log, read counters without it, and find the containers of kills."""
    actions: list[Action] = []
    if state.subscription.is_due(now):
        actions.append(Listen(stream=OOMS))
        state = replace(state, subscription=state.subscription.opened(now))
    state = watch(state, actions, now)
    if state.open and state.listing is None and now >= state.retry_at:
        op = new_op()
        actions.append(Start(op=op, port=RUNTIME, call=ListPods(), deadline_s=state.deadline_s))
        state = replace(state, listing=op)
    wake_at = [*state.subscription.wakes()]
    if state.is_watching:
        wake_at.append(
            state.subscription.since + SETTLED_S if state.subscription.is_open else state.heard_at + SILENCE_S
        )
    if state.open and state.listing is None:
        wake_at.append(state.retry_at)
    return Decision(state=state, actions=tuple(actions), wake_at=min(wake_at, default=None))


def watch(state: OomState, actions: list[Action], now: Instant) -> OomState:
    """Subscribe to usage only without the kernel's log: two sources would count twice."""
    if not state.subscription.is_open and now >= state.heard_at + SILENCE_S:
        actions.append(Tell(to=paths.USAGE, message=WatchUsage(asked_by=paths.OOM)))
        return replace(state, is_watching=True, heard_at=now)
    if state.is_watching and state.subscription.is_open and now >= state.subscription.since + SETTLED_S:
        actions.append(Tell(to=paths.USAGE, message=UnwatchUsage(asked_by=paths.OOM)))
        return replace(state, is_watching=False, heard_at=float("-inf"), counters=None)
    return state
