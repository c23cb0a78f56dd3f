"""Which running containers must be stopped while their pod runs on, and why."""

from actors.pod.container.dropped import dropped
from actors.pod.container.hook import post_start_of
from actors.pod.container.probe import ProbeFailure
from actors.pod.container.stop import ContainerStop, container_stop
from actors.pod.life.stage import is_changed
from actors.pod.spec.identity import own_grace_s
from actors.pod.state import PodState
from actors.rules.container.instance import newest_of, running
from actors.rules.container.role import is_init, lasting
from api.kube.objects.pod import Pod
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState


def containers_to_stop(
    state: PodState, pod: Pod, probe_failures: tuple[ProbeFailure, ...], resize_restarts: tuple[Instance, ...]
) -> tuple[ContainerStop, ...]:
    """Return their stops: changed, failed a probe or postStart hook, restarted for a resize, or dropped from the spec."""
    found = []
    for container in lasting(pod.spec):
        newest = newest_of(state.observed, container.name)
        # One that never started needs no stop: it is removed before its next start.
        if newest is None or newest.state is not RuntimeContainerState.RUNNING:
            continue
        failed = post_start_of(state, newest)
        if failed is not None and failed.failure:
            found.append(container_stop(newest, own_grace_s(pod), "FailedPostStartHook"))
        elif is_changed(container, newest):
            kind = "Init container" if is_init(pod.spec, container.name) else "Container"
            text = f"{kind} {container.name} definition changed, will be restarted"
            found.append(container_stop(newest, own_grace_s(pod), text))
    known = {one.instance.id for one in found}
    found += [
        container_stop(ill.instance, ill.grace_s, ill.event)
        for ill in probe_failures
        if ill.instance.id not in known
    ]
    known = {one.instance.id for one in found}
    for instance in resize_restarts:
        if instance.id not in known:
            text = f"Container {instance.name} resize requires restart, will be restarted"
            found.append(container_stop(instance, own_grace_s(pod), text))
    return (*found, *dropped_to_stop(state, pod))


def dropped_to_stop(state: PodState, pod: Pod) -> tuple[ContainerStop, ...]:
    """Return what runs of containers that the spec names no more, with the pod's grace."""
    gone = {one.id for one in dropped(state, pod)}
    return tuple(
        container_stop(one, own_grace_s(pod), f"Container {one.name} is no longer in the pod spec")
        for one in running(state.observed)
        if one.id in gone
    )
