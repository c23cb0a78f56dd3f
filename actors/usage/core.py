"""UsageManager's decisions: when which part is read, what of it is believed, and when it is sent to subscribers."""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.rules.nodewatch import NEVER_ASKED, follow_node
from actors.rules.resources.cgrouppath import pods_path
from actors.usage.absorb import absorb_outcome
from actors.usage.compose import alive, compose, host_network
from actors.usage.state import IMAGES, RUNTIME, USAGE, Part, PendingCall, UsageState
from api import paths
from api.ids import Instant, OpId, Uid, WallNs
from api.lifecycle import Action, Decision, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.node import NodeChanged
from api.messages.usage import ReadUsageNow, UnwatchUsage, UsageMessage, UsageRead, WatchUsage
from api.ports.call import HostCall
from api.ports.images import ImageCall, ImageFsUsage
from api.ports.runtime import InspectPod, ListPods, RuntimeContainer, RuntimeContainerState, RuntimePod
from api.ports.runtimecall import Call
from api.ports.usage import (
    ContainerPlace,
    DiskPlace,
    FolderPlace,
    MeasureDisks,
    MeasureFolders,
    PodPlace,
    ReadContainerStats,
    ReadNode,
    ReadPods,
)

PUBLISH_S = 3.0
"""How long a round waits for its parts before it is sent without those that are late."""
WARM_ROUNDS, WARM_S = 3, 2.0
"""The first rounds follow each other sooner: pods are just coming, and a rate needs two readings."""
DEADLINES_S = {
    Part.LISTING: 8.0,
    Part.NODE: 8.0,
    Part.PODS: 20.0,
    Part.DISKS: 20.0,
    Part.FOLDERS: 60.0,
    Part.IMAGES: 20.0,
    Part.STATS: 20.0,
    Part.LOOK: 15.0,
}
UsageCall = HostCall | ImageCall | Call
NODEFS, IMAGEFS = "nodefs", "imagefs"
LOOKS_AT_ONCE = 8
LOOK_AGAIN_S = 60.0


