"""Ephemeral containers: added to a pod to look into it, started once and never again (reference 6.3 and 10.1).

They wait for no init container, count for neither phase nor readiness, and end with the pod.
"""

from msgspec.structs import replace

from actors.pod.state import PodState
from actors.pod.status.compose import Facts, lost, status_named, with_instances, with_last_words
from actors.pod.status.containerfield import mounts_of
from actors.pod.status.initstatus import idle
from actors.rules.container.instance import instances_of, newest_of
from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import PodSpec
from api.kube.objects.podstatus import ContainerState, ContainerStateWaiting, ContainerStatus, PodStatus
from api.ports.runtime import RuntimeContainerState as Runs

LOST = "The container could not be located when the pod was deleted.  The container used to be Running"


def is_ephemeral(spec: PodSpec, name: str) -> bool:
    """Tell whether a pod's container of this name is an ephemeral one."""
    return any(container.name == name for container in spec.ephemeral_containers)


def never_ran(state: PodState, container: EphemeralContainer) -> bool:
    """Tell whether an ephemeral container is still to be started: it gets one start, whatever comes of it."""
    newest = newest_of(state.observed, container.name)
    if newest is not None:
        return newest.state is Runs.CREATED
    old = status_named(state.base, container.name)
    return old is None or not (old.state.running or old.state.terminated)


def target_id(state: PodState, container: Container | EphemeralContainer) -> str:
    """Return the newest instance of the container whose processes an ephemeral one is to see, empty when there is none."""
    name = container.target_container_name if isinstance(container, EphemeralContainer) else ""
    target = newest_of(state.observed, name) if name else None
    return target.id if target is not None else ""


def with_ephemeral(status: PodStatus, facts: Facts) -> PodStatus:
    """Return the status with those of the pod's ephemeral containers, by name."""
    wanted = facts.pod.spec.ephemeral_containers
    if not wanted:
        return status
    why = {name: ContainerStateWaiting(reason=reason, message=text) for name, reason, text in facts.waiting}
    statuses = tuple(
        ephemeral_status(facts, container, why.get(container.name))
        for container in sorted(wanted, key=lambda c: c.name)
    )
    return replace(status, ephemeral_container_statuses=statuses)


def ephemeral_status(
    facts: Facts, container: EphemeralContainer, waiting: ContainerStateWaiting | None
) -> ContainerStatus:
    """Compose the status of one, which is never ready and was never restarted."""
    old = status_named(facts.base, container.name)
    instances = instances_of(facts.observed, container.name)
    waits = ContainerState(waiting=waiting) if waiting is not None else idle(facts.pod.spec)
    if instances:
        status = with_instances(
            facts.pod.spec, container, old, tuple(with_last_words(facts, one) for one in instances)
        )
    elif old is None:
        status = ContainerStatus(name=container.name, image=container.image, state=waits)
    elif old.state.running:
        status = replace(old, state=ContainerState(terminated=lost(LOST, old.container_id)))
    else:
        status = old
    if not (status.state.running or status.state.terminated):
        status = replace(status, state=waits)
    return replace(
        status,
        restart_count=0,
        ready=False,
        started=None,
        volume_mounts=mounts_of(facts.pod, container, facts.node),
    )
