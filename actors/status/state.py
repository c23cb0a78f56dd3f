"""What StatusManager knows: the newest version of each pod's status, and how far each sink has it."""

from collections.abc import Mapping

import msgspec

from actors.rules.agenda import Agenda
from actors.rules.retry import Retry
from api.ids import Instant, OpId, Uid
from api.kube.objects.podstatus import PodStatus


class PodStatusVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's status as last composed, the same for every sink."""

    uid: Uid
    namespace: str = ""
    name: str = ""
    status: PodStatus = PodStatus()
    finished: bool = False
    """The pod's life is over; its phase is final."""
    number: int = 1
    """Grows with each change of what the agent answers for, with `finished`, and when the pod is forgotten."""
    forgotten: bool = False
    """Every sink must remove it."""


class StatusWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write in flight."""

    op: OpId
    version: int


class SinkProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one sink has the status of one pod."""

    wanted: int = 0
    """The newest version that the sink takes; 0: none yet."""
    stored: int = 0
    """The version that the sink holds; 0: none that this life of the agent wrote."""
    returned: int = 0
    """The version with which the pod came back before the sink had removed it; 0: it did not."""
    write: StatusWrite | None = None
    due_at: Instant = float("-inf")
    """When to write; what comes before is written with it."""
    retry: Retry = Retry()

    @property
    def is_dirty(self) -> bool:
        """Return whether the sink lacks a version that it takes."""
        return self.stored < self.wanted

    @property
    def may_hold_earlier_life(self) -> bool:
        """Return whether the sink may still hold the pod's status of before it was forgotten."""
        return self.stored < self.returned

    @property
    def write_at(self) -> Instant | None:
        """Return when to write, None while there is nothing to write or a write is in flight."""
        if self.write is not None or not self.is_dirty:
            return None
        return max(self.retry.at, self.due_at)


class PodStatusEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of a pod, and the progress of each sink, in the order of the sinks."""

    newest: PodStatusVersion
    progress: tuple[SinkProgress, ...]


class StatusState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that StatusManager knows."""

    pods: Mapping[Uid, PodStatusEntry] = {}
    writes: Mapping[OpId, tuple[Uid, int]] = {}
    """By call in flight: whose status it writes, and to which sink, by its place."""
    touched: tuple[Uid, ...] = ()
    """Pods that changed since the last plan."""
    agenda: Agenda = Agenda()
    """When to write those that are gathered, or failed."""
