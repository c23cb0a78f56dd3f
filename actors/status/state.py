"""What StatusManager knows: the newest status of each pod, and what of it is stored."""

from collections.abc import Mapping

import msgspec

from actors.rules.agenda import Agenda
from api.ids import Instant, OpId, Uid
from api.kube.objects.podstatus import PodStatus

SECTION = "status"
"""Ledger section, keys are UIDs, owned by StatusManager."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's status as last composed, and which version of it is on disk."""

    uid: Uid
    namespace: str
    name: str
    status: PodStatus
    finished: bool = False
    version: int = 1
    stored: int = 0
    forgotten: bool = False
    """It is to be removed from the ledger."""
    anew: int = 0
    """The version with which the pod came back before it was forgotten; 0: it did not."""
    writing: OpId | None = None
    writing_version: int = 0
    due_at: Instant = float("-inf")
    """When it is to be written; what comes before is written with it."""
    retry_at: Instant = float("-inf")
    failures: int = 0

    @property
    def is_dirty(self) -> bool:
        """Tell whether the ledger does not hold what is known of the pod."""
        return self.forgotten or self.stored < self.version

    @property
    def write_at(self) -> Instant | None:
        """Return when it is to be written, None while it need not be or is being written."""
        if self.writing is not None or not self.is_dirty:
            return None
        return max(self.retry_at, self.due_at)


class StatusState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that StatusManager knows."""

    versions: Mapping[Uid, Version] = {}
    writing: Mapping[OpId, Uid] = {}
    """Whose status is being written by which call."""
    touched: tuple[Uid, ...] = ()
    """Whose version has changed since it was last looked at."""
    agenda: Agenda = Agenda()
    """When those that are gathered, or failed, are to be written."""
