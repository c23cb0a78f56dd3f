"""How equal calls of a pod are spaced, whatever their answer.

A failed call has its own back-off. A call that succeeds without an effect that the runtime shows, such as the removal of a
container that stays listed, would be planned again at once; so would a failed one that delays nothing else.

```text
answered    once       twice      3 times    4 times    ..   9 times and more
then wait   nothing    0.25 s     0.5 s      1 s             30 s              (counted for two minutes after the last)
```

A call with an effect is not repeated: an id is stopped, started and removed once, the next instance has another number. So
a pod that makes progress never waits here.
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
"""Calls that follow others, which are spaced: an inspection after each failure, the node's files for each container. A memo
counts as written whatever the ledger answers."""

REMOVALS = (RemoveContainer, RemoveContainerLogs, RemoveSandbox)


def with_answer(state: PodState, call: msgspec.Struct, now: Instant) -> PodState:
    """Return the state that counts an answer to a call, with the time of the next equal one."""
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
    """Return a call without its grace, which differs between equal ones."""
    return replace(call, grace_s=0.0) if isinstance(call, StopContainer) else call


def waiting_for(state: PodState, what: PortCall, now: Instant) -> Repeat | None:
    """Return the answers after which this call waits, None when it may begin."""
    if not state.calls.repeats or isinstance(what.call, UNSPACED):
        return None
    asked = bare(what.call)
    return next((one for one in state.calls.repeats if one.until > now and one.call == asked), None)


def spaced(state: PodState, stage: Stage, now: Instant) -> Stage:
    """Return a stage with the calls that may begin now; without any, the wait for the first of them."""
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
    """Return when the first waiting removal may be repeated, None without one: it delays nothing else."""
    waiting = (one for one in state.calls.repeats if one.until > now and isinstance(one.call, REMOVALS))
    return min((one.until for one in waiting), default=None)
