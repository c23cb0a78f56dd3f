"""The pulls: one per image and credentials, in the order of requests, trying each credential."""

from collections.abc import Callable, Mapping
from typing import assert_never

from msgspec.structs import replace

from actors.images import backoff, bucket, report
from actors.images.keyring import fitting, offers
from actors.images.state import (
    Checking,
    Entry,
    Fetching,
    ImagesState,
    Place,
    Pull,
    PullFinished,
    Pulling,
    Queued,
    ReadingCredentials,
    Retrying,
    StepDue,
)
from actors.rules.retry import Retry
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId
from api.lifecycle import Action, Cancel, Start
from api.messages.images import PullPolicy
from api.messages.kernel import Outcome
from api.ports.credentials import NodeCredentials, ReadNodeCredentials
from api.ports.images import ImagePulled, ImageShown, ImageStatus, PullImage

CREDENTIALS_DEADLINE_S = 10.0
KEPT = 32
"""Ended pulls that are kept for users."""

NewOp = Callable[[], OpId]


def join(state: ImagesState, place: Place, now: Instant) -> ImagesState:
    """Let a want wait for a pull: for one that is under way or queued, else for a new one."""
    entry = state.entries[place]
    credentials = fitting(entry.image, entry.credentials)
    same = (
        number
        for number, pull in state.pulls.items()
        if (pull.image, pull.credentials) == (entry.image, credentials) and not pull.abandoned
    )
    number = next(same, None)
    if number is None:
        number = state.next_pull
        pull = Pull(image=entry.image, credentials=credentials, annotations=entry.annotations, asked_at=now)
        state = replace(state, pulls={**state.pulls, number: pull}, next_pull=number + 1)
    pull = state.pulls[number]
    since = None if isinstance(pull.step, Queued) else pull.begun_at
    entry = replace(entry, step=Fetching(pull=number), retry=Retry(), told=report.pulling(entry, since))
    return replace(state, entries={**state.entries, place: entry})


def abandon(state: ImagesState) -> tuple[ImagesState, tuple[Action, ...]]:
    """Cancel the pulls that no want waits for any more."""
    wanted = {entry.step.pull for entry in state.entries.values() if isinstance(entry.step, Fetching)}
    idle = [number for number, pull in state.pulls.items() if number not in wanted and not pull.abandoned]
    if not idle:
        return state, ()
    pulls = dict(state.pulls)
    actions: list[Action] = []
    for number in idle:
        pull = pulls[number]
        if isinstance(pull.step, Queued):
            del pulls[number]
            continue
        # It keeps its place until it has ended: a runtime may go on for a while with what was cancelled.
        pulls[number] = replace(pull, abandoned=True)
        actions.append(Cancel(op=pull.step.op))
    return replace(state, pulls=pulls), tuple(actions)


def begin(
    state: ImagesState, now: Instant, new_op: NewOp
) -> tuple[ImagesState, tuple[Action, ...], Instant | None]:
    """Begin the queued pulls that may; return also when the next may that waits for a token."""
    actions: list[Action] = []
    if not any(isinstance(pull.step, Queued) for pull in state.pulls.values()):
        return state, (), None
    state = bucket.filled(state, now)
    for number, pull in state.pulls.items():
        limit = state.policy.at_once
        if limit is not None and len(state.at_work) >= limit:
            break
        if not isinstance(pull.step, Queued) or under_way(state, pull):
            continue
        at = bucket.next_at(state, now)
        if at > now:
            return state, tuple(actions), at
        op = new_op()
        begun = replace(pull, step=ReadingCredentials(op=op), begun_at=now)
        entries = {
            place: replace(entry, told=report.pulling(entry, now))
            if entry.step == Fetching(pull=number)
            else entry
            for place, entry in state.entries.items()
        }
        state = bucket.taken(replace(state, pulls={**state.pulls, number: begun}, entries=entries))
        actions.append(
            Start(op=op, port="credentials", call=ReadNodeCredentials(), deadline_s=CREDENTIALS_DEADLINE_S)
        )
    return state, tuple(actions), None


def under_way(state: ImagesState, pull: Pull) -> bool:
    """Return whether a cancelled pull of the same image and credentials has not ended yet."""
    return any(
        other.abandoned and (other.image, other.credentials) == (pull.image, pull.credentials)
        for other in state.pulls.values()
    )


