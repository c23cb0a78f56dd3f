"""What must be true once everything is healed and quiet: every wanted pod as its script says, all others gone."""

from __future__ import annotations

from collections.abc import Iterator

from actors.pod.state import Finished, PodState, Syncing
from actors.pod.support import unsupported_paths
from actors.rules.restart import restarts_after
from api.containers import ContainerState, RuntimePod
from api.host import ListPodFolders
from api.ids import Path, Uid
from api.introspection import ActorState
from api.objects.container import Container
from api.objects.podstatus import ContainerStatus
from tests.harness.world import World

TERMINAL = ("Succeeded", "Failed")


def unsettled(world: World, wanted: frozenset[Uid]) -> str:
    """Return the first thing that is not yet as it must be, empty when all is."""
    return next(complaints(world, wanted), "")


def complaints(world: World, wanted: frozenset[Uid]) -> Iterator[str]:
    """Yield what is not yet as it must be."""
    system = world.system
    if system is None or system.halted:
        yield "the agent does not run"
        return
    states: dict[Uid, PodState] = {}
    for row in system.list_actors():
        if row.state is ActorState.DEAD:
            if (
                row.death_cause
                and row.path.rpartition("/")[2] in wanted
                and system._cells.get(row.path) is None
            ):
                yield f"{row.path} is dead: {row.death_cause}"
            continue
        if row.state is not ActorState.ALIVE:
            yield f"{row.path} is {row.state}"
        committed = system.committed(row.path)
        if isinstance(committed, PodState):
            states[committed.uid] = committed
    truth = {pod.uid: pod for pod in world.runtime.snapshot().pods}
    for uid in sorted(wanted):
        state = states.get(uid)
        if state is None:
            yield f"wanted pod {uid} has no actor"
            continue
        yield from pod_complaints(world, state, truth.get(uid))
    yield from leftovers(world, wanted, states, truth)


def leftovers(
    world: World, wanted: frozenset[Uid], states: dict[Uid, PodState], truth: dict[Uid, RuntimePod]
) -> Iterator[str]:
    """Yield each trace of a pod that nobody wants."""
    for uid, pod in truth.items():
        if uid not in wanted and pod.ours:
            yield f"orphan {uid} in the runtime: {len(pod.sandboxes)} sandboxes, {len(pod.containers)} containers"
    for uid, state in states.items():
        if uid not in wanted:
            yield f"unwanted pod {uid} still has an actor: {type(state.life).__name__}"
    for section in ("pods", "status"):
        for uid in world.ledger.read(section):
            if uid not in wanted:
                yield f"unwanted pod {uid} is still in the ledger's section {section}"
    listed = world.folders.perform(ListPodFolders(), 1.0)
    for uid in sorted({*listed.uids, *(uid for uid, _ in listed.log_directories)}):
        if uid not in wanted:
            yield f"folders or logs of unwanted pod {uid} are left"


def pod_complaints(world: World, state: PodState, truth: RuntimePod | None) -> Iterator[str]:
    """Yield what is not as it must be of one wanted pod."""
    pod = state.desired
    if pod is None:
        yield f"pod {state.uid} was not told what it should be"
        return
    if state.inflight or state.inherited:
        calls = [type(flight.what.call).__name__ for flight in state.inflight]
        yield f"pod {state.uid} has calls in flight: {calls or state.inherited}"
        return
    if state.look:
        yield f"pod {state.uid} has still to look"
        return
    if isinstance(state.life, Finished):
        if state.base.phase not in TERMINAL and state.uid not in world.damaged:
            yield f"pod {state.uid} is finished in phase {state.base.phase}"
        if truth is not None and any(c.state is ContainerState.RUNNING for c in truth.containers):
            yield f"pod {state.uid} is finished and runs"
        return
    if not isinstance(state.life, Syncing):
        yield f"pod {state.uid} is {type(state.life).__name__}"
        return
    if unsupported_paths(pod, confined=True):
        if state.base.reason != "Unsupported" or (truth is not None and truth.sandboxes):
            yield f"pod {state.uid} is not said to be unsupported"
        return
    if state.base.phase in TERMINAL:
        yield f"pod {state.uid} is {state.base.phase} and not finished"
    statuses = {status.name: status for status in state.base.container_statuses}
    for container in pod.spec.containers:
        said = container_complaint(world, state, container, statuses.get(container.name), truth)
        if said:
            yield f"pod {state.uid} container {container.name}: {said}"


def container_complaint(
    world: World,
    state: PodState,
    container: Container,
    status: ContainerStatus | None,
    truth: RuntimePod | None,
) -> str:
    """Return what is not as it must be of one container of a pod that is to run."""
    assert state.desired is not None
    if status is None:
        return "it has no status"
    newest = next((c for c in (truth.containers if truth else ()) if c.name == container.name), None)
    waiting = status.state.waiting
    if newest is None:
        if "nowhere.local" in container.image:
            said = waiting.reason if waiting else "not waiting"
            return (
                ""
                if said in ("ErrImagePull", "ImagePullBackOff")
                else f"its image does not exist and it is {said}"
            )
        return "it never ran"
    if newest.state is ContainerState.RUNNING:
        return "" if status.state.running and status.ready else "it runs and is not called running"
    if newest.state is not ContainerState.EXITED or newest.exit_code is None:
        return f"it is {newest.state}"
    if restarts_after(state.desired.spec, container, newest.exit_code):
        return "" if waiting and waiting.reason == "CrashLoopBackOff" else "it ended and waits for nothing"
    ended = status.state.terminated
    if ended is None or ended.exit_code != newest.exit_code:
        return f"it ended with {newest.exit_code} and that is not published"
    return ""


def actors_of(world: World, complaint: str) -> tuple[Path, ...]:
    """Return the actors that a complaint is about."""
    system = world.system
    assert system is not None
    rows = [row.path for row in system.list_actors()]
    return tuple(path for path in rows if path.rpartition("/")[2] and path.rpartition("/")[2] in complaint)
