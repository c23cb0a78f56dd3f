"""Who is told the end of a collection: actors of this node are, people look it up in the manager's state."""

from msgspec.structs import replace

from actors.imagegc.report import removed_rows
from actors.imagegc.state import RUNS, ImageGCState
from api.lifecycle import Action, Tell
from api.messages.eviction import ImagesCollected
from api.messages.imagegc import CollectImages

NODE = "/node/"


def with_asker(state: ImageGCState, asked: CollectImages) -> ImageGCState:
    """Note who is to be told the end of a run."""
    if not asked.asked_by.startswith(NODE):
        return state
    askers = {**state.askers, asked.run: asked.asked_by}
    return replace(state, askers=dict(tuple(askers.items())[-RUNS:]))


def answered(before: ImageGCState, after: ImageGCState) -> tuple[ImageGCState, tuple[Action, ...]]:
    """Return what tells those who asked for the runs that are over now, and the state without them."""
    if not after.askers or after.collected is before.collected:
        return after, ()
    ended = [one for one in after.collected if one not in before.collected]
    told = {run: one for one in ended for run in one.runs if run in after.askers}
    answers = tuple(
        Tell(
            to=after.askers[run],
            message=ImagesCollected(run=run, removed=len(removed_rows(one)), failure=one.failure),
        )
        for run, one in told.items()
    )
    left = {run: path for run, path in after.askers.items() if run not in told}
    return replace(after, askers=left), answers
