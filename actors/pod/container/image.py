"""The images of a pod: the wants that are sent to the ImagePuller, and its reports on them."""

from msgspec.structs import replace

from actors.pod.container.situation import Situation
from actors.pod.container.want import answers, image_report
from actors.pod.life.event import with_event
from actors.pod.life.stage import refusal
from actors.pod.state import PodState, Syncing, change_sent, with_container
from api import duration
from api.ids import Instant, WallNs
from api.messages.images import ImageWant, WantImages
from api.messages.pod import ImageProgress, ImageReport

RESEND_WANTS_S = 60.0
"""Seconds without a final report after which the wants are sent again, in case a message was lost."""

REPORT_EVENTS: dict[str, tuple[str, str, str]] = {
    # Waiting reason -> event type, event reason, event text ("" for the report's own message).
    "ImagePullBackOff": ("Normal", "BackOff", 'Back-off pulling image "{image}"'),
    "ErrImageNeverPull": ("Warning", "ErrImageNeverPull", "{message}"),
    "InvalidImageName": ("Warning", "InspectFailed", "{message}"),
    "ImageInspectError": ("Warning", "InspectFailed", "{message}"),
}
PULL_FAILED = ("Warning", "Failed", 'Failed to pull image "{image}": {message}')


def with_wants(state: PodState, situation: Situation) -> PodState:
    """Return the state with the images that it needs now, without reports on former wants."""
    wants, now = wanted_images(state, situation), situation.now
    changed = wants != state.sent.wants
    silent = (
        any(not is_answered(state, want) for want in wants)
        and now >= state.sent.wants_sent_at + RESEND_WANTS_S
    )
    if not changed and not silent:
        return state
    for name, record in state.containers.items():
        if record.image is not None and not any(answers(record.image, want) for want in wants):
            state = with_container(state, name, replace(record, image=None))
    return change_sent(state, wants=wants, wants_sent_at=now)


def wanted_images(state: PodState, situation: Situation) -> tuple[ImageWant, ...]:
    """Return all images that the pod needs now, in spec order."""
    if not isinstance(state.life, Syncing) or situation.effective is None or refusal(state) is not None:
        return ()
    if state.observed is None or state.view.must_inspect:
        # The runtime's state is uncertain: former wants may still be needed.
        return state.sent.wants or ()
    return tuple(want for want in situation.wants.values() if want is not None)


def is_answered(state: PodState, want: ImageWant) -> bool:
    """Return whether a want has a final report, so that it need not be sent again."""
    report = image_report(state, want)
    return report is not None and (
        report.progress is ImageProgress.READY
        or (report.progress is ImageProgress.WAITING and report.retry_at is None)
    )


def resend_wants_at(state: PodState) -> Instant | None:
    """Return when to send the wants again, None when all are answered."""
    unanswered = any(not is_answered(state, want) for want in state.sent.wants or ())
    return state.sent.wants_sent_at + RESEND_WANTS_S if unanswered else None


def wants_message(state: PodState) -> WantImages:
    """Return the message with the wants."""
    annotations = state.desired.metadata.annotations if state.desired is not None else {}
    return WantImages(
        uid=state.uid, wants=state.sent.wants or (), annotations=tuple(sorted(annotations.items()))
    )


def absorb_image_report(state: PodState, report: ImageReport, wall: WallNs) -> PodState:
    """Absorb a report on an image, unless the image is no longer wanted."""
    if not any(answers(report, want) for want in state.sent.wants or ()):
        return state
    record = state.container(report.container)
    before = record.image
    if report == before:
        return state
    state = with_container(state, report.container, replace(record, image=report))
    same = before is not None and (before.progress, before.reason) == (report.progress, report.reason)
    return state if same else with_report_event(state, report, wall)


def with_report_event(state: PodState, report: ImageReport, wall: WallNs) -> PodState:
    """Return the state with a kubelet's event for a report; the host image is never pulled, so it has none."""
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
            text = f'Container image "{image}" already present on machine and can be accessed by the pod'
            return with_event(state, wall, "Normal", "Pulled", text, name)
        case ImageProgress.WAITING:
            kind, reason, text = REPORT_EVENTS.get(report.reason, PULL_FAILED)
            text = text.format(image=image, message=report.message)
            state = with_event(state, wall, kind, reason, text, name)
            return with_event(state, wall, "Warning", "Failed", f"Error: {report.reason}", name)


def without_image(state: PodState, container: str) -> PodState:
    """Return the state without the report on an image from which no container could be created: it is looked up again."""
    record = state.container(container)
    return with_container(state, container, replace(record, image=None, image_tries=record.image_tries + 1))
