"""Equal calls of a pod, one after the other: how they are spaced, however they are answered.

A failure has a wait of its own. A call that is answered well and changes nothing that the runtime shows, as the removal of
what it goes on showing, would be planned again at once; so would one whose like is refused in a way that holds up nothing.

```text
answered    once       twice      3 times    4 times    ..   9 times and more
then wait   nothing    0.25 s     0.5 s      1 s             30 s              (counted for two minutes after the last)
```

What was answered with progress is not asked for again: an id is stopped, started and removed once, the next instance has
another number. So nothing of a pod that gets on waits here, and what does not get on holds up only itself where its stage does.
"""

import msgspec
from msgspec.structs import replace

from actors.pod.life.stage import Stage
from actors.pod.state import PodState, PortCall, Repeat, change_calls
from actors.rules.retry import RetryPolicy
from api.ids import Instant
from api.ports.ledger import Remember
from api.ports.logs import RemoveContainerLogs
from api.ports.podfiles import ReadNodeFiles
from api.ports.runtime import InspectPod, RemoveContainer, RemoveSandbox, StopContainer

SPACING = RetryPolicy(base_s=0.25, limit_s=30.0)
"""From the second answer on."""
FORGET_S = 120.0
REPEAT_LIMIT = 256
UNSPACED = (InspectPod, ReadNodeFiles, Remember)
"""Calls that follow others, which are spaced: a look after each failure, the node's files for each container. What was to be
written counts as written whatever the ledger answers."""

REMOVALS = (RemoveContainer, RemoveContainerLogs, RemoveSandbox)


def with_answer(state: PodState, call: msgspec.Struct, now: Instant) -> PodState:
    """Return the state that counts an answer to a call, and says when an equal one may be made."""
    if isinstance(call, UNSPACED):
        return state
    asked = bare(call)
    lately = [one for one in state.calls.repeats if now - one.at < FORGET_S]
    before = next((one for one in lately if one.call == asked), None)
    times = before.times + 1 if before is not None else 1
    fresh = Repeat(call=asked, times=times, at=now, until=now + wait_after(times))
    others = (one for one in lately if one is not before)
    return change_calls(state, repeats=(*others, fresh)[-REPEAT_LIMIT:])


def wait_after(times: int) -> float:
    """Return how long an equal call waits after this many answers, in seconds."""
    return 0.0 if times < 2 else SPACING.wait_s(times - 1)


def bare(call: msgspec.Struct) -> msgspec.Struct:
    """Return a call without what differs between equal ones: what is left of a grace."""
    return replace(call, grace_s=0.0) if isinstance(call, StopContainer) else call


def waiting_for(state: PodState, what: PortCall, now: Instant) -> Repeat | None:
    """Return the answers after which this call waits, None where it may be made."""
    if not state.calls.repeats or isinstance(what.call, UNSPACED):
        return None
    asked = bare(what.call)
    return next((one for one in state.calls.repeats if one.until > now and one.call == asked), None)


def spaced(state: PodState, stage: Stage, now: Instant) -> Stage:
    """Return a stage with those of its calls that may be made now; without any, the wait for the first of them."""
    late = [found for what in stage.calls if (found := waiting_for(state, what, now)) is not None]
    if not late:
        return stage
    if len(late) < len(stage.calls):
        return replace(stage, calls=tuple(w for w in stage.calls if waiting_for(state, w, now) is None))
    first = min(late, key=lambda one: one.until)
    brief = getattr(first.call, "brief", None)
    what = brief() if callable(brief) else type(first.call).__name__
    return Stage(
        why=f"waiting: retrying {what} ({first.times} answers without effect): {stage.why}",
        wake_at=first.until,
        step=stage.step,
        waiting=stage.waiting,
    )


def next_removal(state: PodState, now: Instant) -> Instant | None:
    """Return when the first removal that waits may be asked for again, None when none waits: it keeps nothing else waiting."""
    waiting = (one for one in state.calls.repeats if one.until > now and isinstance(one.call, REMOVALS))
    return min((one.until for one in waiting), default=None)
