"""Removals: an image is removed only when no pod wants it, wanted it a moment ago, or is pulling it."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from actors.images.state import ImagesState, Ready, Removal
from actors.rules.imagename import forms
from api.ids import Instant, OpId
from api.lifecycle import Action, Start, Tell
from api.messages.imagegc import ImageDropped
from api.messages.images import DropImage
from api.messages.kernel import Outcome
from api.ports.images import ImageRemoved, RemoveImage

LEASE_S = 15.0
"""How long an image is kept after a want for it ended, and after a restart of this actor."""
LISTING_LIMIT_S = 600.0
"""A listing of users that began longer ago is not accepted: earlier wants are not remembered."""


def drop(
    state: ImagesState, message: DropImage, now: Instant, new_op: Callable[[], OpId]
) -> tuple[ImagesState, tuple[Action, ...]]:
    """Begin to remove an image, or say why it stays."""
    names = (message.id, *message.names)
    why = holder(state, names, message.as_of, now)
    if why:
        refusal = ImageDropped(id=message.id, removed=False, wanted=True, why=why)
        return state, (Tell(to=message.asked_by, message=refusal),)
    for op, removal in state.removals.items():
        if removal.id == message.id:
            asked_by = tuple(dict.fromkeys((*removal.asked_by, message.asked_by)))
            joined = replace(removal, asked_by=asked_by)
            return replace(state, removals={**state.removals, op: joined}), ()
    op = new_op()
    removal = Removal(id=message.id, names=names, asked_by=(message.asked_by,), since=now)
    start = Start(op=op, port="images", call=RemoveImage(image=message.id), deadline_s=state.deadline_s)
    return replace(state, removals={**state.removals, op: removal}), (start,)


def holder(state: ImagesState, names: Iterable[str], as_of: Instant, now: Instant) -> str:
    """Return why an image of these names stays though no container used it at `as_of`, empty when it may go."""
    asked = all_forms(names)
    if state.restarted_at is not None and min(now, as_of) < state.restarted_at + LEASE_S:
        return "may be wanted by pods: the image puller was restarted and collects their wants"
    if as_of < now - LISTING_LIMIT_S:
        return f"may be wanted by pods: its users were last listed {now - as_of:.0f} s ago"
    pods = sorted(
        {
            entry.uid
            for entry in state.entries.values()
            if asked & all_forms(entry.step.names if isinstance(entry.step, Ready) else (entry.image,))
        }
    )
    if pods:
        return f"wanted by pod {', '.join(pods)}"
    for lease in state.leases:
        recent = now < lease.ended_at + LEASE_S or as_of <= lease.ended_at
        if recent and asked & all_forms(lease.names):
            return f"wanted by pod {lease.uid} until a moment ago"
    for pull in state.pulls.values():
        if asked & all_forms((pull.image,)):
            return f"wanted by pods: a pull of {pull.image} is under way"
    for lookup in state.lookups.values():
        if asked & all_forms((lookup.image,)):
            return f"wanted by pods: a look-up of {lookup.image} is under way"
    return ""


def all_forms(names: Iterable[str]) -> set[str]:
    """Return every form of every name."""
    return {form for name in names for form in forms(name)}


def is_going(state: ImagesState, image: str) -> bool:
    """Return whether an image of this name is being removed, or may be by what an earlier incarnation began."""
    if state.leftover:
        return True
    asked = all_forms((image,))
    return any(asked & all_forms(removal.names) for removal in state.removals.values())


def dropped(state: ImagesState, outcome: Outcome) -> tuple[ImagesState, tuple[Action, ...]]:
    """Absorb the end of a removal, and answer all who asked for it."""
    removal = state.removals[outcome.op]
    removals = {op: other for op, other in state.removals.items() if op != outcome.op}
    removed = isinstance(outcome.result, ImageRemoved)
    why = "" if removed else outcome.failure.message if outcome.failure else "the runtime gave no reason"
    answer = ImageDropped(id=removal.id, removed=removed, why=why)
    tells = tuple(Tell(to=path, message=answer) for path in removal.asked_by)
    return replace(state, removals=removals), tells
