"""Conditions of a pod, from its phase and container statuses (reference ``pod-lifecycle`` section 10.4)."""

import msgspec

from actors.pod.status.initstatus import initialized, restarting_condition
from actors.rules.container.ownership import BY_KUBELET, DISRUPTION, OWNED
from actors.rules.container.role import lasting
from api.ids import WallNs
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.podstatus import ContainerStatus, PodCondition
from api.wallclock import rfc3339


def conditions(
    pod: Pod,
    phase: str,
    statuses: tuple[ContainerStatus, ...],
    base: tuple[PodCondition, ...],
    wall: WallNs,
    *,
    sandbox_ready: bool,
    inits: tuple[ContainerStatus, ...] = (),
    restarting: bool = False,
    resizes: tuple[PodCondition, ...] = (),
    disruption: str | None = None,
) -> tuple[PodCondition, ...]:
    """Return the conditions that the agent owns, after those of others, with true transition times.

    `statuses` are those of regular containers. `disruption` is the message of the condition DisruptionTarget, None
    without one.
    """
    started = any(s.state.running or s.state.terminated or s.last_state.terminated for s in statuses)
    foreign = of_others(pod, base)
    containers_ready = readiness(phase, pod.spec, (*inits, *statuses))
    owned = [
        *resizes,
        *([disrupted(disruption)] if disruption is not None else []),
        PodCondition(type="PodReadyToStartContainers", status=truth(sandbox_ready)),
        initialized(phase, pod.spec, inits, base, started=started),
        pod_readiness(pod.spec, containers_ready, foreign),
        containers_ready,
        PodCondition(type="PodScheduled", status="True"),
        *restarting_condition(pod.spec, phase, restarting=restarting),
    ]
    names = {condition.type for condition in owned}
    old = {condition.type: condition for condition in base}
    generation = pod.metadata.generation
    kept = tuple(condition for condition in foreign if condition.type not in names)
    return kept + tuple(
        msgspec.structs.replace(
            condition,
            observed_generation=generation,
            last_transition_time=transition_time(old.get(condition.type), condition, wall),
        )
        for condition in owned
    )


def of_others(pod: Pod, base: tuple[PodCondition, ...]) -> tuple[PodCondition, ...]:
    """Return the conditions of others from the pod's source, and the agent's own DisruptionTarget."""
    given = tuple(condition for condition in pod.status.conditions if condition.type not in OWNED)
    marks = tuple(c for c in base if c.type == DISRUPTION and c.reason == BY_KUBELET)
    named = {condition.type for condition in marks}
    return (*(condition for condition in given if condition.type not in named), *marks)


def disrupted(message: str) -> PodCondition:
    """Return the condition DisruptionTarget."""
    return PodCondition(type=DISRUPTION, status="True", reason=BY_KUBELET, message=message)


def readiness(phase: str, spec: PodSpec, statuses: tuple[ContainerStatus, ...]) -> PodCondition:
    """Return the condition ContainersReady, about regular containers and sidecars."""
    kind = "ContainersReady"
    if not statuses:
        return PodCondition(type=kind, status="False", reason="UnknownContainerStatuses")
    by_name = {status.name: status for status in statuses}
    names = [container.name for container in lasting(spec)]
    unknown = [name for name in names if name not in by_name]
    unready = [name for name in names if name in by_name and not by_name[name].ready]
    if phase == "Succeeded" and not unknown:
        return PodCondition(type=kind, status="False", reason="PodCompleted")
    if phase == "Failed":
        return PodCondition(type=kind, status="False", reason="PodFailed")
    told = [f"containers with unknown status: [{' '.join(unknown)}]"] if unknown else []
    told += [f"containers with unready status: [{' '.join(unready)}]"] if unready else []
    if told:
        return PodCondition(type=kind, status="False", reason="ContainersNotReady", message=", ".join(told))
    return PodCondition(type=kind, status="True")


def pod_readiness(
    spec: PodSpec, containers_ready: PodCondition, foreign: tuple[PodCondition, ...]
) -> PodCondition:
    """Return the condition Ready: the containers are ready, and every readiness gate is True."""
    if containers_ready.status != "True":
        return msgspec.structs.replace(containers_ready, type="Ready")
    given = {condition.type: condition.status for condition in foreign}
    shut = []
    for gate in spec.readiness_gates:
        name = gate.condition_type
        if name not in given:
            shut.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif given[name] != "True":
            shut.append(f'the status of pod readiness gate "{name}" is not "True", but {given[name]}')
    if shut:
        return PodCondition(
            type="Ready", status="False", reason="ReadinessGatesNotReady", message=", ".join(shut)
        )
    return PodCondition(type="Ready", status="True")


def transition_time(old: PodCondition | None, new: PodCondition, wall: WallNs) -> str:
    """Return when the condition last changed its status.

    A wall clock that was set back gives no transition before the last one.
    """
    now = rfc3339(wall)
    if old is None or not old.last_transition_time:
        return now
    return old.last_transition_time if old.status == new.status else max(now, old.last_transition_time)


def truth(value: bool) -> str:
    """Return a condition's status."""
    return "True" if value else "False"
