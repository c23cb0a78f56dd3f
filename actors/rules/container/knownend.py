"""An exit code that was seen once is never replaced by a guess."""

from msgspec.structs import replace

from api.kube.objects.podstatus import ContainerStateTerminated, PodStatus
from api.ports.runtime import RuntimeContainer, RuntimeContainerState, RuntimePod
from api.wallclock import wall_ns

GUESSES = ("ContainerStatusUnknown", "Unknown")
"""Reasons that a runtime gives where it did not see a container end: the embedded runtime's, containerd's."""


def with_known_ends(view: RuntimePod, before: RuntimePod | None, status: PodStatus) -> RuntimePod:
    """Return a view in which containers ended as they were seen to end, by an earlier view or as the status says.

    A runtime that lost its record of an end, as on a full disk, shows a guess in its place.
    """
    guessed = [one.id for one in view.containers if is_guess(one)]
    if not guessed:
        return view
    seen = {one.id: one for one in before.containers if is_seen(one)} if before is not None else {}
    told = told_ends(status)
    containers = (
        seen.get(one.id) or as_told(one, told.get(one.id)) if one.id in guessed else one
        for one in view.containers
    )
    return replace(view, containers=tuple(containers))


def is_guess(one: RuntimeContainer) -> bool:
    """Return whether a runtime shows an end that was not observed."""
    return one.state is RuntimeContainerState.EXITED and (one.exit_code is None or one.reason in GUESSES)


def is_seen(one: RuntimeContainer) -> bool:
    """Return whether a runtime shows an end that it saw."""
    return one.state is RuntimeContainerState.EXITED and not is_guess(one)


def told_ends(status: PodStatus) -> dict[str, ContainerStateTerminated]:
    """Return the ends that a status tells of and that were seen, by container id."""
    rows = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    ends = [
        end for row in rows for end in (row.last_state.terminated, row.state.terminated) if end is not None
    ]
    return {end.container_id: end for end in ends if end.container_id and end.reason not in GUESSES}


def as_told(one: RuntimeContainer, end: ContainerStateTerminated | None) -> RuntimeContainer:
    """Return a container with the end that its status tells of, if it does."""
    if end is None:
        return one
    return replace(
        one,
        exit_code=end.exit_code,
        signal=end.signal,
        reason=end.reason,
        message=end.message,
        finished_at=wall_ns(end.finished_at) if end.finished_at else one.finished_at,
    )
