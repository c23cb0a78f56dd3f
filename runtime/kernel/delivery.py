"""The delivery of one message to an incarnation: what is handled, measured, kept and traced, and what a crash leads to."""

from typing import TYPE_CHECKING

from api.messages import Message
from runtime.kernel.lifecycle import crash

if TYPE_CHECKING:
    from runtime.kernel.cell import Cell


def deliver(cell: "Cell", message: Message) -> None:
    """Have the incarnation handle `message` and keep its state; an exception ends the incarnation, never the cell."""
    system, incarnation, context = cell.system, cell.incarnation, cell.context
    assert incarnation is not None
    assert context is not None
    cell.moment = system.clock()
    cell.current = message
    try:
        if system.interceptor is not None:
            system.interceptor.delivering(cell.path, message)
        incarnation.receive(message, context)
        said = incarnation.explain_last()
        state = incarnation.state
    except (Exception, SystemExit) as error:  # noqa: BLE001  # an incarnation dies of anything, its cell of nothing
        took_s = measure(cell)
        if not system.halted:
            crash(cell, error, message, took_s)
        return
    took_s = measure(cell)
    if not system.halted:
        cell.committed = state
        cell.record(message, said, took_s)


def measure(cell: "Cell") -> float:
    """Note that the current message is handled; return how long that took."""
    cell.current = None
    took_s = cell.system.clock() - cell.moment
    cell.handling_s += took_s
    cell.meter.count_handling(took_s)
    return took_s
