"""Statuses of ephemeral containers, which are never ready and never restarted (reference 10.1)."""

from msgspec.structs import replace

from actors.pod.status.compose import Facts, lost, with_instances, with_termination_message
from actors.pod.status.containerfield import mounts_of
from actors.pod.status.history import status_named
from actors.pod.status.initstatus import idle
from actors.rules.container.instance import instances_of
from api.kube.objects.container import EphemeralContainer
from api.kube.objects.podstatus import ContainerState, ContainerStateWaiting, ContainerStatus, PodStatus

LOST = "The container could not be located when the pod was deleted.  The container used to be Running"


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
    """Compose the status of one ephemeral container."""
    old = status_named(facts.base, container.name)
    instances = instances_of(facts.observed, container.name)
    waits = ContainerState(waiting=waiting) if waiting is not None else idle(facts.pod.spec)
    if instances:
        status = with_instances(
            facts.pod.spec, container, old, tuple(with_termination_message(facts, one) for one in instances)
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