def absorb(
    state: ImagesState, number: int, outcome: Outcome, now: Instant, new_op: NewOp
) -> tuple[ImagesState, tuple[Action, ...]]:
    """Take in the outcome of a pull's operation, and go on with it."""
    pull = state.pulls[number]
    if pull.abandoned:
        return without(state, number), ()
    match pull.step:
        case ReadingCredentials():
            found = outcome.result
            if isinstance(found, NodeCredentials):
                problems = tuple(f"{one.where}: {one.message}" for one in found.problems)
                node = found.credentials
            else:
                problems, node = (outcome.failure.message if outcome.failure else "no answer",), ()
            fit = offers(pull.image, pull.credentials, node)
            step = Pulling(op=new_op(), offers=fit)
            return going_on(state, number, replace(pull, problems=problems), step)
        case Pulling() as step:
            if isinstance(outcome.result, ImagePulled):
                check = Checking(op=new_op(), ref=outcome.result.ref)
                pulls = {**state.pulls, number: replace(pull, step=check, ended_at=now)}
                call = ImageStatus(image=check.ref, annotations=pull.annotations)
                start = Start(op=check.op, port="images", call=call, deadline_s=state.deadline_s)
                return replace(state, pulls=pulls), (start,)
            failures = (*step.failures, outcome.failure or nothing("the runtime returned no image reference"))
            if len(failures) < len(step.offers):
                return going_on(state, number, pull, replace(step, op=new_op(), failures=failures))
            reason, message = report.pull_failure(pull.image, step.offers, failures, pull.problems)
            return fail(state, number, reason, message, now), ()
        case Checking() as step:
            return checked(state, number, pull, step, outcome, now), ()
        case Queued():
            raise AssertionError(pull)
        case _:
            assert_never(pull.step)


def nothing(message: str) -> Failure:
    """Return the failure of a call that was answered with nothing of use."""
    return Failure(kind=FailureKind.UNAVAILABLE, message=message)


def going_on(
    state: ImagesState, number: int, pull: Pull, step: Pulling
) -> tuple[ImagesState, tuple[Action, ...]]:
    """Pull with the first credential that was not tried yet, or without any when none fits."""
    auth = step.offers[len(step.failures)].auth if step.offers else None
    call = PullImage(image=pull.image, auth=auth, annotations=pull.annotations)
    state = replace(state, pulls={**state.pulls, number: replace(pull, step=step)})
    return state, (Start(op=step.op, port="images", call=call, deadline_s=state.pull_deadline_s),)


def checked(
    state: ImagesState, number: int, pull: Pull, step: Checking, outcome: Outcome, now: Instant
) -> ImagesState:
    """Take in what a pulled image is."""
    if outcome.failure is not None or not isinstance(outcome.result, ImageShown):
        why = outcome.failure.message if outcome.failure else "no answer"
        return fail(state, number, "ImageInspectError", f'Failed to inspect image "{step.ref}": {why}', now)
    row = outcome.result.image
    if row is None:
        message = (
            f"image {pull.image} was pulled, but the runtime does not show it by its reference {step.ref}"
        )
        return fail(state, number, "ErrImagePull", message, now)
    done = PullFinished(
        pull=number,
        image=pull.image,
        at=now,
        took_s=pull.ended_at - pull.asked_at,
        waited_s=pull.begun_at - pull.asked_at,
        size_bytes=row.size_bytes,
        problems=pull.problems,
    )
    entries = dict(state.entries)
    for place, entry in state.entries.items():
        if entry.step == Fetching(pull=number):
            entries[place] = report.ready(entry, row, step.ref, done)
        elif is_woken(entry, pull.image):
            entries[place] = replace(entry, step=StepDue())
    state = replace(state, entries=entries, finished=(*state.finished, done)[-KEPT:])
    return without(state, number)


def is_woken(entry: Entry, image: str) -> bool:
    """Return whether a waiting want must look up again because another pod's pull brought its image."""
    waits = isinstance(entry.step, Retrying) and entry.step.retry_at is not None
    return waits and entry.image == image and entry.want.policy is not PullPolicy.ALWAYS


def fail(state: ImagesState, number: int, reason: str, message: str, now: Instant) -> ImagesState:
    """Fail a pull: each pod that waits for it counts the failure once."""
    pull = state.pulls[number]
    waiters: Mapping[Place, Entry] = {
        place: entry for place, entry in state.entries.items() if entry.step == Fetching(pull=number)
    }
    backoffs = state.backoffs
    for uid in dict.fromkeys(entry.uid for entry in waiters.values()):
        backoffs = backoff.counted(backoffs, uid, pull.image, reason, message, now)
    entries = {
        place: report.failed(entry, backoffs[entry.uid, pull.image], now) for place, entry in waiters.items()
    }
    done = PullFinished(
        pull=number,
        image=pull.image,
        at=now,
        took_s=now - pull.asked_at,
        waited_s=pull.begun_at - pull.asked_at,
        failure=f"{reason}: {message}",
        problems=pull.problems,
    )
    state = replace(
        state,
        entries={**state.entries, **entries},
        backoffs=backoffs,
        finished=(*state.finished, done)[-KEPT:],
    )
    return without(state, number)


def without(state: ImagesState, number: int) -> ImagesState:
    """Return the state without a pull."""
    return replace(state, pulls={key: pull for key, pull in state.pulls.items() if key != number})
