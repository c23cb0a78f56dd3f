"""Phase and conditions of a pod, from its container statuses (reference ``pod-lifecycle`` sections 10.2 to 10.4)."""

import msgspec

from actors.rules.restart import restarts_after
from api.ids import WallNs
from api.objects.container import Container
from api.objects.pod import Pod, PodSpec
from api.objects.podstatus import ContainerStatus, PodCondition
from api.wallclock import rfc3339

TERMINAL = frozenset({"Succeeded", "Failed"})


def is_static(pod: Pod) -> bool:
    """Tell whether the pod comes from a file or URL: its phase is never forced to a terminal one."""
    return pod.metadata.annotations.get("kubernetes.io/config.source", "api") != "api"


def phase_of(spec: PodSpec, statuses: tuple[ContainerStatus, ...], *, terminal: bool, static: bool) -> str:
    """Return the phase. `terminal`: the pod's containers are proven stopped for good."""
    by_name = {status.name: status for status in statuses}
    waiting = running = unknown = 0
    stopped: list[tuple[Container, int]] = []
    for container in spec.containers:
        status = by_name.get(container.name)
        ended = last_exit(status) if status else None
        if status is None:
            unknown += 1
        elif status.state.running:
            running += 1
        elif ended is not None:
            stopped.append((container, ended))
        else:
            waiting += 1
    succeeded = sum(1 for _, code in stopped if code == 0)
    if waiting:
        return "Pending"
    if running and not unknown:
        return "Running"
    if not running and stopped and not unknown:
        if terminal and not static:
            return "Succeeded" if succeeded == len(stopped) else "Failed"
        if any(restarts_after(spec, container, code) for container, code in stopped):
            return "Running"
        return "Succeeded" if succeeded == len(stopped) else "Failed"
    return "Pending"


def last_exit(status: ContainerStatus) -> int | None:
    """Return the exit code that counts for the phase: of a stopped container, or of one that waits to run again."""
    if status.state.terminated:
        return status.state.terminated.exit_code
    if status.state.running:
        return None
    return status.last_state.terminated.exit_code if status.last_state.terminated else None


def conditions(
    pod: Pod,
    phase: str,
    statuses: tuple[ContainerStatus, ...],
    base: tuple[PodCondition, ...],
    wall: WallNs,
    *,
    sandbox_ready: bool,
) -> tuple[PodCondition, ...]:
    """Return the conditions that the agent owns, after those of others, with true transition times."""
    unready = [s.name for s in statuses if not s.ready]
    started = any(s.state.running or s.state.terminated or s.last_state.terminated for s in statuses)
    containers_ready = readiness(phase, unready, known=bool(statuses))
    owned = [
        PodCondition(type="PodReadyToStartContainers", status=truth(sandbox_ready)),
        initialized(phase, pod.spec, base, started=started),
        msgspec.structs.replace(containers_ready, type="Ready"),
        msgspec.structs.replace(containers_ready, type="ContainersReady"),
        PodCondition(type="PodScheduled", status="True"),
    ]
    names = {condition.type for condition in owned}
    foreign = tuple(condition for condition in base if condition.type not in names)
    old = {condition.type: condition for condition in base}
    generation = pod.metadata.generation
    return foreign + tuple(
        msgspec.structs.replace(
            condition,
            observed_generation=generation,
            last_transition_time=transition_time(old.get(condition.type), condition, wall),
        )
        for condition in owned
    )


def readiness(phase: str, unready: list[str], *, known: bool) -> PodCondition:
    """Return whether every container is ready, and why not."""
    if phase == "Succeeded":
        return PodCondition(status="False", reason="PodCompleted")
    if phase == "Failed":
        return PodCondition(status="False", reason="PodFailed")
    if not known:
        return PodCondition(status="False", reason="UnknownContainerStatuses")
    if unready:
        names = " ".join(unready)
        message = f"containers with unready status: [{names}]"
        return PodCondition(status="False", reason="ContainersNotReady", message=message)
    return PodCondition(status="True")


def initialized(phase: str, spec: PodSpec, base: tuple[PodCondition, ...], *, started: bool) -> PodCondition:
    """Return whether the init containers are done; once true it stays so."""
    kind = "Initialized"
    if phase == "Succeeded":
        return PodCondition(type=kind, status="True", reason="PodCompleted")
    before = any(condition.type == kind and condition.status == "True" for condition in base)
    if started or before or not spec.init_containers:
        return PodCondition(type=kind, status="True")
    names = " ".join(container.name for container in spec.init_containers)
    message = f"containers with incomplete status: [{names}]"
    return PodCondition(type=kind, status="False", reason="ContainersNotInitialized", message=message)


def transition_time(old: PodCondition | None, new: PodCondition, wall: WallNs) -> str:
    """Return when the condition last changed its status: now, unless it did not change."""
    if old is not None and old.status == new.status and old.last_transition_time:
        return old.last_transition_time
    return rfc3339(wall)


def truth(value: bool) -> str:
    """Return a condition's status."""
    return "True" if value else "False"
