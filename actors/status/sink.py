"""What a place that keeps statuses must say of itself; a sink is a module with these names, and keeps no state."""

from typing import Protocol

import msgspec

from actors.rules.retry import RetryPolicy
from actors.status.state import PodStatusVersion, SinkProgress
from api.messages.kernel import Outcome


class Sink(Protocol):
    """How the statuses of pods are written to one place."""

    PORT: str
    DEADLINE_S: float

    def takes(self, before: PodStatusVersion | None, after: PodStatusVersion) -> bool:
        """Return whether a version must be written; `before` is the pod's last one, None for a new pod."""

    def gather_s(self, version: PodStatusVersion) -> float:
        """Return for how long a version may wait for the next, to be written with it."""

    def call_of(self, version: PodStatusVersion, progress: SinkProgress) -> msgspec.Struct:
        """Return the call that stores a version, or removes the pod where the version is forgotten."""

    def retry_policy(self, outcome: Outcome) -> RetryPolicy | None:
        """Return how long to wait before a write is tried again, None when it did its work."""