def decide(
    before: UsageState,
    message: UsageMessage | KernelMessage | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[UsageState]:
    """Absorb a message (None: begin) and choose what to read and what to send."""
    state, actions = absorb(before, message, now)
    me, known = paths.USAGE, state.described
    asked_at, following, again_at = follow_node(me, state.node_asked_at, now, known=known)
    state, asking = ask(replace(state, node_asked_at=asked_at), message, now, new_op)
    state, telling = publish(state, now, wall)
    actions = (*actions, *following, *asking, *telling)
    return Decision(state=state, actions=actions, wake_at=min(again_at, wake_at(state)))


def absorb(
    state: UsageState, message: UsageMessage | KernelMessage | None, now: Instant
) -> tuple[UsageState, tuple[Action, ...]]:
    """Return the state after `message`, and messages to send at once."""
    match message:
        case Outcome(op=op) if op in state.asked:
            asked = state.asked[op]
            rest = {other: value for other, value in state.asked.items() if other != op}
            return absorb_outcome(replace(state, asked=rest), asked, message, now), ()
        case WatchUsage(asked_by=path):
            told = (Tell(to=path, message=UsageRead(usage=state.usage)),) if state.usage else ()
            others = tuple(other for other in state.watchers if other != path)
            return replace(state, watchers=(*others, path)), told
        case UnwatchUsage(asked_by=path):
            return replace(state, watchers=tuple(w for w in state.watchers if w != path)), ()
        case ReadUsageNow(everything=everything):
            rounds = state.rounds
            wanted = replace(rounds, everything=rounds.everything or everything, next_at=now)
            return replace(state, rounds=wanted), ()
        case NodeChanged(facts=facts):
            return replace(state, pods_group=pods_path(facts), described=True), ()
        case Restarted(path=path) if path == paths.NODE:
            return replace(state, node_asked_at=NEVER_ASKED), ()
        case Outcome() | Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded() | UsageRead() | None:
            return state, ()
        case _:
            assert_never(message)


# ---------------------------------------------------------------- ask


def ask(
    state: UsageState, message: object, now: Instant, new_op: Callable[[], OpId]
) -> tuple[UsageState, tuple[Action, ...]]:
    """Begin a round when it is due; read pods as soon as it is known which there are, and then folders.

    Not both at once: each is a long row of short reads, and two of those in one interpreter cost twice as much as one
    after the other.
    """
    calls: list[tuple[Part, UsageCall]] = []
    if now >= state.rounds.next_at:
        everything, stats_due_at = state.rounds.everything, state.rounds.stats_due_at
        if everything:
            stats_due_at = now
            folders = {u: replace(kept, due_at=now) for u, kept in state.folders.items()}
            state = replace(state, folders=folders)
        are_stats_due = now >= stats_due_at
        rounds = replace(
            state.rounds,
            number=state.rounds.number + 1,
            since=now,
            next_at=now + (WARM_S if state.rounds.number < WARM_ROUNDS else state.policy.period_s),
            stats_due_at=now + state.policy.stats_period_s if are_stats_due else stats_due_at,
            everything=False,
        )
        state = replace(state, rounds=rounds)
        node = ReadNode(pods_group=state.pods_group)
        calls = [(Part.LISTING, ListPods()), (Part.NODE, node), (Part.DISKS, disks_of(state))]
        if are_stats_due:
            calls += [(Part.IMAGES, ImageFsUsage()), (Part.STATS, ReadContainerStats())]
    elif isinstance(message, Outcome) and message.call == ListPods.__name__:
        # Also when the listing failed: the pods of the last one most likely still exist.
        calls = after_listing(state, now)
    elif isinstance(message, Outcome) and message.call == ReadPods.__name__:
        calls = folders_due(state, now)
    actions: list[Action] = []
    under_way = {asked.part for asked in state.asked.values()}
    for part, call in calls:
        if (part in under_way and part is not Part.LOOK) or is_unoffered(state, part):
            continue
        op = new_op()
        uids: tuple[Uid, ...] = ()
        if isinstance(call, ReadPods | MeasureFolders):
            uids = tuple(pod.uid for pod in call.pods)
        elif isinstance(call, InspectPod):
            uids = (call.uid,)
            looked_at = {**state.processes.looked_at, call.uid: now}
            state = replace(state, processes=replace(state.processes, looked_at=looked_at))
        asked = PendingCall(part=part, round=state.rounds.number, since=now, uids=uids)
        state = replace(state, asked={**state.asked, op: asked})
        port = port_of(call)
        actions.append(Start(op=op, port=port, call=call, deadline_s=DEADLINES_S[part]))
    return state, tuple(actions)


def is_unoffered(state: UsageState, part: Part) -> bool:
    """Tell whether the runtime said that it does not have this part."""
    return part in state.problems and state.problems[part].unoffered


def port_of(call: UsageCall) -> str:
    """Return the port that carries out a call."""
    match call:
        case HostCall():
            return USAGE
        case ImageCall():
            return IMAGES
        case Call():
            return RUNTIME
        case _:
            assert_never(call)


def disks_of(state: UsageState) -> MeasureDisks:
    """Return the file systems to measure: the agent's own, and that of images once it is known where they are."""
    disks = [DiskPlace(name=NODEFS, path=state.policy.root_dir)]
    if state.images is not None and state.images.reading.mountpoint:
        disks.append(DiskPlace(name=IMAGEFS, path=state.images.reading.mountpoint))
    return MeasureDisks(disks=tuple(disks))


def after_listing(state: UsageState, now: Instant) -> list[tuple[Part, UsageCall]]:
    """Return the calls that need to know which pods there are; none about no pods."""
    pods = tuple(pod for pod in state.listed if alive(pod))
    places = tuple(place for pod in pods if (place := place_of(state, pod)).containers)
    calls = [(Part.PODS, ReadPods(pods=places))] if places else folders_due(state, now)
    nameless = [pod.uid for pod in pods if any(is_nameless(state, c) for c in pod.containers)]
    looked_at = state.processes.looked_at
    ready = [uid for uid in nameless if now >= looked_at.get(uid, float("-inf")) + LOOK_AGAIN_S]
    return [*calls, *((Part.LOOK, InspectPod(uid=uid)) for uid in ready[:LOOKS_AT_ONCE])]


def folders_due(state: UsageState, now: Instant) -> list[tuple[Part, UsageCall]]:
    """Return the call that walks the folders of the pods that are due; none when no pod is."""
    policy = state.policy
    folders = tuple(
        FolderPlace(
            uid=pod.uid,
            pod_folder=f"{policy.root_dir}/pods/{pod.uid}",
            log_folder=f"{policy.log_root}/{pod.namespace}_{pod.name}_{pod.uid}",
        )
        for pod in state.listed
        if alive(pod) and (pod.uid not in state.folders or now >= state.folders[pod.uid].due_at)
    )
    return [(Part.FOLDERS, MeasureFolders(pods=folders))] if folders else []


def is_nameless(state: UsageState, container: RuntimeContainer) -> bool:
    """Return whether a container runs of which no process is known."""
    running = container.state is RuntimeContainerState.RUNNING
    return running and container.pid <= 0 and container.id not in state.processes.pids


def place_of(state: UsageState, pod: RuntimePod) -> PodPlace:
    """Return where a pod's cgroups are found: by the processes of its running containers."""
    return PodPlace(
        uid=pod.uid,
        containers=tuple(
            ContainerPlace(
                id=container.id,
                pid=container.pid or state.processes.pids.get(container.id, 0),
                started_at=container.started_at,
            )
            for container in pod.containers
            if container.state is RuntimeContainerState.RUNNING and not is_nameless(state, container)
        ),
        network=not host_network(pod),
    )


# ---------------------------------------------------------------- publish


def publish(state: UsageState, now: Instant, wall: WallNs) -> tuple[UsageState, tuple[Action, ...]]:
    """Send the round to all subscribers when all its parts are in, or `PUBLISH_S` is over."""
    rounds = state.rounds
    if rounds.published >= rounds.number:
        return state, ()
    open_parts = [asked for asked in state.asked.values() if asked.round == rounds.number]
    if open_parts and now < rounds.since + PUBLISH_S:
        return state, ()
    usage = compose(state, now, wall)
    told = replace(
        rounds, published=rounds.number, took_s=now - rounds.since, late=rounds.late + bool(open_parts)
    )
    state = replace(state, usage=usage, rounds=told)
    return state, tuple(Tell(to=path, message=UsageRead(usage=usage)) for path in state.watchers)


def wake_at(state: UsageState) -> Instant:
    """Return when to look again at the latest."""
    rounds = state.rounds
    if rounds.published < rounds.number:
        return min(rounds.since + PUBLISH_S, rounds.next_at)
    return rounds.next_at
