"""The images of a pod: which its next containers need, what the ImagePuller says of them, and what is told of that.

A want is a level and a lease (decision 0012). It stands from the moment in which a container is due until the runtime
shows the instance made from it.
"""

from msgspec.structs import replace

from actors.pod.container.due import AnyContainer, attempt_of, in_turn, is_due
from actors.pod.life.event import with_event
from actors.pod.life.stage import crash_wait_s, is_changed, refusal
from actors.pod.state import PodState, Syncing
from actors.rules.container.instance import newest_of
from api import duration
from api.ids import Instant, WallNs
from api.messages.images import ImageWant, PullPolicy, WantImages
from api.messages.pod import ImageProgress, ImageReport
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState

REASK_S = 60.0
"""After so long without an answer that ends the waiting the wants are told again, in case one got lost."""

TOLD: dict[str, tuple[str, str, str]] = {
    # Waiting reason -> event type, event reason, event text ("" for the report's own message).
    "ImagePullBackOff": ("Normal", "BackOff", 'Back-off pulling image "{image}"'),
    "ErrImageNeverPull": ("Warning", "ErrImageNeverPull", "{message}"),
    "InvalidImageName": ("Warning", "InspectFailed", "{message}"),
    "ImageInspectError": ("Warning", "InspectFailed", "{message}"),
}
PULL_FAILED = ("Warning", "Failed", 'Failed to pull image "{image}": {message}')


def want_of(state: PodState, container: AnyContainer, wall: WallNs) -> ImageWant | None:
    """Return the image that the next instance of a container needs now, None when none is to be made now."""
    pod, observed = state.effective, state.observed
    newest = newest_of(observed, container.name)
    if pod is None or observed is None or not is_due(state, container):
        return None
    if newest is not None and (
        newest.state is RuntimeContainerState.UNKNOWN or is_made(state, container, newest)
    ):
        return None
    attempt = attempt_of(state, container.name, newest)
    if crash_wait_s(state, container, newest, wall, attempt) > 0:
        return None
    return ImageWant(
        container=container.name,
        attempt=attempt,
        image=container.image,
        policy=policy_of(state, container),
        again=dict(state.image_tries).get(container.name, 0),
    )


def policy_of(state: PodState, container: AnyContainer) -> PullPolicy:
    """Return when a container's image is to be fetched; one that is built into the runtime is in no registry."""
    if not state.node.confined:
        return PullPolicy.IF_NOT_PRESENT
    return PullPolicy(container.image_pull_policy or PullPolicy.IF_NOT_PRESENT)


def is_made(state: PodState, container: AnyContainer, newest: Instance) -> bool:
    """Tell whether the next instance was made already and only has to be started."""
    sandboxes = state.observed.sandboxes if state.observed is not None else ()
    hold = state.hold(container.name)
    return (
        newest.state is RuntimeContainerState.CREATED
        and bool(sandboxes)
        and newest.sandbox_id == sandboxes[0].id
        and not is_changed(container, newest)
        and not (hold is not None and hold.instance == newest.id)
    )


def with_wants(state: PodState, now: Instant, wall: WallNs) -> PodState:
    """Return the state with the images that it needs now, and without answers to what it needed before."""
    wants = wanted(state, wall)
    changed = wants != state.wants
    silent = any(not is_answered(state, want) for want in wants) and now >= state.wants_told_at + REASK_S
    if not changed and not silent:
        return state
    kept = tuple(report for report in state.images if any(answers(report, want) for want in wants))
    return replace(state, wants=wants, wants_told_at=now, images=kept)


def wanted(state: PodState, wall: WallNs) -> tuple[ImageWant, ...]:
    """Return all images that the pod needs now, in spec order."""
    pod = state.effective
    if not isinstance(state.life, Syncing) or pod is None or refusal(state) is not None:
        return ()
    if state.observed is None or state.look:
        # What is known is not sure: what was needed before may be needed still.
        return state.wants or ()
    wants = (want_of(state, container, wall) for container in in_turn(pod.spec))
    return tuple(want for want in wants if want is not None)


def answers(report: ImageReport, want: ImageWant) -> bool:
    """Tell whether a report is about this want."""
    return (report.container, report.attempt, report.image, report.again) == (
        want.container,
        want.attempt,
        want.image,
        want.again,
    )


def report_on(state: PodState, want: ImageWant) -> ImageReport | None:
    """Return the last report about a want."""
    return next((report for report in state.images if answers(report, want)), None)


def is_answered(state: PodState, want: ImageWant) -> bool:
    """Tell whether it is known what becomes of a want without asking again."""
    report = report_on(state, want)
    return report is not None and (
        report.progress is ImageProgress.READY
        or (report.progress is ImageProgress.WAITING and report.retry_at is None)
    )


def reask_at(state: PodState) -> Instant | None:
    """Return when the wants are to be told again, None when all are answered."""
    unanswered = any(not is_answered(state, want) for want in state.wants or ())
    return state.wants_told_at + REASK_S if unanswered else None


def wants_message(state: PodState) -> WantImages:
    """Return the wants as they are told."""
    annotations = state.desired.metadata.annotations if state.desired is not None else {}
    return WantImages(uid=state.uid, wants=state.wants or (), annotations=tuple(sorted(annotations.items())))


def absorb_report(state: PodState, report: ImageReport, wall: WallNs) -> PodState:
    """Take in how far an image is, unless that is not what is needed any more."""
    if not any(answers(report, want) for want in state.wants or ()):
        return state
    before = next((other for other in state.images if other.container == report.container), None)
    if report == before:
        return state
    others = tuple(other for other in state.images if other.container != report.container)
    state = replace(state, images=(*others, report))
    same = before is not None and (before.progress, before.reason) == (report.progress, report.reason)
    return state if same else with_report_event(state, report, wall)


def with_report_event(state: PodState, report: ImageReport, wall: WallNs) -> PodState:
    """Tell in an event, in a kubelet's words, how far an image is; the host's own files are no image to tell of."""
    image, name = report.image, report.container
    if not state.node.confined and report.progress is not ImageProgress.WAITING:
        return state
    match report.progress:
        case ImageProgress.PULLING:
            return with_event(state, wall, "Normal", "Pulling", f'Pulling image "{image}"', name)
        case ImageProgress.READY if report.pulled:
            took = duration.write(int((report.took_s - report.waited_s) * 1000) * 1_000_000)
            whole = duration.write(int(report.took_s * 1000) * 1_000_000)
            text = f'Successfully pulled image "{image}" in {took} ({whole} including waiting).'
            text += f" Image size: {report.size_bytes} bytes."
            return with_event(state, wall, "Normal", "Pulled", text, name)
        case ImageProgress.READY:
            text = f'Container image "{image}" already present on machine'
            return with_event(state, wall, "Normal", "Pulled", text, name)
        case ImageProgress.WAITING:
            kind, reason, text = TOLD.get(report.reason, PULL_FAILED)
            text = text.format(image=image, message=report.message)
            state = with_event(state, wall, kind, reason, text, name)
            return with_event(state, wall, "Warning", "Failed", f"Error: {report.reason}", name)


def without_image(state: PodState, container: str) -> PodState:
    """Forget what was said of a container's image, of which no container could be made, and look it up anew."""
    tries = dict(state.image_tries)
    tries[container] = tries.get(container, 0) + 1
    kept = tuple(report for report in state.images if report.container != container)
    return replace(state, images=kept, image_tries=tuple(sorted(tries.items())))
