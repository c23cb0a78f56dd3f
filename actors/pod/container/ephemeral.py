"""Ephemeral containers: added to a pod to debug it, started once and never again (reference 6.3 and 10.1).

They wait for no init container, count for neither phase nor readiness, and end with the pod.
"""

from actors.pod.state import PodState
from actors.pod.status.history import status_named
from actors.rules.container.instance import newest_of
from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import PodSpec
from api.ports.runtime import RuntimeContainerState as Runs


def is_ephemeral(spec: PodSpec, name: str) -> bool:
    """Return whether a pod's container of this name is an ephemeral one."""
    return any(container.name == name for container in spec.ephemeral_containers)


def never_ran(state: PodState, container: EphemeralContainer) -> bool:
    """Return whether an ephemeral container was not started yet: it gets one start, whatever its outcome."""
    newest = newest_of(state.observed, container.name)
    if newest is not None:
        return newest.state is Runs.CREATED
    old = status_named(state.base, container.name)
    return old is None or not (old.state.running or old.state.terminated)


def target_id(state: PodState, container: Container | EphemeralContainer) -> str:
    """Return the id of the newest instance of an ephemeral container's target, empty without one."""
    name = container.target_container_name if isinstance(container, EphemeralContainer) else ""
    target = newest_of(state.observed, name) if name else None
    return target.id if target is not None else ""
