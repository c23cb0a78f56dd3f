"""What ApiStatusWriter knows: each pod as this node found it, as the API server has it, and what was written."""

from collections.abc import Mapping

import msgspec

from actors.apistatus.patch import WrittenStatus
from actors.rules.agenda import Agenda
from actors.rules.retry import Retry
from api.errors import Failure
from api.ids import Instant, OpId, Uid
from api.kube.objects.pod import Pod
from api.kube.objects.podstatus import PodStatus


class OwnStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The newest status of a pod as its actor composed it."""

    number: int
    """Grows with each version of this incarnation."""
    namespace: str
    name: str
    status: PodStatus
    finished: bool
    came_at: Instant


class StatusCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call in flight: the write of a status, or the final delete."""

    op: OpId
    number: int
    """Of the version that it writes."""
    api_uid: str
    """Of the object that it changes."""
    shown: PodStatus
    """What the server was known to have."""
    wanted: PodStatus | None
    """What is written; None for the final delete."""
    came_at: Instant
    """When that version came."""


class ApiStatusEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that this node runs, or that the API server has."""

    uid: Uid
    """A static pod's own; its mirror has another."""
    own: OwnStatus | None = None
    listed: Pod | None = None
    """As the last level showed it."""
    target: Pod | None = None
    """The newest known object: of a level, or the answer to a write. None: nothing is written."""
    answered_at: Instant = float("-inf")
    """When the last write was answered."""
    written: WrittenStatus | None = None
    """To this object."""
    number: int = 0
    """The version that this object got last."""
    counted: int = 0
    """The newest version whose way to the server is in the summary."""
    call: StatusCall | None = None
    retry: Retry = Retry()
    failure: Failure | None = None
    """Of the last write, until one succeeds."""
    ended: bool = False
    """The final delete was done; a finalizer may keep the object for longer."""
    due_at: Instant | None = None
    """When to look again though nothing changes."""


class WriteSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Of all writes: from a version's arrival to the answer of the API server, in seconds."""

    count: int = 0
    sum_s: float = 0.0
    max_s: float = 0.0
    last_s: float = 0.0
    failures: int = 0

    def plus(self, seconds: float) -> "WriteSummary":
        """Return this after one more write."""
        return WriteSummary(
            count=self.count + 1,
            sum_s=self.sum_s + seconds,
            max_s=max(self.max_s, seconds),
            last_s=seconds,
            failures=self.failures,
        )


class ApiStatusState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that ApiStatusWriter knows."""

    pods: Mapping[Uid, ApiStatusEntry] = {}
    calls: Mapping[OpId, Uid] = {}
    """Whose status each call in flight is about."""
    inherited: tuple[OpId, ...] = ()
    """Calls of an earlier incarnation: none is started before they ended, which could overtake them."""
    waiting: Mapping[Uid, None] = {}
    """Pods to look at, first come first served."""
    agenda: Agenda = Agenda()
    summary: WriteSummary = WriteSummary()
