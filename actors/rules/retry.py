"""When to try again what failed: later with each failure in a row, up to a limit."""

from msgspec import Struct

from api.ids import Instant

DOUBLINGS = 32
"""More of them exceed every limit, and would in the end exceed what a float holds."""


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The wait after the first failure, doubled by each further one up to a limit."""

    base_s: float
    limit_s: float

    def wait_s(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row, at least one."""
        assert failures > 0
        return min(self.base_s * 2.0 ** min(failures - 1, DOUBLINGS), self.limit_s)

    def wait_after_s(self, wait_s: float) -> float:
        """Return the wait that follows one of `wait_s`, where that is remembered and not how many failures there were."""
        return min(wait_s * 2.0, self.limit_s)


class Retry(Struct, frozen=True, kw_only=True):
    """How often in a row something failed, and when to try again; a success begins a new one."""

    failures: int = 0
    at: Instant = float("-inf")

    def after(self, now: Instant, policy: RetryPolicy) -> "Retry":
        """Return this after one more failure."""
        failures = self.failures + 1
        return Retry(failures=failures, at=now + policy.wait_s(failures))
