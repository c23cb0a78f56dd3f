"""Init containers: removal of those of an earlier sandbox, the wait for the one that runs, the end of their pod.

The rules are in `actors.rules.container.progress`.
"""

import msgspec

from actors.pod.container.due import used_after
from actors.pod.container.situation import Situation
from actors.pod.life.stage import NS, Stage, host_call, remember, removal_of_logs, runtime_call
from actors.pod.state import PRUNING
from actors.rules.container.progress import Progress
from actors.rules.container.role import is_init, is_sidecar
from api.ports.runtime import RemoveContainer, RuntimeContainerState


def purge_init_containers(situation: Situation, sandbox_id: str) -> Stage | None:
    """Return the stage that removes init containers of other sandboxes, None without any.

    An old result must not count for the new sandbox. Their numbers are lost with them, so these are recorded first.
    """
    state, pod, observed = situation.state, situation.pod, situation.observed
    pruning = state.call_backoff(PRUNING)
    if not pod.spec.init_containers or (pruning is not None and situation.now < pruning.retry.at):
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
        return remember(state, memo, "recording the restart counts of its init containers")
    records = (runtime_call(state, RemoveContainer(uid=state.uid, container_id=one.id)) for one in old)
    logs = (host_call("podfiles", removal_of_logs(observed, one)) for one in old if one.log_path)
    return Stage(calls=(*records, *logs), why="removing the init containers of an earlier sandbox")


def ended_stage(found: Progress) -> Stage | None:
    """Return the end of a pod whose init container failed for good or of which only sidecars run, None before it."""
    if found.failed:
        return Stage(why=f"init container {found.failed} failed and will not be restarted", ended=True)
    if found.over:
        return Stage(why="all containers except sidecars have ended", ended=True)
    return None


def awaited_stage(situation: Situation) -> Stage | None:
    """Return the wait for a running init container, None without one."""
    pod, wall = situation.pod, situation.wall
    one = next((c for c in pod.spec.init_containers if c.name == situation.progress.awaited), None)
    if one is None:
        return None
    newest = situation.newest(one.name)
    since = newest.started_at if newest is not None else None
    goal = "be started" if is_sidecar(pod.spec, one) else "exit"
    return Stage(
        why=f"waiting: init container {one.name} to {goal}",
        since_s=max(0, wall - since) / NS if since is not None else 0.0,
    )
