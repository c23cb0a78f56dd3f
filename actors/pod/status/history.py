"""What the last status says of a container that the runtime may have forgotten."""

import msgspec

from actors.pod.status.initstatus import RESTARTING
from actors.rules.container.restart import restarts_after
from api.kube.objects.container import Container
from api.kube.objects.pod import PodSpec
from api.kube.objects.podstatus import ContainerStatus, PodStatus
from api.ports.runtime import RuntimeContainer as Instance

UNSEEN = "ContainerStatusUnknown"
"""Reason published for a container whose exit was not seen."""


def status_named(status: PodStatus, name: str) -> ContainerStatus | None:
    """Return the status of a container of any kind by name."""
    kinds = (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses)
    return next((one for kind in kinds for one in kind if one.name == name), None)


def ended_for_good(spec: PodSpec, container: Container, status: ContainerStatus) -> bool:
    """Return whether a container ended and will not be restarted, by its status: the runtime may have forgotten it."""
    ended = None if status.state.running else status.state.terminated or status.last_state.terminated
    if ended is None or ended.reason in (UNSEEN, RESTARTING):
        return False
    return not restarts_after(spec, container, ended.exit_code)


def ever_ran(status: ContainerStatus) -> bool:
    """Return whether the container ever had an instance."""
    return bool(status.container_id or status.last_state.terminated or status.restart_count)


def attempt_after(newest: Instance | None, old: ContainerStatus | None) -> int:
    """Return the number of the next instance: never one that was used before."""
    if newest is not None:
        return max(newest.attempt, old.restart_count if old else 0) + 1
    if old is None or not ever_ran(old):
        return 0
    # An instance that is no longer shown may have run: the id is empty only where we removed it before its start.
    used = old.state.terminated or old.container_id
    return old.restart_count + (1 if used else 0)


def never_started(status: PodStatus, container_id: str) -> PodStatus:
    """Return the status without the id of an instance that was removed before its start: its number can be used again."""
    return msgspec.structs.replace(
        status,
        container_statuses=without_id(status.container_statuses, container_id),
        init_container_statuses=without_id(status.init_container_statuses, container_id),
    )


def without_id(statuses: tuple[ContainerStatus, ...], container_id: str) -> tuple[ContainerStatus, ...]:
    """Return the statuses without this container id."""
    return tuple(
        msgspec.structs.replace(one, container_id="") if one.container_id == container_id else one
        for one in statuses
    )
