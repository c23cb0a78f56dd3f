"""What must be true once everything is healed and quiet: every wanted pod as its script says, all others gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from actors.events.state import EventsState
from actors.pod.explain import age_s
from actors.pod.hookrecord import HookKind
from actors.pod.spec.cgroup import asked_milli
from actors.pod.spec.support import unsupported_paths
from actors.pod.state import Finished, PodState, Syncing, Terminating
from actors.rules.container.restart import restarts_after
from actors.rules.resources.cgroupvalue import shares_of
from actors.rules.resources.qos import qos_class
from api import paths
from api.ids import Path, Uid
from api.kube.objects.container import Container
from api.kube.objects.pod import PodSpec
from api.kube.objects.podstatus import ContainerStatus
from api.messages.pod import KillCause
from api.ports.podfiles import ListPodFolders
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState, RuntimePod
from api.shown.introspection import ActorState
from tests.harness.check.initial import init_complaint
from tests.harness.check.statuscheck import holds
from tests.harness.eviction.evictionrule import eviction_complaints
from tests.harness.world.clusterrule import cluster_complaints
from tests.harness.world.kernelrule import kernel_complaints
from tests.harness.world.noderule import node_complaints
from tests.harness.world.probescript import CALM_AT, word_of
from tests.harness.world.resize import resize_complaints
from tests.harness.world.usagerule import usage_complaints
from tests.harness.world.world import World

TERMINAL = ("Succeeded", "Failed")
HANGING = "exec run"
"""A hook that never ends."""
DEADLINE_SLACK_S = 60.0
KILLED_S = 170.0
"""Within which a liveness probe that always fails kills: delays, three periods, and what was lost told again."""


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
    under_way: dict[Uid, set[int]] = {}
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
            under_way[committed.uid] = {operation.op for operation in row.operations}
    truth = {pod.uid: pod for pod in world.runtime.snapshot().pods}
    for uid in sorted(wanted):
        state = states.get(uid)
        if state is None:
            yield f"wanted pod {uid} has no actor"
            continue
        yield from pod_complaints(world, state, truth.get(uid), under_way[uid])
    recorder = system.committed(paths.EVENTS)
    kept = recorder.entries if isinstance(recorder, EventsState) else {}
    for uid in sorted(wanted):
        if uid not in kept or not kept[uid].claimed:
            yield f"no record keeps the events of pod {uid}"
    yield from cgroup_complaints(world, states)
    yield from status_complaints(world, (states[uid] for uid in sorted(wanted) if uid in states))
    yield from leftovers(world, wanted, states, truth)
    yield from usage_complaints(world, truth)
    yield from eviction_complaints(world)
    yield from kernel_complaints(world)
    yield from node_complaints(world, (states[uid] for uid in sorted(wanted) if uid in states))
    yield from resize_complaints(world, wanted, states, truth)
    yield from cluster_complaints(world, wanted, states)


def status_complaints(world: World, states: Iterable[PodState]) -> Iterator[str]:
    """Yield each pod whose newest status the ledger does not hold; a final one must outlive the machine's power too."""
    for state in states:
        if state.uid in world.damaged:
            # Nobody writes again what was whole when it was written.
            continue
        key = ("status", state.uid)
        if not holds(world.ledger.read("status").get(state.uid), state.base):
            yield f"the ledger does not hold the newest status of pod {state.uid}, {state.base.phase}"
        elif state.base.phase in TERMINAL and not holds(world.ledger._disk.get(key), state.base):
            yield f"the final status of pod {state.uid} is not durable"


def cgroup_complaints(world: World, states: dict[Uid, PodState]) -> Iterator[str]:
    """Yield what is not as it must be of the cgroups above the pods: Burstable ones get what its pods request."""
    asked = sum(
        asked_milli(state.desired.spec)
        for state in states.values()
        if state.desired is not None
        and isinstance(state.life, Syncing | Terminating)
        and qos_class(state.desired.spec) == "Burstable"
    )
    given = world.cgroups.groups.get("/kubepods/burstable")
    if given is None or given.cpu_shares != shares_of(asked):
        yield f"Burstable pods request {asked}m of CPU and have {given}"


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
    for path in sorted(world.cgroups.groups):
        name = path.rpartition("/")[2]
        if name.startswith("pod") and name.removeprefix("pod") not in wanted:
            yield f"cgroup {path} of an unwanted pod is left"
    for section in ("pods", "status"):
        for uid in world.ledger.read(section):
            if uid not in wanted:
                yield f"unwanted pod {uid} is still in the ledger's section {section}"
    for uid in world.volumes.uids():
        if uid not in wanted:
            yield f"volumes of unwanted pod {uid} are left: {world.volumes.paths_of(uid)}"
    listed = world.folders.perform(ListPodFolders(), 1.0)
    for uid in sorted({*listed.uids, *(uid for uid, _ in listed.log_directories)}):
        if uid not in wanted:
            yield f"folders or logs of unwanted pod {uid} are left"


