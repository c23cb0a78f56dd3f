"""The actor system, whatever executes it: the table of cells, their tree, dead letters, and what people may see.

`PooledSystem` and `SimSystem` are this class with a clock, a way to run cells and a way to carry out operations.
Reads (`list_actors`, `trace`, `committed` ...) use what the kernel keeps and send nothing, so they answer while actors
are stuck.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from threading import RLock
from typing import Any

import msgspec

from api.errors import (
    AlreadyExistsError,
    Failure,
    FailureKind,
    NotFoundError,
    RejectedError,
    TimedOutError,
    UnavailableError,
)
from api.ids import Instant, Path, WallNs
from api.messages import Message
from api.messages.kernel import KernelMessage, Restarted
from api.ports.port import Timers
from api.shown.introspection import ActorRow, ActorState, DeadLetterRow, HopRow, KernelRow, TraceRow
from runtime.kernel import lifecycle
from runtime.kernel.actor import Handle, Log, LogFactory, Spec, silent
from runtime.kernel.ask import ASK, Replies
from runtime.kernel.cell import Cell
from runtime.kernel.context import CellHandle, PathHandle
from runtime.kernel.executor import Executor
from runtime.kernel.failure import ActorDiedError, ActorUnavailableError
from runtime.kernel.intercept import Interceptor
from runtime.kernel.introspection import Grave, actor_row, total
from runtime.kernel.mailbox import Accounts, Offer
from runtime.kernel.meter import Meters
from runtime.kernel.trace import DeadLetters, report, ring_depth

GRAVES = 256
"""Dead actors that are kept for people."""
EXPIRED = "expired"
FAULT = "fault"


class System(Executor):
    """The actor system; see the module. `name` is the root of all paths and no actor itself."""

    def __init__(
        self,
        *,
        timers: Timers,
        interceptor: Interceptor | None,
        log: LogFactory | None,
        trace_log: Callable[[str], None] | None,
        name: str,
    ) -> None:
        self.root = Path(f"/{name}")
        self.timers = timers
        self.interceptor = interceptor
        self.log_factory = log or silent
        self.log: Log = self.log_factory(self.root)
        self.trace_log = trace_log
        self.trace_depth = ring_depth(1)
        self.lock = RLock()
        self.halted = False
        self.failed: Failure | None = None
        """Set when an actor directly below the root died for good: the process is to exit non-zero."""
        self.ended = False
        self._cells: dict[Path, Cell] = {}
        self._graves: OrderedDict[Path, Grave] = OrderedDict()
        self._started = 0
        self._letters = DeadLetters(self.log)
        self.meters = Meters()
        self._buried = Accounts()
        self._unowned = 0
        self._replies = Replies()

    # The tree.

    def spawn(self, spec: Spec[Any]) -> Handle[Any]:
        """Start an actor directly below the root. Raises `AlreadyExistsError` while the name is taken."""
        return self.spawn_under(None, spec)

    def spawn_under(self, parent: Cell | None, spec: Spec[Any]) -> Handle[Any]:
        """Start an actor as a child of `parent`."""
        if not spec.name or "/" in spec.name:
            raise RejectedError(f"{spec.name!r} cannot name an actor: it must be one step of a path")
        if self.halted or self.ended:
            raise RejectedError(f"actor {spec.name} cannot start: the actor system has ended")
        if parent is not None and parent.stopping:
            raise UnavailableError(f"{parent.path} starts no child: it is stopping")
        path = Path(f"{parent.path if parent else self.root}/{spec.name}")
        with self.lock:
            if path in self._cells:
                raise AlreadyExistsError(
                    f"actor {path} cannot start: its name is free only when its holder is gone"
                )
            self._started += 1
            Cell.start(self, spec, path, parent, self._started)
            return self._cells[path].handle

    def enrol(self, cell: Cell) -> None:
        """Enter a new cell into table and tree."""
        with self.lock:
            self._cells[cell.path] = cell
            self._graves.pop(cell.path, None)
            if cell.parent is not None:
                cell.parent.children = (*cell.parent.children, cell)
            self._set_trace_depth()

    def _set_trace_depth(self) -> None:
        depth = ring_depth(len(self._cells) + len(self._graves))
        if depth < self.trace_depth:
            for ring in [cell.ring for cell in self._cells.values()] + [
                g.ring for g in self._graves.values()
            ]:
                ring.trim(depth)
        self.trace_depth = depth

    def remove(self, cell: Cell) -> None:
        """Take a dead cell out of table and tree, keep what people may still ask for, report to parent and watchers."""
        with self.lock:
            if self._cells.get(cell.path) is cell:
                del self._cells[cell.path]
            parent = cell.parent
            if parent is not None:
                parent.children = tuple(child for child in parent.children if child is not cell)
            row = self._row(cell, self.clock())
            self._graves[cell.path] = Grave(row=row, committed=cell.committed, ring=cell.ring)
            if len(self._graves) > GRAVES:
                self._graves.popitem(last=False)
            self._buried = total((self._buried, cell.inbox.accounts()))
            watchers = self._audience(cell)
        if self.halted:
            return
        for watcher in watchers:
            watcher.report_death(cell.path, cell.cause)
        if parent is not None:
            parent.command(lifecycle.go_on_stopping)
        elif cell.cause and not self.ended and self.failed is None:
            said = f"actor {cell.path} is dead for good: {cell.cause}"
            self.log.error("an actor below the root is dead for good", path=cell.path, cause=cell.cause)
            self.failed = Failure(kind=FailureKind.UNAVAILABLE, message=said)
        self._replies.target_died(cell.path, cell.cause)
        self.changed()

    def _audience(self, cell: Cell) -> tuple[Cell, ...]:
        """Return who is to know what becomes of `cell`: its parent, then its watchers, those that still live."""
        with self.lock:
            parent = () if cell.parent is None or cell.parent.stopping else (cell.parent,)
            paths = [path for path in cell.watchers if cell.parent is None or path != cell.parent.path]
            return (*parent, *(self._cells[path] for path in paths if path in self._cells))

    def announce(self, cell: Cell, message: Restarted) -> None:
        """Report to parent and watchers that `cell` has a new incarnation."""
        for watcher in self._audience(cell):
            watcher.post(message)

    def watch(self, watcher: Path, path: Path) -> None:
        """Have restarts and the death of `path` reported to `watcher`. An actor that is gone is reported dead at once."""
        with self.lock:
            cell = self._cells.get(path)
            if cell is not None:
                if watcher not in cell.watchers:
                    cell.watchers = (*cell.watchers, watcher)
                return
            mine = self._cells.get(watcher)
            grave = self._graves.get(path)
        if mine is not None:
            mine.report_death(path, grave.row.death_cause if grave else Offer.GONE.value)

    def stop_below(self, cell: Cell, path: Path) -> None:
        """Stop a child of `cell`, or `cell` itself. Raises `NotFoundError` for any other."""
        found = cell if path == cell.path else self._cells.get(path)
        if found is None or (found is not cell and found.parent is not cell):
            raise NotFoundError(f"{cell.path} cannot stop {path}: it is no child of it")
        found.command(lifecycle.stop)

    def kill(self, handle: Handle[Any], *, no_restart: bool = True) -> None:
        """End an actor without a goodbye, for good or, with `no_restart` False, as an exception would.

        An old handle never ends a later actor of the same name. Raises `ActorDiedError` when it is gone.
        """
        cell = self._cells.get(handle.path)
        if cell is None or (isinstance(handle, CellHandle) and cell.handle != handle):
            raise ActorDiedError(handle.path, self._cause(handle.path))
        cell.command(lifecycle.kill if no_restart else lifecycle.kill_incarnation)

    def get_actor(self, path: Path) -> ActorRow:
        """Return one actor, dead ones too. Raises `NotFoundError`."""
        cell = self._cells.get(path)
        if cell is not None:
            return self._row(cell, self.clock())
        grave = self._graves.get(path)
        if grave is None:
            raise NotFoundError(f"no actor lives at {path}")
        return grave.row

    def handle(self, path: Path) -> Handle[Any]:
        """Return a handle on the actor that lives at `path` when a message arrives there."""
        return PathHandle(path, self)

    # Messages.

    def route(self, path: Path, message: Any) -> None:
        """Send to the actor that lives at `path`; without one the message is a dead letter."""
        cell = self._cells.get(path)
        if cell is not None:
            cell.handle.tell(message)
        elif not path.startswith(ASK):
            self.bury_unowned(path, message)
        elif self._replies.answer(path, message):
            self.changed()
        else:
            self.bury_unowned(path, message, EXPIRED)

    def divert(self, cell: Cell, message: Message) -> bool:
        """Ask the seam about a message sent to `cell`; return whether it was lost, delayed or doubled here."""
        seam = self.interceptor
        if seam is None or self.halted or isinstance(message, KernelMessage):
            return False
        sending = seam.sending(cell.path, message)
        if sending.copies == 1 and sending.delay_s <= 0:
            return False
        if sending.copies == 0:
            cell.inbox.count_lost()
            self.refuse(cell.path, message, FAULT)
        for _ in range(sending.copies):
            if sending.delay_s > 0:
                at = self.clock() + sending.delay_s
                self.timers.call_at(at, partial(self._deliver_late, cell, message))
            else:
                cell.accept(message, message.conflation_key())
        return True

    def _deliver_late(self, cell: Cell, message: Message) -> None:
        if not self.halted:
            cell.accept(message, message.conflation_key())

    def refuse(self, path: Path, message: object, reason: str, *, counted: bool = False) -> None:
        """Bury a message that a mailbox did not keep; `counted` when it is in a mailbox's accounts whatever the reason."""
        if self.halted:
            return
        if reason == Offer.GONE.value and not counted:
            self.bury_unowned(path, message)
        else:
            self._letters.bury(self.clock(), path, message, str(reason))

    def bury_unowned(self, path: Path, message: object, reason: str = Offer.GONE.value) -> None:
        """Bury a message that reached no mailbox at all."""
        if self.halted:
            return
        with self.lock:
            self._unowned += 1
        self._letters.bury(self.clock(), path, message, reason)

    def read_wall(self, path: Path) -> WallNs:
        """Return the wall clock, as the actor at `path` reads it."""
        if self.interceptor is not None:
            by_s = self.interceptor.reading_wall(path)
            if by_s:
                self.jump_wall(by_s)
        return self.timers.wall()

    # The edge.

    def ask(self, path: Path, make_message: Callable[[Path], Message], deadline_s: float) -> Message:
        """Send the message made for a reply path to the actor at `path`, and wait for what is sent to that path.

        Raises `ActorDiedError` when the actor is dead or dies, `ActorUnavailableError` when it is still restarting
        at the deadline, `TimedOutError` when it just does not answer. A later answer is a dead letter, `expired`.
        """
        with self.lock:
            if path not in self._cells:
                raise ActorDiedError(path, self._cause(path))
            reply = self._replies.expect(path)
        try:
            self.route(path, make_message(reply.here))
            self.await_until(lambda: reply.settled, deadline_s)
        finally:
            self._replies.forget(reply)
        if reply.answer is not None:
            return reply.answer
        if reply.cause is not None:
            raise ActorDiedError(path, reply.cause)
        row = self.get_actor(path)
        if row.state is not ActorState.ALIVE:
            raise ActorUnavailableError(path, f"{row.state}: {row.death_cause or 'starting'}")
        on = f", it is busy with {row.current_message}" if row.current_message else ""
        raise TimedOutError(f"actor {path} did not answer within {deadline_s:g} s{on}")

    def shutdown(self, deadline_s: float) -> tuple[Path, ...]:
        """Stop all actors, the last started first, each with its own deadline within `deadline_s` for all.

        Return who was still alive after that, parents before children; then end the executor.
        """
        until = self.clock() + deadline_s
        overdue: list[Path] = []
        while True:
            with self.lock:
                left = [c for c in self._cells.values() if c.parent is None and c.path not in overdue]
            if not left:
                break
            cell = left[-1]
            cell.command(lifecycle.stop)
            wait_s = min(cell.spec.stop_deadline_s, max(0.0, until - self.clock()))
            if not self.await_until(partial(self._is_gone, cell), wait_s):
                overdue.append(cell.path)
        with self.lock:
            alive = tuple(sorted(self._cells))
        if alive:
            self.log.error("actors did not stop in time", alive=alive, deadline_s=deadline_s)
        self.ended = True
        self.changed()
        self.close()
        return alive

    def fail(self, what: str, error: BaseException) -> None:
        """End in failure because of a bug in the kernel itself."""
        report(self.log, what, error)
        said = f"{what}: {type(error).__name__}: a bug of the kernel, see the log"
        self.failed = self.failed or Failure(kind=FailureKind.UNAVAILABLE, message=said)
        self.changed()

    def _is_gone(self, cell: Cell) -> bool:
        return self._cells.get(cell.path) is not cell

    def wait(self, deadline_s: float) -> bool:
        """Wait until the system has failed or was shut down; return whether it is so. `failed` shows which."""
        return self.await_until(lambda: self.failed is not None or self.ended, deadline_s)

    # What people see.

    def _cause(self, path: Path) -> str:
        grave = self._graves.get(path)
        return grave.row.death_cause if grave else ""

    def cells(self) -> list[Cell]:
        """Return the live cells."""
        with self.lock:
            return list(self._cells.values())

    def list_actors(self, state: ActorState | None = None) -> tuple[ActorRow, ...]:
        """Return every actor, parents before children, then the dead that are remembered."""
        now = self.clock()
        rows = sorted((self._row(cell, now) for cell in self.cells()), key=lambda row: row.path)
        with self.lock:
            rows += [grave.row for grave in self._graves.values()]
        return tuple(row for row in rows if state is None or row.state is state)

    def _row(self, cell: Cell, now: Instant) -> ActorRow:
        return actor_row(cell, now, self.unresponsive(cell))

    def summarize_actors(self) -> KernelRow:
        """Return the figures of the whole system."""
        cells = self.cells()
        with self.lock:
            buried, unowned = self._buried, self._unowned
            dead = Counter(grave.row.state.value for grave in self._graves.values())
        sums = total((buried, *(cell.inbox.accounts() for cell in cells)))
        states = Counter(cell.state.value for cell in cells) + dead
        return KernelRow(
            actors=len(cells),
            by_state=tuple(sorted(states.items())),
            by_class=tuple(sorted(Counter(cell.spec.actor.__name__ for cell in cells).items())),
            accepted=sums.accepted + unowned,
            handled=sums.handled,
            conflated=sums.conflated,
            dead_lettered=sums.dead_lettered + unowned,
            pending=sums.pending,
            threads=self.threads,
            stuck=tuple(why for why in map(self.unresponsive, cells) if why),
        )

    def hops(self) -> tuple[HopRow, ...]:
        """Return how long messages waited and were handled, and how long calls took, since the system began."""
        return self.meters.rows()

    def dead_letter_counts(self) -> tuple[tuple[str, int], ...]:
        """Return how many messages no actor handled, by reason."""
        return self._letters.by_reason()

    def trace(self, path: Path, limit: int = 16) -> tuple[TraceRow, ...]:
        """Return the last deliveries of one actor, oldest first, of a dead one too. Raises `NotFoundError`."""
        cell = self._cells.get(path)
        if cell is not None:
            return cell.ring.rows(path, limit)
        grave = self._graves.get(path)
        if grave is None:
            raise NotFoundError(f"no actor lives at {path}")
        return grave.ring.rows(path, limit)

    def dead_letters(self) -> tuple[DeadLetterRow, ...]:
        """Return the last dead letters, oldest first."""
        return self._letters.rows()

    def committed(self, path: Path) -> msgspec.Struct | None:
        """Return the state that the actor at `path` had after the last message it handled, dead ones too."""
        cell = self._cells.get(path)
        if cell is not None:
            return cell.committed
        grave = self._graves.get(path)
        return None if grave is None else grave.committed

    def committed_children(self, path: Path) -> tuple[tuple[Path, msgspec.Struct], ...]:
        """Return the committed states below `path`, by path: of live children, and of those that failed for good."""
        with self.lock:
            found = [
                (cell.path, cell.committed) for cell in self._cells.values() if cell.parent_path == path
            ] + [
                (grave.row.path, grave.committed)
                for grave in self._graves.values()
                if grave.row.parent == path and grave.row.death_cause
            ]
        return tuple(sorted(((at, state) for at, state in found if state is not None), key=itemgetter(0)))
