"""Reading a runtime's view of a pod: newest instances, what is alive."""

from msgspec.structs import replace

from api.ports.runtime import RuntimeContainer, RuntimeContainerState, RuntimePod, Sandbox, SandboxState


def newest_of(observed: RuntimePod | None, name: str) -> RuntimeContainer | None:
    """Return the newest instance of a container over all sandboxes of the pod."""
    # Asked for each container with every message to a pod: the first one found is enough.
    for instance in observed.containers if observed else ():
        if instance.name == name:
            return instance
    return None


def instances_of(observed: RuntimePod | None, name: str) -> tuple[RuntimeContainer, ...]:
    """Return all instances of a container, newest first."""
    return tuple(c for c in (observed.containers if observed else ()) if c.name == name)


def running(observed: RuntimePod | None) -> tuple[RuntimeContainer, ...]:
    """Return the containers that run or may run: an unknown state counts as running."""
    alive = (RuntimeContainerState.RUNNING, RuntimeContainerState.UNKNOWN)
    return tuple(c for c in (observed.containers if observed else ()) if c.state in alive)


def ready_sandboxes(observed: RuntimePod | None) -> tuple[Sandbox, ...]:
    """Return the sandboxes that are ready."""
    return tuple(s for s in (observed.sandboxes if observed else ()) if s.state is SandboxState.READY)


def is_alive(observed: RuntimePod | None) -> bool:
    """Return whether anything of the pod may still run."""
    return bool(running(observed) or ready_sandboxes(observed))


def not_back(before: RuntimePod | None, view: RuntimePod) -> RuntimePod:
    """Return a view in which no exited container runs again: of parallel calls the last answer may be the oldest view."""
    ended = (
        {one.id: one for one in before.containers if one.state is RuntimeContainerState.EXITED}
        if before
        else {}
    )
    if not any(one.id in ended and one.state is not RuntimeContainerState.EXITED for one in view.containers):
        return view
    containers = (
        one if one.state is RuntimeContainerState.EXITED else ended.get(one.id, one)
        for one in view.containers
    )
    return replace(view, containers=tuple(containers))
