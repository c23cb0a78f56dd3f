"""The sink ledger: statuses outlive the agent, one entry of section ``status`` for each pod.

Changes of a pod are gathered until it runs; then each is written at once: that it is ready must outlive the agent. Final
statuses are written durably: an exit code that was published once is never lost again. What replaces or removes them is
durable too: a static pod comes back under its UID, and must not be given the end of its earlier life by a power failure.
"""

import msgspec

from actors.rules.container.ownership import say_the_same
from actors.rules.retry import RetryPolicy
from actors.status.state import PodStatusVersion, SinkProgress
from api.errors import FailureKind
from api.messages.kernel import Outcome
from api.ports.ledger import Forget, Remember

PORT = "ledger"
DEADLINE_S = 30.0
SECTION = "status"
"""Keys are UIDs."""
GATHER_S = 10.0
"""For how long changes of a pod that does not run yet are gathered: most run by then, and their status is written once."""
RETRY = RetryPolicy(base_s=1.0, limit_s=60.0)
RETRY_FOR_ROOM = RetryPolicy(base_s=1.0, limit_s=2.0)
"""Where the disk is full: what is cleared to make room are records of how pods ended, so that their statuses must be written
as soon as there is some."""
PENDING = "Pending"
TERMINAL = ("Succeeded", "Failed")


def takes(before: PodStatusVersion | None, after: PodStatusVersion) -> bool:
    """Return whether the ledger would hold something else: that a pod is finished is no part of its status."""
    if before is None or before.forgotten or after.forgotten:
        return True
    return not say_the_same(before.status, after.status)


def gather_s(version: PodStatusVersion) -> float:
    """Return for how long a version may wait for the next."""
    return GATHER_S if version.status.phase == PENDING and not version.forgotten else 0.0


def call_of(version: PodStatusVersion, progress: SinkProgress) -> Remember | Forget:
    """Return the call that brings the ledger up to date for one pod."""
    if version.forgotten:
        return Forget(section=SECTION, key=version.uid, durable=True)
    durable = version.status.phase in TERMINAL or progress.may_hold_earlier_life
    data = msgspec.msgpack.encode(version.status)
    return Remember(section=SECTION, key=version.uid, data=data, durable=durable)


def retry_policy(outcome: Outcome) -> RetryPolicy | None:
    """Return how long to wait before a write is tried again, None when it did its work."""
    if outcome.failure is None:
        return None
    return RETRY_FOR_ROOM if outcome.failure.kind is FailureKind.EXHAUSTED else RETRY
