"""ImagePuller's decisions: what is looked up, pulled and removed, and the reports to pods.

A want is a level: a repeated one only repeats the current report, a missing one has ended, and with the last want for it
a pull ends too. Only `absorb` reads messages; `plan` takes every next step that the state allows.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.images import backoff, drop, pull, report
from actors.images.state import (
    Entry,
    ImageLookup,
    ImagesState,
    Lease,
    LookingUp,
    Place,
    Queued,
    Ready,
    Retrying,
    StepDue,
)
from actors.rules.imagename import complaint, with_default_tag
from actors.rules.retry import RetryPolicy
from api.ids import Instant, OpId, Uid
from api.lifecycle import Action, Cancel, Decision, Start, Tell, Watch
from api.messages.images import DropImage, ImagesMessage, ImageWant, PullPolicy, WantImages
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.paths import pod_path
from api.ports.images import ImageShown, ImageStatus

INSPECT_RETRY = RetryPolicy(base_s=1.0, limit_s=10.0)
"""Of a look-up that failed."""
ABSENT_RETRY = RetryPolicy(base_s=1.0, limit_s=30.0)
"""Of the look-up of an image that is never pulled: a user may load it."""

NewOp = Callable[[], OpId]


class Absorbed(msgspec.Struct, frozen=True, kw_only=True):
    """The state after a message, the actions it causes, and the pod that sent its wants."""

    state: ImagesState
    actions: tuple[Action, ...] = ()
    asked: Uid | None = None


def start(
    state: ImagesState, now: Instant, *, restarted: bool, leftover: tuple[OpId, ...]
) -> Decision[ImagesState]:
    """Begin: give up what an earlier incarnation had under way, and wait for its end."""
    state = replace(state, restarted_at=now if restarted else None, leftover=frozenset(leftover))
    return Decision(state=state, actions=tuple(Cancel(op=op) for op in leftover))


def decide(
    before: ImagesState, message: ImagesMessage | KernelMessage, now: Instant, new_op: NewOp
) -> Decision[ImagesState]:
    """Take in a message and take every step that is due."""
    absorbed = absorb(before, message, now, new_op)
    decision = plan(absorbed.state, now, new_op)
    tells = reports(before, decision.state, absorbed.asked)
    return replace(decision, actions=(*absorbed.actions, *decision.actions, *tells))


# ---------------------------------------------------------------- what is known now


def absorb(
    state: ImagesState, message: ImagesMessage | KernelMessage, now: Instant, new_op: NewOp
) -> Absorbed:
    """Return what is known after `message`."""
    match message:
        case WantImages():
            return absorb_wants(state, message, now)
        case DropImage():
            state, actions = drop.drop(state, message, now, new_op)
            return Absorbed(state=state, actions=actions)
        case Outcome():
            return absorb_outcome(state, message, now, new_op)
        case ChildDied(path=path):
            gone = next((uid for uid in state.watched if pod_path(uid) == path), None)
            if gone is None:
                return Absorbed(state=state)
            return Absorbed(state=replace(ended(state, gone, {}, now), watched=state.watched - {gone}))
        case Alarm() | Restarted() | Heard() | StreamEnded():
            # A pod's new incarnation sends its wants by itself; those of the old one stand until then.
            return Absorbed(state=state)
        case _:
            assert_never(message)


def absorb_wants(state: ImagesState, message: WantImages, now: Instant) -> Absorbed:
    """Take in all that a pod wants."""
    uid = message.uid
    wants = {
        (uid, want.container): renewed(state.entries.get((uid, want.container)), want, message, now)
        for want in message.wants
    }
    state = ended(state, uid, wants, now)
    if not wants or uid in state.watched:
        return Absorbed(state=state, asked=uid)
    watch = Watch(path=pod_path(uid))
    return Absorbed(state=replace(state, watched=state.watched | {uid}), actions=(watch,), asked=uid)


def renewed(old: Entry | None, want: ImageWant, message: WantImages, now: Instant) -> Entry:
    """Return a container's want as it is now: progress counts as long as the image is the same."""
    annotations, credentials = message.annotations, message.credentials
    if old is not None and is_same_question(old.want, want):
        old = replace(old, annotations=annotations, credentials=credentials)
        if old.want.attempt == want.attempt:
            return old
        if not isinstance(old.step, Ready):
            told = replace(old.told, attempt=want.attempt) if old.told is not None else None
            return replace(old, want=want, told=told)
    why = complaint(want.image)
    entry = Entry(
        uid=message.uid,
        want=want,
        image="" if why else with_default_tag(want.image),
        annotations=annotations,
        credentials=credentials,
        since=now,
        step=StepDue(),
    )
    return report.unnamed(entry, why, now) if why else entry