def pod_complaints(
    world: World, state: PodState, truth: RuntimePod | None, under_way: set[int]
) -> Iterator[str]:
    """Yield what is not as it must be of one wanted pod."""
    pod = state.desired
    if pod is None:
        yield f"pod {state.uid} was not told what it should be"
        return
    if state.calls.inflight or state.calls.inherited:
        calls = [type(flight.what.call).__name__ for flight in state.calls.inflight]
        yield f"pod {state.uid} has calls in flight: {calls or state.calls.inherited}"
        return
    if state.view.must_inspect:
        yield f"pod {state.uid} has still to look"
        return
    if isinstance(state.life, Finished):
        if state.base.phase not in TERMINAL and state.uid not in world.damaged:
            yield f"pod {state.uid} is finished in phase {state.base.phase}"
        if truth is not None and any(c.state is RuntimeContainerState.RUNNING for c in truth.containers):
            yield f"pod {state.uid} is finished and runs"
        if world.volumes.paths_of(state.uid):
            yield f"pod {state.uid} is finished and its volumes are left"
        evicted = state.killed is not None and state.killed.cause is KillCause.EVICTED
        if evicted and (state.base.phase, state.base.reason) != ("Failed", "Evicted"):
            yield f"pod {state.uid} was evicted and is {state.base.phase} {state.base.reason}"
        return
    if not isinstance(state.life, Syncing):
        yield f"pod {state.uid} is {type(state.life).__name__}"
        return
    if unsupported_paths(pod, confined=True):
        if state.base.reason != "Unsupported" or (truth is not None and truth.sandboxes):
            yield f"pod {state.uid} is not said to be unsupported"
        return
    if truth is not None and truth.sandboxes and state.memo.cgroup_parent not in world.cgroups.groups:
        yield f"pod {state.uid} has no cgroup {state.memo.cgroup_parent}"
    if state.base.phase in TERMINAL:
        yield f"pod {state.uid} is {state.base.phase} and not finished"
    said, to_run = init_complaint(state, truth)
    if said:
        yield f"pod {state.uid} {said}"
    if not to_run:
        return
    limit_s = pod.spec.active_deadline_seconds
    active_s = age_s(state.base.start_time, world.time.wall())
    if limit_s is not None and active_s is not None and active_s > limit_s + DEADLINE_SLACK_S:
        yield f"pod {state.uid} is active since {active_s:.0f} s and was to be for {limit_s} s"
    statuses = {status.name: status for status in state.base.container_statuses}
    for container in pod.spec.containers:
        if hook_hangs(state, container, under_way):
            # Nothing after it is started, and that is how it stays.
            return
        said = container_complaint(world, state, container, statuses.get(container.name), truth)
        if said:
            yield f"pod {state.uid} container {container.name}: {said}"
    if is_over(pod.spec, truth):
        yield f"pod {state.uid} has nothing left but sidecars and is not finished"


def is_over(spec: PodSpec, truth: RuntimePod | None) -> bool:
    """Tell whether every regular container of a pod ended for good."""
    for container in spec.containers:
        newest = next((c for c in (truth.containers if truth else ()) if c.name == container.name), None)
        if newest is None or newest.state is not RuntimeContainerState.EXITED or newest.exit_code is None:
            return False
        if restarts_after(spec, container, newest.exit_code):
            return False
    return True


def hook_hangs(state: PodState, container: Container, under_way: set[int]) -> bool:
    """Tell whether a container's postStart hook is under way and never ends: by its script, or by a fault that struck its call."""
    return any(
        run.container == container.name
        and run.kind is HookKind.POST_START
        and (run.what == HANGING or (run.since < CALM_AT and run.op in under_way))
        for run in state.hooks
    )


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
        ended = status.state.terminated
        if ended is not None and not restarts_after(state.desired.spec, container, ended.exit_code):
            # Somebody removed the record of what had ended for good.
            return ""
        return "it never ran"
    if newest.state is RuntimeContainerState.RUNNING:
        if not status.state.running or status.ready != (word_of(container.readiness_probe) != "ill"):
            return "it runs and is not called running, or not called ready when it should, or should not"
        if (
            word_of(container.liveness_probe) == "ill"
            and world.time.now() - started_s(world, newest) > KILLED_S
        ):
            return f"its liveness probe fails and it has run for more than {KILLED_S:g} s"
        return ""
    if newest.state is not RuntimeContainerState.EXITED or newest.exit_code is None:
        return f"it is {newest.state}"
    if restarts_after(state.desired.spec, container, newest.exit_code):
        backs_off = waiting is not None and waiting.reason in ("CrashLoopBackOff", "PostStartHookError")
        return "" if backs_off else "it ended and waits for nothing"
    ended = status.state.terminated
    if ended is None or ended.exit_code != newest.exit_code:
        return f"it ended with {newest.exit_code} and that is not published"
    return ""


def started_s(world: World, instance: Instance) -> float:
    """Return when an instance started, in virtual time."""
    assert instance.started_at is not None
    return world.time.now() - (world.time.wall() - instance.started_at) / 1e9


def actors_of(world: World, complaint: str) -> tuple[Path, ...]:
    """Return the actors that a complaint is about."""
    system = world.system
    assert system is not None
    rows = [row.path for row in system.list_actors()]
    return tuple(path for path in rows if path.rpartition("/")[2] and path.rpartition("/")[2] in complaint)
