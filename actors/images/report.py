"""Reports to pods about their images, with the kubelet's messages (reference ``runtime-cri`` section 14.2)."""

from msgspec.structs import replace

from actors.images.keyring import CredentialCandidate
from actors.images.state import Entry, PullBackoff, PullFinished, Ready, Retrying, row_names
from actors.rules.retry import Retry
from api.errors import Failure, FailureKind
from api.ids import Instant
from api.messages.pod import ImageProgress, ImageReport
from api.ports.images import ImageRow

FRESH_S = 3.0
"""How long a failed pull is shown by its own reason before it is shown as backing off."""
UNAVAILABLE = "RegistryUnavailable"
UNTRUSTED = "SignatureValidationFailed"
PREFIXES = {UNAVAILABLE: "the registry is unavailable", UNTRUSTED: "the signature validation failed"}
INVALID_NAME = "InvalidImageName"


def told(entry: Entry, progress: ImageProgress) -> ImageReport:
    """Return the beginning of a report."""
    return ImageReport(
        uid=entry.uid,
        container=entry.want.container,
        attempt=entry.want.attempt,
        again=entry.want.again,
        image=entry.want.image,
        progress=progress,
    )


def pulling(entry: Entry, since: Instant | None) -> ImageReport:
    """Return the report that the image is being pulled, since when, or is queued."""
    return replace(told(entry, ImageProgress.PULLING), since=since)


def ready(entry: Entry, row: ImageRow, ref: str, pull: PullFinished | None) -> Entry:
    """Return a want whose image is there; `pull` when it was fetched."""
    report = replace(
        told(entry, ImageProgress.READY),
        ref=ref,
        user=row.user,
        user_name=row.user_name,
        size_bytes=row.size_bytes,
        pulled=pull is not None,
        took_s=pull.took_s if pull else 0.0,
        waited_s=pull.waited_s if pull else 0.0,
    )
    return replace(entry, step=Ready(names=row_names(row, ref, entry.image)), retry=Retry(), told=report)


def waiting(
    entry: Entry,
    reason: str,
    message: str,
    now: Instant,
    retry_at: Instant | None,
    back_off_at: Instant | None = None,
) -> Entry:
    """Return a want that waits, and says so."""
    step = Retrying(reason=reason, message=message, since=now, retry_at=retry_at, back_off_at=back_off_at)
    report = replace(told(entry, ImageProgress.WAITING), reason=reason, message=message, retry_at=retry_at)
    return replace(entry, step=step, told=report)


def backing_off(entry: Entry, backoff: PullBackoff, now: Instant) -> Entry:
    """Return a want whose image is not pulled again yet."""
    message = f'Back-off pulling image "{entry.want.image}": {backoff.reason}: {backoff.message}'
    return waiting(entry, "ImagePullBackOff", message, now, backoff.retry.at)


def failed(entry: Entry, backoff: PullBackoff, now: Instant) -> Entry:
    """Return a want whose image was just tried in vain."""
    retry_at = backoff.retry.at
    if backoff.reason == INVALID_NAME:
        # The runtime takes the name for none: trying it again changes nothing.
        return waiting(entry, backoff.reason, backoff.message, now, None)
    return waiting(entry, backoff.reason, backoff.message, now, retry_at, min(retry_at, now + FRESH_S))


def unnamed(entry: Entry, why: str, now: Instant) -> Entry:
    """Return a want whose image is no name."""
    image = entry.want.image
    message = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {why}'
    return waiting(entry, INVALID_NAME, message, now, None)


def pull_failure(
    image: str,
    offers: tuple[CredentialCandidate, ...],
    failures: tuple[Failure, ...],
    problems: tuple[str, ...],
) -> tuple[str, str]:
    """Return reason and message of a pull that failed with all that was tried, `failures` in the order of `offers`."""
    last = failures[-1]
    reasons = {failure.reason for failure in failures}
    reason = last.reason if len(reasons) == 1 and last.reason in (*PREFIXES, INVALID_NAME) else "ErrImagePull"
    texts = [hidden(failure.message, offers) for failure in failures]
    if reason in PREFIXES:
        rest = texts[-1].removeprefix(f"image {image}: ").removeprefix(reason)
        message = f"image pull failed for {image} because {PREFIXES[reason]}{rest if rest.startswith(':') else f': {rest}'}"
    elif len(texts) == 1:
        message = texts[0]
    else:
        each = "; ".join(f"{offer.where}: {text}" for offer, text in zip(offers, texts, strict=False))
        message = f"all {len(texts)} matching credentials failed: {each}"
    refused = [
        offer.where
        for offer, failure in zip(offers, failures, strict=False)
        if failure.kind is FailureKind.DENIED
    ]
    if refused:
        message += (
            f"; credentials for {', '.join(dict.fromkeys(refused))} were refused; no anonymous pull is tried while a"
            " matching pull secret exists"
        )
    if problems:
        message += f"; node credentials could not be read: {', '.join(problems)}"
    return reason, message


def hidden(text: str, offers: tuple[CredentialCandidate, ...]) -> str:
    """Return a text without the secrets of any credential: a driver's promise, kept twice."""
    for offer in offers:
        auth = offer.auth
        for secret in (auth.password, auth.auth, auth.identity_token, auth.registry_token):
            if secret:
                text = text.replace(secret, "<hidden>")
    return text
