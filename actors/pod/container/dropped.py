"""Containers that are in the runtime but no longer in the pod's spec: stopped with the pod's grace, then removed.

A pod goes on as the same one with another spec where its manifest gives it a UID: a container is left out there, or has
another name. It has no status, no start order and no say in the phase. A kubelet would let it run on (decision
0033), ours stops it; its preStop hook is the one that it was created with.
"""

from msgspec.structs import replace

from actors.pod.hookrecord import HookKind
from actors.pod.life.stage import Stage, host_call, removal_of_logs, runtime_call
from actors.pod.state import PRUNING, PodMemo, PodState
from actors.rules.container.instance import running
from actors.rules.container.role import names_of
from api.ids import Instant
from api.kube.objects.pod import Pod
from api.ports.runtime import RemoveContainer
from api.ports.runtime import RuntimeContainer as Instance


def dropped(state: PodState, pod: Pod) -> tuple[Instance, ...]:
    """Return every instance that the runtime shows of containers which the pod's spec does not name."""
    if state.observed is None:
        return ()
    names = names_of(pod.spec)
    return tuple(one for one in state.observed.containers if one.name not in names)


def remove_dropped(state: PodState, pod: Pod, now: Instant) -> Stage | None:
    """Return the stage that removes ended dropped containers and their logs; None without any, or in back-off."""
    pruning, observed = state.call_backoff(PRUNING), state.observed
    if observed is None or (pruning is not None and now < pruning.retry.at):
        return None
    alive = {one.id for one in running(observed)}
    ended = [one for one in dropped(state, pod) if one.id not in alive]
    if not ended:
        return None
    records = (runtime_call(state, RemoveContainer(uid=state.uid, container_id=one.id)) for one in ended)
    logs = (host_call("podfiles", removal_of_logs(observed, one)) for one in ended if one.log_path)
    return Stage(calls=(*records, *logs), why="removing containers that are no longer in the spec")


def without_dropped(memo: PodMemo, state: PodState) -> PodMemo:
    """Return the memo without back-offs and hooks of dropped containers: a later one of that name is another container.

    A postStart record goes when the spec drops its container; a preStop record goes with its instance.
    """
    if state.desired is None or not (memo.backoffs or memo.hooks):
        return memo
    names = names_of(state.desired.spec)
    shown = {one.name for one in state.observed.containers} if state.observed is not None else set()
    backoffs = tuple(one for one in memo.backoffs if one.container in names or one.container in shown)
    hooks = tuple(one for one in memo.hooks if one.container in names or one.kind is HookKind.PRE_STOP)
    if len(backoffs) == len(memo.backoffs) and len(hooks) == len(memo.hooks):
        return memo
    return replace(memo, backoffs=backoffs, hooks=hooks)
