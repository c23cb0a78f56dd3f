"""OomWatcher's decisions: which kill makes an event of the node, and for which container it counts.

Counting is by the cgroup of who was killed, whosever limit it was for. A container that is killed as a whole says
``OOMKilled`` by itself, as the runtime shows it: nothing here changes what a pod says.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

from msgspec.structs import replace

from actors.oom.state import OOMS, RUNTIME, AttributedKill, OomState, Toll
from actors.rules.nodeevent import NodeEvent, told
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
"""So long after it a kill may find its container."""
SILENCE_S = 35.0
"""Without usage for so long it is asked for again."""
SETTLED_S = 2.0
"""A log that is open for so long can be read; one that may not be ends at once."""
KEPT_KILLS = 50
KEPT_TOLLS = 512
SHORTEST_ID = 8
"""A shorter word may be in a path by chance."""


def decide(
    before: OomState,
    message: UsageRead | KernelMessage | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[OomState]:
    """Take in a message (None: begin) and choose what to do."""
    return plan(absorb(before, message, now, wall), now, new_op)


# ---------------------------------------------------------------- absorb


def absorb(
    state: OomState, message: UsageRead | KernelMessage | None, now: Instant, wall: WallNs
) -> OomState:
    """Return what is known after `message`; decides nothing."""
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
    """Take in a kill."""
    seen = AttributedKill(at=wall, kill=kill, since=now)
    if kill.is_system:
        state = happened(replace(state, system=state.system + 1), wall, system_message(kill))
    if kill.victim_group == MACHINE:
        return replace(state, kills=(*state.kills, seen)[-KEPT_KILLS:])
    return replace(state, open=(*state.open, seen)[-KEPT_KILLS:])


def system_message(kill: OomKill) -> str:
    """Return a kubelet's words for a kill of the machine's own."""
    known = kill.process and kill.pid
    victim = f", victim process: {kill.process}, pid: {kill.pid}" if known else ""
    return f"System OOM encountered{victim}"


def happened(state: OomState, wall: WallNs, message: str) -> OomState:
    """Add a fact about the node; an equal one counts up."""
    fact = NodeEvent(at=wall, reason=SYSTEM_OOM, message=message)
    return replace(state, happenings=told(state.happenings, fact))


def with_owners(state: OomState, listing: PodListing, now: Instant) -> OomState:
    """Find whose kills they were; one that is nobody's is looked for a while, since a listing may lag behind."""
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
    """Return the container whose id the path of a cgroup bears."""
    for pod in listing.pods:
        for container in pod.containers:
            identity = container.id.rpartition("://")[2]
            if len(identity) >= SHORTEST_ID and any(identity in step for step in group.split("/")):
                return pod, container
    return None


def counted(state: OomState, pod: RuntimePod | PodUsage, container: str, kills: int) -> OomState:
    """Count kills for a container."""
    known = next((one for one in state.tolls if (one.uid, one.container) == (pod.uid, container)), None)
    others = tuple(one for one in state.tolls if one is not known)
    toll = Toll(
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        container=container,
        kills=kills + (known.kills if known else 0),
    )
    return replace(state, tolls=(*others, toll)[-KEPT_TOLLS:])


def with_counters(state: OomState, usage: Usage) -> OomState:
    """Count by what cgroups counted since the reading before; what was there at the first one is no news."""
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
    """Return how many processes of a container were killed since the reading before."""
    return (row.oom_kills or 0) - before.get(row.id, 0)


# ---------------------------------------------------------------- plan


def plan(state: OomState, now: Instant, new_op: Callable[[], OpId]) -> Decision[OomState]:
    """Listen, read the counters while nothing is heard, and ask whose kills they were."""
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
    """Have usage told for as long as the kernel's log can not be had: two sources would count twice."""
    if not state.subscription.is_open and now >= state.heard_at + SILENCE_S:
        actions.append(Tell(to=paths.USAGE, message=WatchUsage(asked_by=paths.OOM)))
        return replace(state, is_watching=True, heard_at=now)
    if state.is_watching and state.subscription.is_open and now >= state.subscription.since + SETTLED_S:
        actions.append(Tell(to=paths.USAGE, message=UnwatchUsage(asked_by=paths.OOM)))
        return replace(state, is_watching=False, heard_at=float("-inf"), counters=None)
    return state
