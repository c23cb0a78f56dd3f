"""What a pod remembers of its hooks: marks that survive a restart of the agent, and runs that do not.

A mark costs nothing where there is no hook. It is written with the page of the pod that is written anyway: one of a
postStart hook before the container is made, one of a preStop hook with the kill or right before the hook begins.
"""

from enum import StrEnum

import msgspec

from api.ids import Instant, OpId, WallNs


class HookKind(StrEnum):
    """When a hook is called."""

    POST_START = "postStart"
    PRE_STOP = "preStop"


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known of one hook of one instance, by container name and attempt.

    POST_START: there from before the container is made until the hook went well. PRE_STOP: there from before the hook
    begins until the instance has ended.
    """

    kind: HookKind
    container: str
    attempt: int
    begun_at: WallNs = 0
    """PRE_STOP: when the grace of this stop began."""
    grace_s: int = 0
    """PRE_STOP: what the stop was given."""
    why: str = ""
    """PRE_STOP: the message of the stop's event."""
    pause: bool = False
    """It only waits: after a restart of the agent it goes on where it was."""
    again: bool = False
    """PRE_STOP: a restart of the agent interrupted it, and it was begun once more; that is not done twice."""
    ended: bool = False
    """PRE_STOP: it is over, however it went."""
    failure: str = ""
    """POST_START: it failed in this way, and the container is to be stopped."""


class HookRun(msgspec.Struct, frozen=True, kw_only=True):
    """A hook under way, beside whatever stage is."""

    kind: HookKind
    container: str
    attempt: int
    instance: str
    """Id of the container."""
    op: OpId | None = None
    """None: it only waits, and needs no call."""
    since: Instant
    until: Instant | None = None
    """When a pause is over, or a preStop hook is given up; None: until it ends by itself."""
    grace_s: int = 0
    """PRE_STOP: of the stop that it belongs to; one with less gives it up."""
    what: str = ""
    """What it does, in words."""
    plain: bool = False
    """An HTTPS request that was repeated as plain HTTP."""


HookRecords = tuple[HookRecord, ...]


def hook_record_of(records: HookRecords, kind: HookKind, container: str, attempt: int) -> HookRecord | None:
    """Return the mark of one instance's hook, None when there is none."""
    for record in records:
        if record.container == container and record.attempt == attempt and record.kind is kind:
            return record
    return None


def with_hook_record(records: HookRecords, record: HookRecord) -> HookRecords:
    """Return the marks with this one in place of its last version."""
    return tuple(sorted((*without_hook_record(records, record), record), key=order))


def without_hook_record(records: HookRecords, record: HookRecord) -> HookRecords:
    """Return the marks without the one of the same hook of the same instance."""
    return tuple(other for other in records if order(other) != order(record))


def order(record: HookRecord) -> tuple[str, int, str]:
    """Return what tells marks apart."""
    return record.container, record.attempt, record.kind.value


def recalled_hook_records(records: HookRecords, *, killed: bool) -> HookRecords:
    """Return the marks as a new life of the agent takes them.

    A preStop hook that was under way is begun once more, as a kubelet does, but for the end of a pod no third time. A
    pause goes on where it was.
    """
    kept: list[HookRecord] = []
    for record in records:
        interrupted = record.kind is HookKind.PRE_STOP and not record.ended and not record.pause
        if not interrupted:
            kept.append(record)
        elif killed:
            kept.append(msgspec.structs.replace(record, again=True, ended=record.again))
    return tuple(kept)
