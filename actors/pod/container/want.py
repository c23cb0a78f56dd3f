"""Which image the next instance of a container needs, and the last report on it.

A want is a level and a lease (decision 0012). It lasts from when a container must be started until the runtime shows the
instance that was created from it.
"""

from actors.pod.container.due import AnyContainer
from actors.pod.life.stage import is_changed
from actors.pod.state import PodState
from api.messages.images import ImageWant, PullPolicy
from api.messages.pod import ImageReport
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState


def want_of(
    state: PodState, container: AnyContainer, newest: Instance | None, attempt: int, *, backs_off: bool
) -> ImageWant | None:
    """Return the image that the next instance of a container to start needs now, None when none is created now.

    `backs_off`: its crash-loop back-off is not over.
    """
    if backs_off or state.observed is None:
        return None
    if newest is not None and (
        newest.state is RuntimeContainerState.UNKNOWN or is_made(state, container, newest)
    ):
        return None
    return ImageWant(
        container=container.name,
        attempt=attempt,
        image=container.image,
        policy=policy_of(state, container),
        again=state.container(container.name).image_tries,
    )


def policy_of(state: PodState, container: AnyContainer) -> PullPolicy:
    """Return when to pull a container's image; one that is built into the runtime is in no registry."""
    if not state.node.confined:
        return PullPolicy.IF_NOT_PRESENT
    return PullPolicy(container.image_pull_policy or PullPolicy.IF_NOT_PRESENT)


def is_made(state: PodState, container: AnyContainer, newest: Instance) -> bool:
    """Return whether the next instance is created and only needs its start."""
    sandboxes = state.observed.sandboxes if state.observed is not None else ()
    backoff = state.call_backoff(container.name)
    return (
        newest.state is RuntimeContainerState.CREATED
        and bool(sandboxes)
        and newest.sandbox_id == sandboxes[0].id
        and not is_changed(container, newest)
        and not (backoff is not None and backoff.instance == newest.id)
    )


def answers(report: ImageReport, want: ImageWant) -> bool:
    """Return whether a report is about this want."""
    return (report.container, report.attempt, report.image, report.again) == (
        want.container,
        want.attempt,
        want.image,
        want.again,
    )


def image_report(state: PodState, want: ImageWant) -> ImageReport | None:
    """Return the last report about a want."""
    report = state.container(want.container).image
    return report if report is not None and answers(report, want) else None
