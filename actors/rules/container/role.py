"""Which part a container has in its pod: one that prepares it, a sidecar, or one that the pod is there for.

A sidecar is an init container whose own restart policy is Always: it starts in order among the init containers and
runs on beside the regular ones. Every other init container ends before the next one starts.
"""

from api.kube.objects import pod as v1


def is_init(spec: v1.PodSpec, name: str) -> bool:
    """Return whether a container is one of the pod's init containers, sidecars among them."""
    return any(container.name == name for container in spec.init_containers)


def is_sidecar(spec: v1.PodSpec, container: v1.Container) -> bool:
    """Return whether an init container runs beside the regular ones."""
    return container.restart_policy == "Always" and is_init(spec, container.name)


def is_plain_init(spec: v1.PodSpec, container: v1.Container) -> bool:
    """Return whether a container has to end well before the next one starts."""
    return container.restart_policy != "Always" and is_init(spec, container.name)


def sidecars(spec: v1.PodSpec) -> tuple[v1.Container, ...]:
    """Return the pod's sidecars, in spec order."""
    return tuple(container for container in spec.init_containers if container.restart_policy == "Always")


def lasting(spec: v1.PodSpec) -> tuple[v1.Container, ...]:
    """Return the containers that run in parallel once the pod is initialised: sidecars and regular ones."""
    return (*sidecars(spec), *spec.containers) if spec.init_containers else spec.containers


def in_order(spec: v1.PodSpec) -> tuple[v1.Container, ...]:
    """Return all init and regular containers, in the order in which they are started."""
    return (*spec.init_containers, *spec.containers)


def names_of(spec: v1.PodSpec) -> frozenset[str]:
    """Return the names of all containers that a spec has, of every kind."""
    return frozenset(one.name for _, containers in spec.container_groups() for one in containers)
