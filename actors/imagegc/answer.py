"""Answers at the end of a collection: for actors of this node; users read it in the manager's state."""

from msgspec.structs import replace

from actors.imagegc.report import removed_rows
from actors.imagegc.state import RUNS, ImageGCState
from api.lifecycle import Action, Tell
from api.messages.eviction import ImagesCollected
from api.messages.imagegc import CollectImages

NODE = "/node/"


def with_asker(state: ImageGCState, asked: CollectImages) -> ImageGCState:
    """Record the actor that gets the end of a run."""
    if not asked.asked_by.startswith(NODE):
        return state
    askers = {**state.askers, asked.run: asked.asked_by}
    return replace(state, askers=dict(tuple(askers.items())[-RUNS:]))


def answered(before: ImageGCState, after: ImageGCState) -> tuple[ImageGCState, tuple[Action, ...]]:
    """Return the answers to runs that are over now, and the state without their askers."""
    if not after.askers or after.collected is before.collected:
        return after, ()
    ended = [one for one in after.collected if one not in before.collected]
    over = {run: one for one in ended for run in one.runs if run in after.askers}
    answers = tuple(
        Tell(
            to=after.askers[run],
            message=ImagesCollected(run=run, removed=len(removed_rows(one)), failure=one.failure),
        )
        for run, one in over.items()
    )
    left = {run: path for run, path in after.askers.items() if run not in over}
    return replace(after, askers=left), answers
