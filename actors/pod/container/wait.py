"""What a container waits for before its start: a back-off after failed calls, its crash-loop back-off, its image."""

import msgspec

from actors.pod.container.due import AnyContainer
from actors.pod.container.want import image_report
from actors.pod.life.stage import NS, crash_text, failures_text
from actors.pod.state import PodState
from api.ids import Instant, WallNs
from api.kube.objects import pod as v1
from api.messages.images import ImageWant
from api.messages.pod import ImageProgress
from api.ports.runtime import RuntimeContainer


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """The wait of a container before its start."""

    container: str
    until: Instant | None
    """None: until a message ends it."""
    since_s: float
    reason: str
    """Waiting reason to publish, empty to leave the published one."""
    message: str
    why: str


def call_backoff_wait(state: PodState, name: str, now: Instant) -> Wait | None:
    """Return the wait of a container in back-off after failed calls, None without one."""
    backoff = state.call_backoff(name)
    if backoff is None or now >= backoff.retry.at:
        return None
    return Wait(
        container=name,
        until=backoff.retry.at,
        since_s=max(0.0, now - backoff.since),
        reason=backoff.reason,
        message=backoff.message,
        why=f"retrying container {name} ({failures_text(backoff.retry.failures)}): {backoff.message}",
    )


def crash_wait(
    state: PodState,
    pod: v1.Pod,
    container: AnyContainer,
    newest: RuntimeContainer | None,
    attempt: int,
    left_s: float,
    now: Instant,
    wall: WallNs,
) -> Wait | None:
    """Return the wait of a container in crash-loop back-off, of which `left_s` seconds are left."""
    if newest is None or newest.finished_at is None or left_s <= 0:
        return None
    name = container.name
    return Wait(
        container=name,
        until=now + left_s,
        since_s=max(0, wall - newest.finished_at) / NS,
        reason="CrashLoopBackOff",
        message=crash_text(state, pod, container),
        why=f"back-off of container {name} (exit code {newest.exit_code}) before restart {attempt}",
    )


def image_wait(state: PodState, want: ImageWant | None, now: Instant) -> Wait | None:
    """Return the wait for an image, None when it is ready or not wanted."""
    if want is None:
        return None
    report = image_report(state, want)
    if report is not None and report.progress is ImageProgress.READY:
        return None
    name, image = want.container, want.image
    retry_at = report.retry_at if report is not None else None
    if report is None:
        asked_s = max(0.0, now - state.sent.wants_sent_at)
        why = f"image {image} of container {name}: looking it up"
        return Wait(container=name, until=None, since_s=asked_s, reason="", message="", why=why)
    if report.progress is ImageProgress.PULLING:
        step = "pulling" if report.since is not None else "queued for pulling"
        pulled_s = max(0.0, now - report.since) if report.since is not None else 0.0
        why = f"image {image} of container {name}: {step}"
        return Wait(container=name, until=None, since_s=pulled_s, reason="", message="", why=why)
    return Wait(
        container=name,
        until=retry_at
        if retry_at is not None and retry_at > now
        else None,  # the ImagePuller reports the result
        since_s=0.0,
        reason=report.reason,
        message=report.message,
        why=f"image {image} of container {name}: {report.message}",
    )
