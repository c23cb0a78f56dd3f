"""Statuses of init containers: whether they are done, and their final statuses.

Reference ``pod-lifecycle`` sections 10.1 step 5, 10.4 (Initialized) and 11.3.
"""

import msgspec

from actors.rules.container.restart import RESTART_ALL, is_success
from actors.rules.container.role import in_order, is_sidecar
from api.kube.objects.container import Container
from api.kube.objects.pod import PodSpec
from api.kube.objects.podstatus import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodCondition,
)

CREATING = ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))
INITIALIZING = ContainerState(waiting=ContainerStateWaiting(reason="PodInitializing"))
UNSEEN_SUCCESS = ContainerState(
    terminated=ContainerStateTerminated(
        reason="Completed",
        message="Unable to get init container status from container runtime and pod has been initialized,"
        " treat it as exited normally",
    )
)
RESTARTING = "RestartingAllContainers"
"""Reason published for a container that was removed by a restart of all containers."""
REMOVED_TEXT = "The container is removed because RestartAllContainers in place"
UNSEEN_EXIT_CODE = 137
"""Exit code published for a container whose exit was not seen."""


def removed_for_restart(status: ContainerStatus) -> ContainerStatus:
    """Return the status of a container that was removed by a restart of all containers; it counts as one restart."""
    waiting = ContainerState(waiting=ContainerStateWaiting(reason=RESTARTING, message=REMOVED_TEXT))
    if not left_waiting(status):
        return status
    last = status.last_state.terminated
    if last is not None and last.reason == RESTARTING and not status.container_id:
        return msgspec.structs.replace(status, state=waiting)
    ended = ContainerStateTerminated(exit_code=UNSEEN_EXIT_CODE, reason=RESTARTING, message=REMOVED_TEXT)
    return msgspec.structs.replace(
        status,
        state=waiting,
        last_state=ContainerState(terminated=ended),
        container_id="",
        restart_count=status.restart_count + 1,
    )


def idle(spec: PodSpec) -> ContainerState:
    """Return the waiting state of a container that was never started."""
    return INITIALIZING if spec.init_containers else CREATING


def rows_being_created(spec: PodSpec) -> tuple[tuple[str, str, str], ...]:
    """Return container, waiting reason and message of all containers of a pod that is being set up."""
    waiting = idle(spec).waiting
    assert waiting is not None
    return tuple((container.name, waiting.reason, "") for container in in_order(spec))


def is_done(status: ContainerStatus) -> bool:
    """Return whether a plain init container succeeded."""
    ended = status.state.terminated
    return ended is not None and is_success(ended.exit_code, ended.reason)


def did_its_part(spec: PodSpec, container: Container, status: ContainerStatus | None) -> bool:
    """Return whether an init container delays nothing: a sidecar is started, any other one succeeded."""
    if status is None:
        return False
    return status.started is True if is_sidecar(spec, container) else is_done(status)


def had_initialised(
    spec: PodSpec, inits: tuple[ContainerStatus, ...], statuses: tuple[ContainerStatus, ...]
) -> bool:
    """Return whether the pod ever reached its regular containers."""
    if not spec.init_containers or any(left_waiting(status) for status in statuses):
        return True
    last = next((status for status in inits if status.name == spec.init_containers[-1].name), None)
    if last is None:
        return False
    before = last.last_state.terminated
    plain = not is_sidecar(spec, spec.init_containers[-1])
    succeeded_before = plain and before is not None and is_success(before.exit_code, before.reason)
    return succeeded_before or did_its_part(spec, spec.init_containers[-1], last)


def left_waiting(status: ContainerStatus) -> bool:
    """Return whether a container was ever running or terminated."""
    return status.state.waiting is None or status.last_state.terminated is not None


def attempted(inits: tuple[ContainerStatus, ...]) -> int:
    """Return how many init containers were tried, from the first on: at least one."""
    tried = [index for index, status in enumerate(inits) if left_waiting(status)]
    return max(tried, default=0) + 1


def initialized(
    phase: str,
    spec: PodSpec,
    inits: tuple[ContainerStatus, ...],
    base: tuple[PodCondition, ...],
    *,
    started: bool,
) -> PodCondition:
    """Return the condition Initialized; once true it stays true.

    `started`: a regular container runs or ran.
    """
    kind = "Initialized"
    if phase == "Succeeded":
        return PodCondition(type=kind, status="True", reason="PodCompleted")
    by_name = {status.name: status for status in inits}
    unknown = [one.name for one in spec.init_containers if one.name not in by_name]
    unready = [
        one.name
        for one in spec.init_containers
        if one.name in by_name and not did_its_part(spec, one, by_name[one.name])
    ]
    before = any(condition.type == kind and condition.status == "True" for condition in base)
    if started or before or not (unknown or unready):
        return PodCondition(type=kind, status="True")
    groups = (("unknown", unknown), ("incomplete", unready))
    message = ", ".join(
        f"containers with {word} status: [{' '.join(names)}]" for word, names in groups if names
    )
    return PodCondition(type=kind, status="False", reason="ContainersNotInitialized", message=message)


def may_restart_all(spec: PodSpec) -> bool:
    """Return whether the pod has a rule that restarts all containers."""
    return any(rule.action == RESTART_ALL for one in in_order(spec) for rule in one.restart_policy_rules)


def restarting_condition(spec: PodSpec, phase: str, *, restarting: bool) -> tuple[PodCondition, ...]:
    """Return the condition AllContainersRestarting, of a pod with such a rule."""
    if not may_restart_all(spec):
        return ()
    over = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase)
    if over or not restarting:
        return (PodCondition(type="AllContainersRestarting", status="False", reason=over or ""),)
    message = "container exited with restart policy rule"
    return (
        PodCondition(
            type="AllContainersRestarting",
            status="True",
            reason="RestartAllContainersStarted",
            message=message,
        ),
    )
