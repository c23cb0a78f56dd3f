"""``activeDeadlineSeconds``: how long a pod may be active, from its start time (reference ``pod-lifecycle`` section 13.2).

Both instants are of the wall clock, as a kubelet's: the start time is in the status and survives a restart of the agent.
A clock that is set back does not shorten the time left.
"""

from msgspec.structs import replace

from actors.pod.life.event import with_event
from actors.pod.life.stage import MIN_STOP_S, NS
from actors.pod.spec.identity import own_grace_s
from actors.pod.state import Kill, PodState, Syncing, Terminating, without_call_backoffs
from actors.pod.status.phase import TERMINAL
from api.ids import Instant, Path, WallNs
from api.messages.pod import KillCause
from api.wallclock import wall_ns

REASON = "DeadlineExceeded"
MESSAGE = "Pod was active on the node longer than the specified deadline"
RECHECK_S = 10.0
"""Longest time between checks of a deadline: the wall clock may have been set."""


def deadline_left_s(state: PodState, wall: WallNs) -> float | None:
    """Return how many seconds the pod may still be active, None without a limit."""
    pod = state.desired
    if pod is None or not isinstance(state.life, Syncing) or not state.base.start_time:
        return None
    limit_s = pod.spec.active_deadline_seconds
    if limit_s is None or state.base.phase in TERMINAL:
        return None
    return limit_s - max(0, wall - wall_ns(state.base.start_time)) / NS


def past_deadline(state: PodState, now: Instant, wall: WallNs) -> PodState:
    """Return the state in which a pod past its active deadline terminates, whatever is in flight."""
    left = deadline_left_s(state, wall)
    if left is None or left > 0 or state.desired is None:
        return state
    grace_s = own_grace_s(state.desired) or MIN_STOP_S
    kill = Kill(
        cause=KillCause.DEADLINE,
        grace_s=grace_s,
        asked_at=wall,
        stop_by=wall + grace_s * NS,
        asked_by=Path(""),
        reason=REASON,
        message=MESSAGE,
    )
    state = with_event(state, wall, "Normal", REASON, MESSAGE)
    return replace(without_call_backoffs(state), life=Terminating(kill=kill), life_since=now)


def deadline_wake_at(state: PodState, now: Instant, wall: WallNs) -> Instant | None:
    """Return when to check the deadline again, None for a pod without one."""
    left = deadline_left_s(state, wall)
    return None if left is None else now + min(max(left, 0.0), RECHECK_S)
