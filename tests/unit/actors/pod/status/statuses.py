"""Statuses of containers, as short as a test needs them."""

from msgspec.structs import replace

from api.kube.objects.podstatus import ContainerState, ContainerStateTerminated, ContainerStatus


def ended(code):
    """Return the state of a container that ended with an exit code."""
    return ContainerState(terminated=ContainerStateTerminated(exit_code=code))


def status(name, state, last=None):
    """Return the status of a container, ready where it runs."""
    return ContainerStatus(
        name=name, state=state, last_state=last or ContainerState(), ready=state.running is not None
    )


def started(one):
    """Return the status of a container that counts as started where it runs."""
    return replace(one, started=one.state.running is not None)
