"""The alarm of an actor: one instant at which it gets an `Alarm`."""

from typing import TYPE_CHECKING

from api.ids import Instant
from api.messages.kernel import Alarm
from api.ports.port import Undo
from runtime.kernel.delivery import deliver

if TYPE_CHECKING:
    from runtime.kernel.cell import Cell


class CellAlarm:
    """Rings once, at or after the instant asked for last, and never for an incarnation that is gone.

    The timer stays when a later instant is asked for, which happens with nearly every message; it is set again when it
    rings too early.
    """

    __slots__ = ("_timer", "_timer_at", "at")

    def __init__(self) -> None:
        self.at: Instant | None = None
        self._timer: Undo | None = None
        self._timer_at: Instant = 0.0

    def set(self, cell: "Cell", at: Instant | None) -> None:
        """Ring at `at` and at no other time; None: not at all."""
        self.at = at
        if at is None or (self._timer is not None and self._timer_at <= at):
            return
        self.stop_timer()
        self._timer_at = at
        self._timer = cell.system.timers.call_at(at, lambda: cell.command(self._ring))

    def stop_timer(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer()

    def _ring(self, cell: "Cell") -> None:
        now = cell.system.clock()
        if self._timer is not None and self._timer_at <= now:
            self._timer = None
        at = self.at
        if at is None or cell.incarnation is None:
            return
        if now < at:
            self.set(cell, at)
            return
        self.at = None
        if cell.system.interceptor is not None:
            cell.system.interceptor.waking(cell.path, at)
        cell.inbox.count_direct()
        deliver(cell, Alarm(at=at))