def is_same_question(old: ImageWant, want: ImageWant) -> bool:
    """Return whether what was done for one want counts for another."""
    return (old.image, old.policy, old.again) == (want.image, want.policy, want.again)


def ended(state: ImagesState, uid: Uid, wants: dict[Place, Entry], now: Instant) -> ImagesState:
    """Put a pod's wants in the place of its old ones; an image that was ready is kept for a moment."""
    leases = []
    for place, entry in state.entries.items():
        if entry.uid != uid or not entry.image:
            continue
        new = wants.get(place)
        # The next instance may get another image of the same name: until it is ready, the old one counts too.
        if (
            new is None
            or new.image != entry.image
            or (isinstance(entry.step, Ready) and not isinstance(new.step, Ready))
        ):
            names = entry.step.names if isinstance(entry.step, Ready) else (entry.image,)
            leases.append(Lease(uid=uid, names=names, ended_at=now))
    entries = {place: entry for place, entry in state.entries.items() if entry.uid != uid}
    kept = tuple(lease for lease in state.leases if now < lease.ended_at + drop.LISTING_LIMIT_S)
    return replace(state, entries={**entries, **wants}, leases=(*kept, *leases))


def absorb_outcome(state: ImagesState, outcome: Outcome, now: Instant, new_op: NewOp) -> Absorbed:
    """Take in how an operation ended."""
    op = outcome.op
    if op in state.leftover:
        return Absorbed(state=replace(state, leftover=state.leftover - {op}))
    if op in state.lookups:
        return Absorbed(state=absorb_lookup(state, outcome, now))
    if op in state.removals:
        state, actions = drop.dropped(state, outcome)
        return Absorbed(state=state, actions=actions)
    for number, one in state.pulls.items():
        if not isinstance(one.step, Queued) and one.step.op == op:
            state, actions = pull.absorb(state, number, outcome, now, new_op)
            return Absorbed(state=state, actions=actions)
    return Absorbed(state=state)


def absorb_lookup(state: ImagesState, outcome: Outcome, now: Instant) -> ImagesState:
    """Absorb a look-up, for all wants that waited for it."""
    lookups = {op: lookup for op, lookup in state.lookups.items() if op != outcome.op}
    state = replace(state, lookups=lookups)
    for place, entry in state.entries.items():
        if entry.step != LookingUp(op=outcome.op):
            continue
        shown = outcome.result if isinstance(outcome.result, ImageShown) else None
        if shown is None:
            why = outcome.failure.message if outcome.failure else "no answer"
            message = f'Failed to inspect image "{entry.want.image}": {why}'
            state = put(state, place, again(entry, "ImageInspectError", message, now, INSPECT_RETRY))
        elif shown.image is not None:
            state = put(state, place, report.ready(entry, shown.image, shown.image.id, None))
        elif entry.want.policy is PullPolicy.NEVER:
            message = f'Container image "{entry.want.image}" is not present with pull policy of Never'
            state = put(state, place, again(entry, "ErrImageNeverPull", message, now, ABSENT_RETRY))
        else:
            state = fetch(state, place, now)
    return state


