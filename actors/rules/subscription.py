"""The subscription to a stream: opened again after its end, later each time that it does not last."""

from msgspec import Struct
from msgspec.structs import replace

from actors.rules.retry import Retry, RetryPolicy
from api.errors import Failure
from api.ids import Instant

RETRY = RetryPolicy(base_s=1.0, limit_s=300.0)
STEADY_S = 60.0
"""A stream that was open for so long worked: its end is the first failure of a new row."""


class Subscription(Struct, frozen=True, kw_only=True):
    """Whether a stream is open, and if not why, and when it is opened again."""

    is_open: bool = False
    since: Instant = 0.0
    """Of being open or not."""
    retry: Retry = Retry()
    why: str = ""
    """Why it ended the last time; empty when it never did."""

    def is_due(self, now: Instant) -> bool:
        """Return whether to open the stream now."""
        return not self.is_open and now >= self.retry.at

    def wakes(self) -> tuple[Instant, ...]:
        """Return when to look again."""
        return () if self.is_open else (self.retry.at,)

    def opened(self, now: Instant) -> "Subscription":
        """Return this after the stream was opened."""
        return replace(self, is_open=True, since=now)

    def works(self) -> "Subscription":
        """Return this after the stream brought what shows that it works: failures in a row begin again."""
        return replace(self, retry=replace(self.retry, failures=0)) if self.retry.failures else self

    def ended(
        self,
        failure: Failure | None,
        now: Instant,
        policy: RetryPolicy = RETRY,
        steady_s: float = STEADY_S,
    ) -> "Subscription":
        """Return this after the stream ended, or could not be opened."""
        retry = Retry() if now - self.since >= steady_s else self.retry
        why = failure.message if failure is not None else "the stream was closed"
        return Subscription(since=now, retry=retry.after(now, policy), why=why)


def newly_failed(before: Subscription, after: Subscription) -> bool:
    """Return whether to log that a stream is not open: the same reason is logged once."""
    return bool(after.why) and not after.is_open and after.why != before.why
