"""A pod's volumes over its life: prepared before its sandbox, subPaths before each container, removed at its end.

Reference ``volumes`` sections 7, 8, 10, 18 and 27, ``pod-lifecycle`` sections 5.1 (step 9) and 5.4.
"""

from msgspec.structs import replace

from actors.pod.life.stage import Stage, host_call
from actors.pod.spec.containerconfig import container_sub_paths
from actors.pod.spec.mount import SubPath, VolumePath, sub_path_error
from actors.pod.spec.problem import ConfigProblem
from actors.pod.spec.volume import has_volumes, volume_path, volume_plans
from actors.pod.state import (
    BoundPart,
    Finished,
    PodMemo,
    PodState,
    PortCall,
    ReadyVolume,
    Terminated,
    change_setup,
    with_container,
)
from actors.pod.status.initstatus import rows_being_created
from actors.rules.container.instance import is_alive
from actors.rules.retry import RetryPolicy
from api.errors import Failure
from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import Pod
from api.ports.volumes import (
    PrepareSubPath,
    PrepareVolume,
    RemoveVolumes,
    SubPathReady,
    VolumeReady,
    VolumesRemoved,
)

VOLUME_RETRY = RetryPolicy(base_s=0.5, limit_s=122.0)
"""Back-off of a volume's calls: a kubelet's."""
REMOVAL_DEADLINE_S = 123.0
"""Deadline for the removal of a pod's volumes, as a kubelet's: there may be many files in them."""

VOLUME_CALLS = (PrepareVolume, PrepareSubPath, RemoveVolumes)


def with_volumes(memo: PodMemo, pod: Pod | None) -> PodMemo:
    """Return the memo, which records whether the pod ever had volumes."""
    if memo.volumes or pod is None or not has_volumes(pod):
        return memo
    return replace(memo, volumes=True)


def prepare_volumes(state: PodState, pod: Pod) -> Stage | None:
    """Return the stage that prepares the pod's volumes; None when all are ready, or the pod has none."""
    if not pod.spec.volumes:
        return None
    ready = {one.name: one.plan for one in state.setup.volumes}
    calls = tuple(
        host_call("volumes", PrepareVolume(uid=state.uid, volume=name, plan=plan))
        for name, plan in volume_plans(pod, state.facts)
        if ready.get(name) != plan
    )
    if not calls:
        return None
    return Stage(calls=calls, why="preparing its volumes", waiting=rows_being_created(pod.spec))


def ready_paths(state: PodState) -> tuple[VolumePath, ...]:
    """Return the paths of the ready volumes."""
    return tuple(volume_path(one.name, one.plan, one.host_path) for one in state.setup.volumes)


def bound_parts(state: PodState, container: str, attempt: int) -> tuple[SubPath, ...]:
    """Return the subPaths that are prepared for this instance of a container."""
    return tuple(one.part for one in state.container(container).bound if one.attempt == attempt)


def bind_parts(
    state: PodState, pod: Pod, container: Container | EphemeralContainer, attempt: int, ips: tuple[str, ...]
) -> tuple[PortCall, ...] | ConfigProblem:
    """Return the calls that prepare the subPaths that a container mounts and that are not prepared for it yet."""
    if not pod.spec.volumes:
        return ()
    calls = container_sub_paths(
        pod, container, attempt, state.facts, ips, ready_paths(state), state.setup.lookups
    )
    if isinstance(calls, ConfigProblem):
        return calls
    bound = {part.index for part in bound_parts(state, container.name, attempt)}
    return tuple(
        replace(host_call("volumes", call), container=container.name)
        for call in calls
        if call.index not in bound
    )


def remove_volumes(state: PodState) -> Stage | None:
    """Return the stage that removes the volumes of a pod of which nothing runs; None when they are removed.

    Without a spec it is unknown whether the pod has volumes: then the call searches for them.
    """
    if not removal_is_due(state):
        return None
    call = PortCall(port="volumes", call=RemoveVolumes(uid=state.uid), deadline_s=REMOVAL_DEADLINE_S)
    return Stage(calls=(call,), why="removing its volumes")


def removal_is_due(state: PodState) -> bool:
    """Return whether to remove volumes now: never while a container of the pod may run."""
    if state.unmounted or state.view.must_inspect or state.observed is None or is_alive(state.observed):
        return False
    return state.memo.volumes or state.desired is None


# ---------------------------------------------------------------- outcomes


def volume_answered(
    state: PodState,
    call: PrepareVolume | PrepareSubPath | RemoveVolumes,
    result: object,
) -> PodState:
    """Absorb a successful call on volumes."""
    match call, result:
        case PrepareVolume(volume=name, plan=plan), VolumeReady(host_path=path):
            others = (one for one in state.setup.volumes if one.name != name)
            ready = ReadyVolume(name=name, plan=plan, host_path=path)
            return change_setup(state, volumes=(*others, ready))
        case PrepareSubPath(container=name, attempt=attempt, index=index), SubPathReady(host_path=path):
            part = SubPath(index=index, host_path=path)
            record = state.container(name)
            bound = (*record.bound, BoundPart(attempt=attempt, part=part))
            return with_container(state, name, replace(record, bound=bound))
        case RemoveVolumes(), VolumesRemoved() if isinstance(state.life, Terminated | Finished):
            for name, record in state.containers.items():
                state = with_container(state, name, replace(record, bound=()))
            life = replace(state.life, unmounted=True)
            return replace(change_setup(state, volumes=()), life=life)
        case _:
            return state


def without_parts(state: PodState, container: str) -> PodState:
    """Return the state without prepared subPaths of a container: they are prepared again."""
    return with_container(state, container, replace(state.container(container), bound=()))


def concealed(call: object, failure: Failure) -> Failure:
    """Return a failure without the host path of a subPath, which a pod must not see.

    A failure with a reason to publish has none in its message.
    """
    if isinstance(call, PrepareSubPath) and not failure.reason:
        return replace(failure, message=sub_path_error(call.volume, call.container))
    return failure


def event_prefix(call: object) -> str:
    """Return the event text before the error of a call on volumes, empty for any other call."""
    match call:
        case PrepareVolume(volume=name):
            return f'MountVolume.SetUp failed for volume "{name}" : '
        case RemoveVolumes():
            return "UnmountVolume.TearDown failed: "
        case _:
            return ""
