"""Whether a container counts as started and as ready: what gates the containers after it and the pod's conditions.

All rules are here, about the newest instance. A running container is both, unless one of its probes says otherwise;
while a probe has no result for an instance its published status counts, so that no restart of the agent or of an actor
makes a container flap.
"""

from actors.pod.container.hook import post_start_of
from actors.pod.container.probe import published_health, result_of
from actors.pod.state import PodState
from actors.rules.container.instance import newest_of
from actors.rules.container.role import lasting
from api.kube.objects.container import Container
from api.messages.pod import ProbeResult
from api.messages.probes import ProbeKind
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState


def running_instance(state: PodState, container: Container) -> Instance | None:
    """Return the container's newest instance if it runs."""
    newest = newest_of(state.observed, container.name)
    return newest if newest is not None and newest.state is RuntimeContainerState.RUNNING else None


def is_started(state: PodState, container: Container) -> bool:
    """Return whether the newest instance runs, its postStart hook is done and its startup probe has succeeded."""
    newest = running_instance(state, container)
    if newest is None or post_start_of(state, newest) is not None:
        return False
    if container.startup_probe is None:
        return True
    result = result_of(state, newest.id, ProbeKind.STARTUP)
    if result is ProbeResult.UNKNOWN:
        return published_health(state, container.name, newest.id)[0]
    return result is ProbeResult.SUCCESS


def is_ready(state: PodState, container: Container) -> bool:
    """Return whether a started container's newest instance may get traffic."""
    newest = running_instance(state, container)
    if newest is None:
        return False
    if container.readiness_probe is None:
        return True
    result = result_of(state, newest.id, ProbeKind.READINESS)
    if result is ProbeResult.UNKNOWN:
        return published_health(state, container.name, newest.id)[1]
    return result is ProbeResult.SUCCESS


def started_names(state: PodState) -> tuple[str, ...]:
    """Return the names of the pod's sidecars and regular containers that count as started, in spec order."""
    containers = lasting(state.desired.spec) if state.desired is not None else ()
    return tuple(container.name for container in containers if is_started(state, container))


def ready_names(state: PodState, started: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of those of the `started` sidecars and regular containers that count as ready, in spec order."""
    containers = lasting(state.desired.spec) if state.desired is not None else ()
    return tuple(one.name for one in containers if one.name in started and is_ready(state, one))
