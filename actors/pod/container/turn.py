"""Whose turn it is in a pod: which containers may start now, what they are numbered, what old ones leave first.

The rules are in `actors.rules.container.progress`; here they meet what one pod's actor knows.
"""

import msgspec

from actors.pod.container.health import started_names
from actors.pod.life.stage import NS, Stage, host_call, remember, removal_of_logs, runtime_call
from actors.pod.state import PRUNING, PodState
from actors.pod.status.compose import next_attempt, status_named
from actors.rules.container.instance import newest_of
from actors.rules.container.progress import Progress, active_id, is_due, progress
from actors.rules.container.role import is_init, is_sidecar
from actors.rules.identity import kept_for_last
from api.ids import Instant, WallNs
from api.kube.objects import pod as v1
from api.kube.objects.container import Container
from api.ports.runtime import RemoveContainer, RuntimeContainerState, RuntimePod
from api.ports.runtime import RuntimeContainer as Instance


@kept_for_last
def progress_of(state: PodState) -> Progress:
    """Return how far the pod is in its newest sandbox."""
    pod, observed = state.effective, state.observed
    if pod is None or observed is None:
        return Progress()
    started = started_names(state) if pod.spec.init_containers else ()
    return progress(pod.spec, observed, active_id(observed), started)


def is_turn(state: PodState, container: Container) -> bool:
    """Tell whether a container is to be started now, unless something holds it up."""
    pod, observed = state.effective, state.observed
    if pod is None or observed is None:
        return False
    if not pod.spec.init_containers:
        # Asked for each container with every message to a pod, most of which have no init containers.
        newest = newest_of(observed, container.name)
        return is_due(pod.spec, container, newest, sandbox_id=active_id(observed))
    return container.name in progress_of(state).due


def attempt_of(state: PodState, name: str, newest: Instance | None) -> int:
    """Return the number of the next instance of a container: never one that was used before."""
    used = dict(state.memo.used).get(name, -1)
    return max(next_attempt(newest, status_named(state.base, name)), used + 1)


def purge(state: PodState, pod: v1.Pod, observed: RuntimePod, sandbox_id: str, now: Instant) -> Stage | None:
    """Return the stage that removes what init containers left in other sandboxes, None when there is nothing.

    An old result must not count for the sandbox of today, whoever reads it. What is lost with the records is their
    numbers: these are remembered first.
    """
    pruning = state.hold(PRUNING)
    if not pod.spec.init_containers or (pruning is not None and now < pruning.until):
        return None
    gone = (RuntimeContainerState.EXITED, RuntimeContainerState.CREATED)
    old = [
        one
        for one in observed.containers
        if one.sandbox_id != sandbox_id and one.state in gone and is_init(pod.spec, one.name)
    ]
    if not old:
        return None
    memo = msgspec.structs.replace(state.memo, kill=None, used=used_after(state.memo.used, old))
    if memo != state.remembered:
        return remember(state, memo, "remembering how often its init containers ran")
    records = (runtime_call(state, RemoveContainer(uid=state.uid, container_id=one.id)) for one in old)
    logs = (host_call("podfiles", removal_of_logs(observed, one)) for one in old if one.log_path)
    return Stage(calls=(*records, *logs), why="removing what its init containers left in an earlier sandbox")


def used_after(used: tuple[tuple[str, int], ...], removed: list[Instance]) -> tuple[tuple[str, int], ...]:
    """Return the highest number of each container once these instances are removed."""
    highest = dict(used)
    for one in removed:
        highest[one.name] = max(one.attempt, highest.get(one.name, -1))
    return tuple(sorted(highest.items()))


def ended_stage(found: Progress) -> Stage | None:
    """Return the end of a pod that only its init containers or sidecars keep from being over, None before it."""
    if found.failed:
        return Stage(why=f"init container {found.failed} failed, and is not to be tried again", ended=True)
    if found.over:
        return Stage(why="all its containers but sidecars ended for good", ended=True)
    return None


def awaited_stage(state: PodState, pod: v1.Pod, found: Progress, wall: WallNs) -> Stage | None:
    """Return the wait for an init container that runs, None when none is waited for."""
    one = next((c for c in pod.spec.init_containers if c.name == found.awaited), None)
    if one is None:
        return None
    newest = newest_of(state.observed, one.name)
    since = newest.started_at if newest is not None else None
    goal = "count as started" if is_sidecar(pod.spec, one) else "end"
    return Stage(
        why=f"waiting: init container {one.name} to {goal}",
        since_s=max(0, wall - since) / NS if since is not None else 0.0,
    )
