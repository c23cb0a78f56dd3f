"""ImagePuller's state in words: per image who wants it, what is under way and since when, what failed, what comes next."""

from typing import assert_never

import msgspec

from actors.images import backoff
from actors.images.state import (
    Checking,
    Entry,
    Fetching,
    ImagesState,
    LookingUp,
    Pull,
    Pulling,
    Queued,
    ReadingCredentials,
    Ready,
    Retrying,
    StepDue,
)
from api.ids import Instant, Uid


class ImageWork(msgspec.Struct, frozen=True, kw_only=True):
    """One image that pods want, or that something is under way for."""

    image: str
    """As pods name it, with its default tag; a text that is no name as it is."""
    wanted_by: tuple[tuple[Uid, str], ...] = ()
    """Pods and their containers, sorted."""
    doing: tuple[str, ...] = ()
    """What is under way or waited for, in words, with the seconds that it has taken."""
    failures: int = 0
    """Pulls in vain that still count, of the pod that has most."""
    last_failure: str = ""
    next_try_s: float | None = None
    """Until the next try, None when none is planned."""


def image_work(state: ImagesState, now: Instant) -> tuple[ImageWork, ...]:
    """Return a row for each image, by name."""
    images = {entry.image or entry.want.image for entry in state.entries.values()}
    images |= {pull.image for pull in state.pulls.values()} | {look.image for look in state.looks.values()}
    images |= {removal.id for removal in state.removals.values()}
    return tuple(work_on(state, image, now) for image in sorted(images))


def work_on(state: ImagesState, image: str, now: Instant) -> ImageWork:
    """Return the row of one image."""
    entries = [entry for entry in state.entries.values() if (entry.image or entry.want.image) == image]
    doing = [words for entry in entries if (words := wait_words(state, entry, now))]
    doing += [pull_words(state, pull, now) for pull in state.pulls.values() if pull.image == image]
    doing += [
        f"looking it up for {now - look.since:.0f} s" for look in state.looks.values() if look.image == image
    ]
    doing += [
        f"removing it for {now - one.since:.0f} s" for one in state.removals.values() if one.id == image
    ]
    known = [backoff.known(state.backoffs, uid, image, now) for uid in {entry.uid for entry in entries}]
    failed = sorted((one for one in known if one is not None), key=lambda one: (one.failed_at, one.uid))
    tries = [
        entry.step.retry_at
        for entry in entries
        if isinstance(entry.step, Retrying) and entry.step.retry_at is not None
    ]
    return ImageWork(
        image=image,
        wanted_by=tuple(sorted((entry.uid, entry.want.container) for entry in entries)),
        doing=tuple(dict.fromkeys(doing)),
        failures=max((one.failures for one in failed), default=0),
        last_failure=f"{failed[-1].reason}: {failed[-1].message}" if failed else "",
        next_try_s=max(0.0, min(tries) - now) if tries else None,
    )


def wait_words(state: ImagesState, entry: Entry, now: Instant) -> str:
    """Say what a want waits for, empty when a look-up or a pull says it already, or it has what it wants."""
    match entry.step:
        case StepDue():
            going = state.leftover or any(one for one in state.removals.values())
            return "waits for the end of a removal" if going else "is due"
        case Retrying(reason=reason, since=since, retry_at=None):
            return f"{reason} for {now - since:.0f} s; another name of the image is waited for"
        case Retrying(reason=reason, since=since):
            return f"{reason} for {now - since:.0f} s"
        case LookingUp() | Fetching() | Ready():
            return ""
        case _:
            assert_never(entry.step)


def pull_words(state: ImagesState, pull: Pull, now: Instant) -> str:
    """Say how far a pull is, and who is in its way."""
    if pull.abandoned:
        return f"a cancelled pull has not ended; it began {now - pull.begun_at:.0f} s ago"
    match pull.step:
        case Queued():
            words = f"waits for its turn for {now - pull.asked_at:.0f} s"
            if state.at_work:
                first = min(state.at_work, key=lambda other: other.begun_at)
                words += f"; {first.image} has been pulled for {now - first.begun_at:.0f} s"
            return words
        case ReadingCredentials():
            return f"reading the node's credentials for {now - pull.begun_at:.0f} s"
        case Pulling(offers=offers, failures=failures):
            words = f"being pulled for {now - pull.begun_at:.0f} s"
            return f"{words}, credential {len(failures) + 1} of {len(offers)}" if offers else words
        case Checking():
            return f"pulled; being looked at for {now - pull.ended_at:.0f} s"
        case _:
            assert_never(pull.step)
