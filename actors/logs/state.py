"""State of LogRotator: the logs to rotate, and failures."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from actors.rules.retry import Retry
from api.errors import FailureKind
from api.ids import Instant, OpId, Uid, WallNs
from api.lifecycle import Action
from api.ports.logs import DeadLink, LogSeen, RemoveDeadLink
from api.shown.introspection import EventRow

LOGFILES = "logfiles"
RUNTIME = "runtime"
TROUBLE_LIMIT = 64
"""Troubles kept for people, the newest ones."""


class RotationStep(StrEnum):
    """Where the work on one log is."""

    LOOK = "finding its container in the runtime"
    ROTATE = "moving the file aside"
    REOPEN = "reopening the log in the runtime"
    RESTORE = "moving the file back"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The work on one log; one call at a time."""

    seen: LogSeen
    step: RotationStep = RotationStep.LOOK
    namespace: str = ""
    pod: str = ""
    container_id: str = ""
    """The running container that writes it; empty for one that ended."""
    path: str = ""
    """The live file, as reported by the runtime."""
    rotated: str = ""
    failed: str = ""
    """Why the runtime did not open a new file."""
    failed_kind: FailureKind | None = None


class LinkJob(msgspec.Struct, frozen=True, kw_only=True):
    """Links of one pod whose targets are missing, while the runtime is asked about that pod."""

    uid: Uid
    links: tuple[DeadLink, ...]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could not be done about a log; an equal one is counted."""

    uid: Uid
    namespace: str
    pod: str
    container: str
    message: str
    at: WallNs
    count: int = 1


class SayTrouble(Action, frozen=True, kw_only=True):
    """Log a new trouble."""

    trouble: Trouble


class LogRotatorState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that LogRotator knows."""

    limit_bytes: int = 10 << 20
    """A live log over this size is rotated; negative: none is."""
    max_files: int = 5
    """Files of one container, the live one among them."""
    workers: int = 1
    """How many logs are worked on side by side."""
    period_s: float = 10.0
    deadline_s: float = 120.0
    """Of a call of the runtime."""
    take_over: bool = False
    """Whether other agents' pods are ours too."""

    scan: OpId | None = None
    next_scan_at: Instant = float("-inf")
    link_scan: OpId | None = None
    next_link_scan_at: Instant = float("-inf")
    queue: tuple[LogSeen, ...] = ()
    jobs: Mapping[OpId, Job] = {}
    link_queue: tuple[LinkJob, ...] = ()
    link_jobs: Mapping[OpId, LinkJob] = {}
    removing: Mapping[OpId, RemoveDeadLink] = {}
    """Links that are being removed."""
    retries: Mapping[str, Retry] = {}
    """Logs that are left alone for a while, by path as the last scan found it."""
    troubles: tuple[Trouble, ...] = ()
    """Oldest first."""
    rotated: int = 0
    reopened: int = 0
    links_removed: int = 0

    @property
    def busy(self) -> int:
        """Return how many workers are at work."""
        return len(self.jobs) + len(self.link_jobs)


def event_rows(
    state: LogRotatorState, uid: Uid | None = None, inits: frozenset[tuple[Uid, str]] = frozenset()
) -> tuple[EventRow, ...]:
    """Return what could not be done as events, of one pod or of all, oldest first; `inits` are init containers."""
    return tuple(
        EventRow(
            at=trouble.at,
            namespace=trouble.namespace,
            pod=trouble.pod,
            type="Warning",
            reason="LogRotationFailed",
            message=trouble.message,
            count=trouble.count,
            field_path=f"spec.{group_of(trouble, inits)}{{{trouble.container}}}" if trouble.container else "",
        )
        for trouble in state.troubles
        if trouble.pod and (uid is None or trouble.uid == uid)
    )


def group_of(trouble: Trouble, inits: frozenset[tuple[Uid, str]]) -> str:
    """Return the list of the pod's spec that a container stands in."""
    return "initContainers" if (trouble.uid, trouble.container) in inits else "containers"