def again(entry: Entry, reason: str, message: str, now: Instant, policy: RetryPolicy) -> Entry:
    """Return a want that is tried again, later each time."""
    retry = entry.retry.after(now, policy)
    return replace(report.waiting(entry, reason, message, now, retry.at), retry=retry)


def put(state: ImagesState, place: Place, entry: Entry) -> ImagesState:
    """Return the state with this want."""
    return replace(state, entries={**state.entries, place: entry})


# ---------------------------------------------------------------- the next steps


def plan(state: ImagesState, now: Instant, new_op: NewOp) -> Decision[ImagesState]:
    """End waits that are over, then look up, pull and cancel."""
    state = replace(state, backoffs=backoff.pruned(state.backoffs, now))
    state = without_ended_waits(state, now)
    actions: list[Action] = []
    for place, entry in state.entries.items():
        if isinstance(entry.step, StepDue) and not drop.is_going(state, entry.image):
            state = step(state, place, now, new_op, actions)
    state, cancels = pull.abandon(state)
    state, starts, token_at = pull.begin(state, now, new_op)
    return Decision(state=state, actions=(*actions, *cancels, *starts), wake_at=wake_at(state, token_at))


def without_ended_waits(state: ImagesState, now: Instant) -> ImagesState:
    """Return the state after the waits that are over."""
    for place, entry in state.entries.items():
        if not isinstance(entry.step, Retrying):
            continue
        if entry.step.retry_at is not None and now >= entry.step.retry_at:
            state = put(state, place, replace(entry, step=StepDue()))
        elif entry.step.back_off_at is not None and now >= entry.step.back_off_at:
            known = backoff.known(state.backoffs, entry.uid, entry.image, now)
            assert known is not None, entry
            state = put(state, place, report.backing_off(entry, known, now))
    return state


def step(state: ImagesState, place: Place, now: Instant, new_op: NewOp, actions: list[Action]) -> ImagesState:
    """Take the first step of a want: a look-up, shared with equal wants, or a pull."""
    entry = state.entries[place]
    if entry.want.policy is PullPolicy.ALWAYS:
        return fetch(state, place, now)
    op = next((op for op, lookup in state.lookups.items() if lookup.image == entry.image), None)
    if op is None:
        op = new_op()
        call = ImageStatus(image=entry.image, annotations=entry.annotations)
        actions.append(Start(op=op, port="images", call=call, deadline_s=state.deadline_s))
        state = replace(state, lookups={**state.lookups, op: ImageLookup(image=entry.image, since=now)})
    return put(state, place, replace(entry, step=LookingUp(op=op)))


def fetch(state: ImagesState, place: Place, now: Instant) -> ImagesState:
    """Pull an image, unless that failed for this pod a moment ago."""
    entry = state.entries[place]
    wait = backoff.waits(state.backoffs, entry.uid, entry.image, now)
    if wait is not None:
        return put(state, place, report.backing_off(entry, wait, now))
    return pull.join(state, place, now)


def wake_at(state: ImagesState, token_at: Instant | None) -> Instant | None:
    """Return when to decide again at the latest."""
    waits = [entry.step for entry in state.entries.values() if isinstance(entry.step, Retrying)]
    instants = [at for wait in waits for at in (wait.retry_at, wait.back_off_at)]
    return min((at for at in (*instants, token_at) if at is not None), default=None)


def reports(before: ImagesState, after: ImagesState, asked: Uid | None) -> tuple[Tell, ...]:
    """Return the reports to send: those that changed, and all of the pod that asked."""
    tells = []
    for place, entry in after.entries.items():
        old = before.entries.get(place)
        if entry.told is None:
            continue
        if entry.uid == asked or old is None or old.told != entry.told:
            tells.append(Tell(to=pod_path(entry.uid), message=entry.told))
    return tuple(tells)
