"""Restart all containers of a pod in place: its sandbox, address and volumes stay (reference ``pod-lifecycle`` section 6.6).

```text
a container ends, its own rule asks for it    -> its back-off -> record -> stop all -> remove every instance, that of the
                                                 asking container last -> record -> init containers, from the first one
```

Unlike a kubelet's, ours waits for the crash-loop back-off of the container that asks: nothing restarts in a hot loop.
"""

import msgspec

from actors.pod.container.due import next_attempt, used_after
from actors.pod.container.situation import Situation
from actors.pod.life.stage import (
    Stage,
    counted_memo,
    crash_wait_s,
    remember,
    runtime_call,
    stop,
)
from actors.pod.state import PRUNING, PodState
from actors.pod.status.initstatus import may_restart_all
from actors.rules.container.instance import newest_of
from actors.rules.container.progress import active_id
from actors.rules.container.restart import RESTART_ALL, rule_of
from actors.rules.container.role import in_order, is_init
from api.ids import WallNs
from api.kube.objects import pod as v1
from api.ports.runtime import RemoveContainer, RuntimeContainerState, RuntimePod
from api.ports.runtime import RuntimeContainer as Instance


def restart_all(situation: Situation) -> Stage | None:
    """Return the next step of a restart of all containers, None when no container asks for it."""
    state, pod, observed = situation.state, situation.pod, situation.observed
    if not may_restart_all(pod.spec):
        return None
    askers = who_asks(pod.spec, observed)
    ours = {one.name for one in in_order(pod.spec)}
    left = [one for one in observed.containers if one.name in ours]
    if not state.memo.restarting:
        return begin(state, pod, askers, left, situation.wall)
    if not left:
        memo = msgspec.structs.replace(state.memo, kill=None, restarting=False)
        why = "recording that all containers are removed and may start again"
        return remember(state, memo, why, durable=True)
    alive = [
        one for one in left if one.state in (RuntimeContainerState.RUNNING, RuntimeContainerState.UNKNOWN)
    ]
    if alive:
        calls = tuple(stop(state, one, 0) for one in alive)
        return Stage(calls=calls, why="stopping all containers to restart them")
    pruning = state.call_backoff(PRUNING)
    if pruning is not None and situation.now < pruning.retry.at:
        why = f"waiting: retrying to remove all containers before their restart: {pruning.message}"
        return Stage(why=why, wake_at=pruning.retry.at)
    first = min(rank(pod.spec, one, askers) for one in left)
    chosen = [one for one in left if rank(pod.spec, one, askers) == first]
    removals = (runtime_call(state, RemoveContainer(uid=state.uid, container_id=one.id)) for one in chosen)
    return Stage(calls=tuple(removals), why="removing all containers to restart them")


def begin(
    state: PodState, pod: v1.Pod, askers: tuple[str, ...], left: list[Instance], wall: WallNs
) -> Stage | None:
    """Return the step that records the restart and the used numbers; None without one or during back-off."""
    for container in (one for one in in_order(pod.spec) if one.name in askers):
        newest = newest_of(state.observed, container.name)
        attempt = next_attempt(state, container.name, newest)
        if crash_wait_s(state, container, newest, wall, attempt) > 0:
            continue
        counted = counted_memo(state, container, newest, wall, attempt)
        memo = msgspec.structs.replace(counted, restarting=True, used=used_after(counted.used, left))
        # Without the instances, which are removed next, the used numbers are known from here only.
        why = f"recording the restart of all containers, which container {container.name} asks for"
        return remember(state, memo, why, durable=True)
    return None


def who_asks(spec: v1.PodSpec, observed: RuntimePod) -> tuple[str, ...]:
    """Return the containers that ended in the newest sandbox with an exit code whose rule restarts all."""
    asking = []
    for container in in_order(spec):
        newest = newest_of(observed, container.name)
        if newest is None or newest.state is not RuntimeContainerState.EXITED:
            continue
        code = newest.exit_code if newest.exit_code is not None else 255
        rule = rule_of(container, code)
        if rule is not None and rule.action == RESTART_ALL and newest.sandbox_id == active_id(observed):
            asking.append(container.name)
    return tuple(asking)


def rank(spec: v1.PodSpec, instance: Instance, askers: tuple[str, ...]) -> tuple[bool, bool]:
    """Return the sort key of removals: the asking container goes last, so that a crash in between forgets nothing."""
    return (instance.name in askers, is_init(spec, instance.name))
