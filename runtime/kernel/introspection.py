"""What people see of cells: rows made of what the kernel keeps, without a message to any actor."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from api.ids import Instant
from api.shown.introspection import ActorRow
from runtime.kernel.cell import Cell
from runtime.kernel.mailbox import Accounts
from runtime.kernel.trace import Ring, brief


class Grave(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a dead actor."""

    row: ActorRow
    committed: msgspec.Struct | None
    ring: Ring


def actor_row(cell: Cell, now: Instant, unresponsive: str) -> ActorRow:
    """Return the row of one cell; `unresponsive` says why it counts as stuck, if it does."""
    accounts = cell.inbox.accounts()
    oldest = cell.inbox.oldest()
    current = cell.current
    alarm_at = cell.alarm.at
    return ActorRow(
        actor_id=f"{cell.actor_id:08x}",
        path=cell.path,
        class_name=cell.spec.actor.__name__,
        name=cell.spec.name,
        state=cell.state,
        num_restarts=cell.number,
        death_cause=cell.cause,
        mailbox_depth=accounts.pending,
        mailbox_high_water=cell.inbox.high_water,
        current_message="" if current is None else brief(current),
        current_message_age_s=0.0 if current is None else max(0.0, now - cell.moment),
        oldest_pending_s=0.0 if oldest is None else max(0.0, now - oldest),
        handled=accounts.handled,
        handling_s=cell.handling_s,
        conflated=accounts.conflated,
        dead_lettered=accounts.dead_lettered,
        operations=tuple(operation.row(now) for operation in list(cell.operations.values())),
        alarm_in_s=None if alarm_at is None else alarm_at - now,
        parent=cell.parent_path,
        incarnation=cell.number,
        unresponsive=unresponsive,
    )


def total(accounts: Iterable[Accounts]) -> Accounts:
    """Return the sum of accounts."""
    sums: Counter[str] = Counter()
    for one in accounts:
        sums.update(msgspec.structs.asdict(one))
    return Accounts(**sums)
