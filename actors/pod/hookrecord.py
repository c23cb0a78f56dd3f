"""A pod's hooks: records that survive a restart of the agent, and runs that do not.

A record is part of the pod's memo: that of a postStart hook is written before its container is created, that of a
preStop hook with the kill or right before the hook begins.
"""

from enum import StrEnum

import msgspec

from api.ids import Instant, OpId, WallNs


class HookKind(StrEnum):
    """When a hook is called."""

    POST_START = "postStart"
    PRE_STOP = "preStop"


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A hook of one instance, by container name and attempt.

    POST_START: from before the container is created until the hook succeeded. PRE_STOP: from before the hook begins until
    the instance has ended.
    """

    kind: HookKind
    container: str
    attempt: int
    begun_at: WallNs = 0
    """PRE_STOP: when the grace of this stop began."""
    grace_s: int = 0
    """PRE_STOP: the grace of the stop."""
    why: str = ""
    """PRE_STOP: the message of the stop's event."""
    pause: bool = False
    """It is a sleep: after a restart of the agent it goes on."""
    again: bool = False
    """PRE_STOP: it was begun again after a restart of the agent; that is done once."""
    ended: bool = False
    """PRE_STOP: it has ended, with success or not."""
    failure: str = ""
    """POST_START: the error after which the container is stopped."""


class HookRun(msgspec.Struct, frozen=True, kw_only=True):
    """A running hook, beside the stages."""

    kind: HookKind
    container: str
    attempt: int
    instance: str
    """Id of the container."""
    op: OpId | None = None
    """None: it is a sleep, which needs no call."""
    since: Instant
    until: Instant | None = None
    """When a sleep ends or a preStop hook times out; None: no time limit."""
    grace_s: int = 0
    """PRE_STOP: the grace of its stop; a stop with less cancels it."""
    what: str = ""
    """What it does, in words."""
    plain: bool = False
    """An HTTPS request that was repeated as plain HTTP."""


HookRecords = tuple[HookRecord, ...]


def hook_record_of(records: HookRecords, kind: HookKind, container: str, attempt: int) -> HookRecord | None:
    """Return the record of one instance's hook, None without one."""
    for record in records:
        if record.container == container and record.attempt == attempt and record.kind is kind:
            return record
    return None


def with_hook_record(records: HookRecords, record: HookRecord) -> HookRecords:
    """Return the records with this one in place of its last version."""
    return tuple(sorted((*without_hook_record(records, record), record), key=order))


def without_hook_record(records: HookRecords, record: HookRecord) -> HookRecords:
    """Return the records without that of the same hook of the same instance."""
    return tuple(other for other in records if order(other) != order(record))


def order(record: HookRecord) -> tuple[str, int, str]:
    """Return the key of a record."""
    return record.container, record.attempt, record.kind.value


def recalled_hook_records(records: HookRecords, *, killed: bool) -> HookRecords:
    """Return the records for a new life of the agent.

    An interrupted preStop hook is begun once more, as by a kubelet, but at the end of a pod no third time. A sleep goes
    on.
    """
    kept: list[HookRecord] = []
    for record in records:
        interrupted = record.kind is HookKind.PRE_STOP and not record.ended and not record.pause
        if not interrupted:
            kept.append(record)
        elif killed:
            kept.append(msgspec.structs.replace(record, again=True, ended=record.again))
    return tuple(kept)
