"""What follows when an incarnation dies: a pure verdict over policy, history and the time."""

import msgspec

from api.ids import Instant
from runtime.kernel.actor import Restart


class RestartDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Start again after `delay_s`, or give up when it is None."""

    delay_s: float | None
    deaths: tuple[Instant, ...]
    """The deaths that still count, oldest first; the next verdict's history."""


def judge(policy: Restart, deaths: tuple[Instant, ...], now: Instant) -> RestartDecision:
    """Judge one more death at `now`.

    At most ``max_restarts`` deaths within ``window_s`` are answered by a restart, the first after ``delay_s``, each
    further one after a delay that is ``growth`` times longer, up to ``delay_limit_s``.
    """
    counted = (*(at for at in deaths if now - at < policy.window_s), now)
    if len(counted) > policy.max_restarts:
        return RestartDecision(delay_s=None, deaths=counted)
    delay_s = policy.delay_s
    for _ in range(len(counted) - 1):
        delay_s *= policy.growth
        if delay_s >= policy.delay_limit_s:
            break
    return RestartDecision(delay_s=min(delay_s, policy.delay_limit_s), deaths=counted)
