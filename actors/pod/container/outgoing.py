"""Which containers run and are to be stopped while their pod goes on, and why."""

from actors.pod.container.dropped import dropped
from actors.pod.container.hook import post_start_of
from actors.pod.container.probe import Ailing
from actors.pod.container.stop import Leaving, leaving
from actors.pod.life.stage import is_changed
from actors.pod.spec.identity import own_grace_s
from actors.pod.state import PodState
from actors.rules.container.instance import newest_of, running
from actors.rules.container.role import is_init, lasting
from api.kube.objects.pod import Pod
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState


def outgoing(
    state: PodState, pod: Pod, ailing: tuple[Ailing, ...], to_restart: tuple[Instance, ...]
) -> tuple[Leaving, ...]:
    """Return them: changed ones, ill ones, those that need a restart for their resize, and what the spec names no more."""
    found = []
    for container in lasting(pod.spec):
        newest = newest_of(state.observed, container.name)
        # One that never started has nothing to stop: it is removed when its turn comes.
        if newest is None or newest.state is not RuntimeContainerState.RUNNING:
            continue
        failed = post_start_of(state, newest)
        if failed is not None and failed.failure:
            found.append(leaving(newest, own_grace_s(pod), "FailedPostStartHook"))
        elif is_changed(container, newest):
            kind = "Init container" if is_init(pod.spec, container.name) else "Container"
            text = f"{kind} {container.name} definition changed, will be restarted"
            found.append(leaving(newest, own_grace_s(pod), text))
    known = {one.instance.id for one in found}
    found += [leaving(ill.instance, ill.grace_s, ill.event) for ill in ailing if ill.instance.id not in known]
    known = {one.instance.id for one in found}
    for instance in to_restart:
        if instance.id not in known:
            text = f"Container {instance.name} resize requires restart, will be restarted"
            found.append(leaving(instance, own_grace_s(pod), text))
    return (*found, *dropped_to_stop(state, pod))


def dropped_to_stop(state: PodState, pod: Pod) -> tuple[Leaving, ...]:
    """Return what runs of containers that the spec names no more, with the pod's grace."""
    gone = {one.id for one in dropped(state, pod)}
    return tuple(
        leaving(one, own_grace_s(pod), f"Container {one.name} is not in the spec of its pod any more")
        for one in running(state.observed)
        if one.id in gone
    )
