"""ImageGCManager's decisions: one round at a time, one removal at a time, each after an inspection of its own.

The image puller decides whether an image may be removed: it knows what pods want. Sizes only decide the order: after each
removal the file system is measured until the space is free or `PATIENCE_S` is over, since layers are shared and space is
freed late.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.imagegc import disk
from actors.imagegc.answer import answered, with_asker
from actors.imagegc.inspection import (
    IMAGES,
    ImageInspection,
    inventory,
    missing,
    port_of,
    with_failure,
    with_result,
)
from actors.imagegc.report import finish, happened
from actors.imagegc.state import RUNS, Dropping, ImageGCState, Inspecting, Round, Settling
from actors.imagegc.verdict import Goal, Judgement, judge, remember, verdict
from api import paths
from api.errors import FailureKind
from api.ids import Instant, OpId, WallNs
from api.lifecycle import Action, Cancel, Decision, Start, Tell
from api.messages.imagegc import CollectImages, ImageDropped, ImageGCMessage
from api.messages.images import DropImage
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.ports.images import ImageFs, ImageFsUsage
from api.shown.introspection import ImageDecision

SIDE_BY_SIDE = 8
"""Calls of one inspection in flight at a time: it must not delay pods."""
PATIENCE_S = 6.0
"""How long freed space may take to show before the next image goes."""
FIRST_WAIT_S = 0.1
DROP_MARGIN_S = 10.0
"""What the image puller may take beyond the deadline of its own call."""


class WatchImages(Action, frozen=True, kw_only=True):
    """Watch the image puller for its death; reported at once when it does not run."""


def decide(
    before: ImageGCState,
    message: ImageGCMessage | KernelMessage | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[ImageGCState]:
    """Absorb a message (None: the beginning) and continue the round, or begin one."""
    state, actions = absorb(before, message, now, wall)
    decision = plan(state, now, wall, new_op)
    after, answers = answered(before, decision.state)
    return replace(decision, state=after, actions=(*actions, *decision.actions, *answers))


# ---------------------------------------------------------------- what is known now


def absorb(
    state: ImageGCState, message: ImageGCMessage | KernelMessage | None, now: Instant, wall: WallNs
) -> tuple[ImageGCState, tuple[Action, ...]]:
    """Return the state after `message`, and the calls to cancel."""
    match message:
        case CollectImages(run=run):
            known = {*state.waiting, *(state.round.runs if state.round else ())}
            known |= {name for one in state.collected for name in one.runs}
            waiting = state.waiting if run in known else (*state.waiting, run)[-RUNS:]
            return with_asker(replace(state, waiting=waiting), message), ()
        case ImageDropped():
            return absorb_dropped(state, message, now), ()
        case Outcome():
            return absorb_outcome(state, message, now, wall)
        case Restarted(path=path) if path == paths.IMAGES:
            return lose_answer(state, "the image puller was restarted before it removed the image"), ()
        case ChildDied(path=path, cause=cause) if path == paths.IMAGES:
            return replace(
                lose_answer(state, f"the image puller does not run: {cause or 'stopped'}"),
                puller=cause or "stopped",
            ), ()
        case None | Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded():
            return state, ()
        case _:
            assert_never(message)


def lose_answer(state: ImageGCState, why: str) -> ImageGCState:
    """Absorb that the removal in flight will get no answer."""
    match state.round:
        case Round(step=Dropping() as step) as current:
            return with_round(state, replace(current, step=replace(step, lost=why)))
        case _:
            return state


def absorb_dropped(state: ImageGCState, message: ImageDropped, now: Instant) -> ImageGCState:
    """Absorb the answer to a removal; a late one is ignored."""
    current = state.round
    if current is None or not isinstance(current.step, Dropping) or current.step.image.id != message.id:
        return state
    step = current.step
    if not message.removed:
        decision = ImageDecision.KEEP if message.wanted else ImageDecision.FAILED
        row = verdict(step.image, decision, message.why or "the image puller did not say why")
        trouble = current.trouble or (
            "" if message.wanted else f"cannot remove image {title(row.names, row.id)}: {row.reason}"
        )
        spared = {**current.spared, row.id: row}
        return with_round(
            state, replace(current, spared=spared, trouble=trouble, step=new_inspection(state, now))
        )
    gone = (*current.gone, verdict(step.image, ImageDecision.REMOVED, step.why))
    current = replace(current, gone=gone)
    if current.everything or not current.space or current.after is None:
        current = replace(current, step=new_inspection(state, now))
    else:
        current = replace(current, step=settle(current.after, step.image.size_bytes, now))
    return with_round(replace(state, removed=state.removed + 1), current)


def settle(fs: ImageFs, expect_bytes: int, now: Instant) -> Settling:
    """Begin to wait for space to show, measuring at once."""
    return Settling(
        expect_bytes=max(1, expect_bytes),
        available_before=disk.available(fs),
        until=now + PATIENCE_S,
        next_at=now,
        wait_s=FIRST_WAIT_S,
    )


def absorb_outcome(
    state: ImageGCState, outcome: Outcome, now: Instant, wall: WallNs
) -> tuple[ImageGCState, tuple[Action, ...]]:
    """Absorb an answer of the runtime; one of an earlier round is ignored."""
    current = state.round
    match current:
        case Round(step=Inspecting(asked=asked)) if outcome.op in asked:
            return absorb_inspection(state, current, outcome, now, wall)
        case Round(step=Settling(asked=asked) as step) if outcome.op == asked:
            step = replace(step, asked=None, next_at=now + step.wait_s, wait_s=step.wait_s * 2)
            if isinstance(outcome.result, ImageFs):
                current = replace(current, after=outcome.result)
            return with_round(state, replace(current, step=step)), ()
        case _:
            return state, ()


def absorb_inspection(
    state: ImageGCState, current: Round, outcome: Outcome, now: Instant, wall: WallNs
) -> tuple[ImageGCState, tuple[Action, ...]]:
    """Absorb one result of an inspection; a failure ends the round: nothing is removed on partial knowledge."""
    step = current.step
    assert isinstance(step, Inspecting)
    call = step.asked[outcome.op]
    asked = {op: other for op, other in step.asked.items() if op != outcome.op}
    if outcome.failure is None:
        inspection: ImageInspection | None = with_result(step.inspection, call, outcome.result)
    else:
        inspection = with_failure(step.inspection, call, outcome.failure, must_measure=not current.everything)
    if inspection is not None:
        rejected = outcome.failure is not None and outcome.failure.kind is FailureKind.REJECTED
        if inspection.fs is not None or rejected:
            state = replace(state, note=inspection.unmeasured)
        return with_round(state, replace(current, step=replace(step, inspection=inspection, asked=asked))), ()
    why = f"{call.brief()} failed: {outcome.failure.message if outcome.failure else ''}"
    return finish(state, current, now, wall, failure=why), tuple(Cancel(op=op) for op in asked)


# ---------------------------------------------------------------- the next step


def plan(
    state: ImageGCState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]
) -> Decision[ImageGCState]:
    """Begin a round that is due, and do the next of what it needs."""
    actions: list[Action] = []
    if state.round is None and (state.waiting or now >= state.next_round_at):
        begun = Round(
            runs=state.waiting, everything=bool(state.waiting), since=now, step=new_inspection(state, now)
        )
        state = replace(state, round=begun, waiting=(), rounds=state.rounds + 1, puller="")
        actions.append(WatchImages())
    current = state.round
    while current is not None:
        after = advance(state, current, now, wall, new_op, actions)
        if after.round is current:
            break
        state, current = after, after.round
    return Decision(state=state, actions=tuple(actions), wake_at=wake_at(state))


def advance(
    state: ImageGCState,
    current: Round,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
    actions: list[Action],
) -> ImageGCState:
    """Go one step on with a round; the same round comes back when there is something to wait for."""
    match current.step:
        case Inspecting(inspection=inspection, asked=asked) as step:
            wanted = missing(inspection)
            if not wanted:
                return conclude(state, current, now, wall, actions)
            under_way = set(asked.values())
            fresh = [call for call in wanted if call not in under_way][: max(0, SIDE_BY_SIDE - len(asked))]
            if not fresh:
                return state
            started = {new_op(): call for call in fresh}
            actions += [
                Start(op=op, port=port_of(call), call=call, deadline_s=state.deadline_s)
                for op, call in started.items()
            ]
            return with_round(state, replace(current, step=replace(step, asked={**asked, **started})))
        case Dropping(until=until, lost=lost, image=image):
            if not lost and now < until:
                return state
            silence = f"the image puller did not answer within {state.deadline_s + DROP_MARGIN_S:.0f} s"
            why = f"cannot remove image {title(image.names, image.id)}: {lost or silence}"
            return finish(state, current, now, wall, failure=why)
        case Settling() as step:
            return keep_measuring(state, current, step, now, new_op, actions)
        case _:
            assert_never(current.step)


def keep_measuring(
    state: ImageGCState,
    current: Round,
    step: Settling,
    now: Instant,
    new_op: Callable[[], OpId],
    actions: list[Action],
) -> ImageGCState:
    """Measure until the space is free, is enough, or the wait is over; then inspect again."""
    if step.asked is not None:
        return state
    assert current.after is not None
    shown = disk.available(current.after) - step.available_before
    enough = current.space and disk.need_bytes(current.after, state.policy.low_percent) <= 0
    if shown >= step.expect_bytes or enough or now >= step.until:
        return with_round(state, replace(current, step=new_inspection(state, now)))
    if now < step.next_at:
        return state
    op = new_op()
    actions.append(Start(op=op, port=IMAGES, call=ImageFsUsage(), deadline_s=state.deadline_s))
    return with_round(state, replace(current, step=replace(step, asked=op)))


def conclude(
    state: ImageGCState, current: Round, now: Instant, wall: WallNs, actions: list[Action]
) -> ImageGCState:
    """Decide on a complete inspection: which image to remove next, or that the round is over."""
    assert isinstance(current.step, Inspecting)
    as_of = current.step.since
    seen = inventory(current.step.inspection)
    policy = state.policy
    state = replace(state, records=remember(state.records, seen, now), mounts=seen.mounts)
    current = measured(replace(current, inspections=current.inspections + 1), seen.fs, seen.unmeasured, state)
    need = disk.need_bytes(current.after, policy.low_percent) if current.space and current.after else 0
    goal = Goal(everything=current.everything, need_bytes=need, since=current.since, spared=current.spared)
    judgement = judge(seen, state.records, policy, goal, now)
    current = replace(current, verdicts=judgement.verdicts)
    first = judgement.next
    if first is not None:
        image = next(image for image in seen.images if image.id == first.id)
        if state.puller:
            why = f"cannot remove image {title(image.names, image.id)}: the image puller does not run: {state.puller}"
            return finish(state, current, now, wall, failure=why)
        until = now + state.deadline_s + DROP_MARGIN_S
        drop = DropImage(id=image.id, names=image.names, as_of=as_of, asked_by=paths.IMAGEGC)
        actions.append(Tell(to=paths.IMAGES, message=drop))
        return with_round(state, replace(current, step=Dropping(image=image, why=first.reason, until=until)))
    if current.everything and current.gone and not current.settled and current.before and current.after:
        # The answer includes the freed space, which may take a moment to show.
        expect = sum(max(0, row.size_bytes) for row in current.gone)
        step = replace(settle(current.before, expect, now), next_at=now + FIRST_WAIT_S)
        return with_round(state, replace(current, settled=True, step=step))
    return over(state, current, need, judgement, now, wall)


def measured(current: Round, fs: ImageFs | None, unmeasured: str, state: ImageGCState) -> Round:
    """Absorb how full the file system is; the first inspection of a round decides whether space must be freed."""
    current = replace(current, unmeasured=unmeasured)
    if fs is None:
        return current
    if fs.capacity_bytes <= 0:
        return replace(
            current, absurd=f"invalid capacity {fs.capacity_bytes} on image filesystem", space=False
        )
    current = replace(current, before=current.before or fs, after=fs)
    high = state.policy.high_percent
    if current.inspections == 1 and not current.everything and high < 100:
        current = replace(current, space=disk.used_percent(fs) >= high)
    return current


def over(
    state: ImageGCState,
    current: Round,
    need: int,
    judgement: Judgement,
    now: Instant,
    wall: WallNs,
) -> ImageGCState:
    """End a round in which nothing more can go."""
    fs = current.after
    if current.absurd and not current.everything:
        state = happened(state, wall, "InvalidDiskCapacity", current.absurd)
        return finish(state, current, now, wall, failure=both(current.absurd, current.trouble))
    if need <= 0 or fs is None:
        return finish(state, current, now, wall, failure=current.trouble)
    again_at = judgement.too_young[0] if judgement.too_young else None
    if again_at is not None and judgement.young_bytes >= need and not current.trouble:
        # They will be old enough soon: that is not a failure yet.
        when = disk.span(again_at - now)
        note = f"{disk.people(need)} more must become free; an image becomes old enough in {when}"
        return finish(state, current, now, wall, note=note, again_at=again_at)
    freed = max(0, disk.available(fs) - disk.available(current.before)) if current.before else 0
    short = (
        f"Insufficient free disk space on the node's image filesystem ({disk.used_percent(fs)}% of"
        f" {disk.people(fs.capacity_bytes)} used). Failed to free sufficient space by deleting unused images (freed"
        f" {freed} bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
    )
    state = happened(state, wall, "FreeDiskSpaceFailed", short)
    failure = both(short, current.trouble)
    return finish(state, current, now, wall, failure=failure, again_at=again_at)


def both(first: str, second: str) -> str:
    """Return two sentences as one text."""
    return f"{first}; {second}" if first and second else first or second


def wake_at(state: ImageGCState) -> Instant | None:
    """Return when to decide again at the latest."""
    if state.round is None:
        return state.next_round_at
    match state.round.step:
        case Dropping(until=until):
            return until
        case Settling(asked=None, next_at=next_at, until=until):
            return min(next_at, until)
        case _:
            return None


def new_inspection(state: ImageGCState, now: Instant) -> Inspecting:
    """Return a new inspection."""
    return Inspecting(inspection=ImageInspection(mounts=state.mounts), since=now)


def with_round(state: ImageGCState, current: Round) -> ImageGCState:
    """Return the state with this round under way."""
    return replace(state, round=current)


def title(names: tuple[str, ...], image_id: str) -> str:
    """Return the first name of an image, else its id."""
    return names[0] if names else image_id
