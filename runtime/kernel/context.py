"""How actors and the edge address an actor, and the `Context` through which an incarnation acts."""

from typing import TYPE_CHECKING, Any

import msgspec
import pykka

from api.errors import AlreadyExistsError
from api.ids import Instant, OpId, Path, WallNs
from api.messages import Message
from api.ports.port import BlockingPort, Port, Stream
from runtime.kernel.actor import Handle, Log, Spec
from runtime.kernel.operations import Operation
from runtime.kernel.streams import Listening
from runtime.kernel.trace import report

if TYPE_CHECKING:
    from runtime.kernel.cell import Cell
    from runtime.kernel.system import System


class CellHandle:
    """The address of one cell: it survives restarts, and never reaches a later actor of the same name."""

    __slots__ = ("_ref", "_system", "path")

    def __init__(self, path: Path, ref: "pykka.ActorRef[Cell]", system: "System") -> None:
        self.path = path
        self._ref = ref
        self._system = system

    @property
    def ref(self) -> "pykka.ActorRef[Cell]":
        """Return pykka's reference on the cell."""
        return self._ref

    def tell(self, message: Any) -> None:
        """Send `message`; what does not fit becomes a dead letter."""
        try:
            self._ref.tell(message)
        except pykka.ActorDeadError:
            self._system.bury_unowned(self.path, message)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CellHandle) and other._ref is self._ref

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Handle({self.path})"


class PathHandle:
    """The address of the actor that lives at a path when a message arrives there."""

    __slots__ = ("_system", "path")

    def __init__(self, path: Path, system: "System") -> None:
        self.path = path
        self._system = system

    def tell(self, message: Any) -> None:
        """Send `message`; no actor there means a dead letter."""
        self._system.route(self.path, message)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PathHandle) and other.path == self.path and other._system is self._system

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Handle({self.path})"


class CellContext:
    """What one incarnation may do, see `runtime.kernel.actor.Context`; it has the incarnation's streams."""

    __slots__ = ("_cell", "incarnation", "streams")

    def __init__(self, cell: "Cell", incarnation: int) -> None:
        self._cell = cell
        self.incarnation = incarnation
        self.streams: dict[str, Listening] = {}
        """The open ones, by name."""

    @property
    def self(self) -> Handle[Any]:
        """Return the actor's own handle."""
        return self._cell.handle

    @property
    def log(self) -> Log:
        """Return a logger that knows the actor's path."""
        return self._cell.log

    def now(self) -> Instant:
        """Return monotonic seconds; the same value within one `receive`."""
        return self._cell.moment

    def wall(self) -> WallNs:
        """Return the wall clock in nanoseconds."""
        return self._cell.system.read_wall(self._cell.path)

    def seed(self) -> int:
        """Return a number to seed jitter with, new at each call."""
        return self._cell.system.draw_seed()

    def new_op(self) -> OpId:
        """Return the next operation id of this actor."""
        self._cell.last_op += 1
        return OpId(self._cell.last_op)

    def wake_at(self, at: Instant | None) -> None:
        """Ask for one `Alarm` at `at`, replacing an earlier request; None cancels it."""
        self._cell.alarm.set(self._cell, at)

    def start(self, op: OpId, port: Port | BlockingPort, call: msgspec.Struct, deadline_s: float) -> None:
        """Hand `call` to `port`; one `Outcome` with `op` follows. Raises `AlreadyExistsError` when `op` is in flight."""
        cell = self._cell
        if op in cell.operations:
            raise AlreadyExistsError(f"{cell.path}: operation {op} is in flight already")
        operation = Operation(cell.system, cell, op=op, port=port, call=call, deadline_s=deadline_s)
        cell.operations[op] = operation
        operation.arm()
        cell.system.launch(operation)

    def cancel(self, op: OpId) -> None:
        """Cancel an operation; its `Outcome` still comes. One that is not in flight is left alone."""
        operation = self._cell.operations.get(op)
        if operation is not None:
            operation.cancel()

    def in_flight(self) -> tuple[OpId, ...]:
        """Return the operations in flight, ascending; an earlier incarnation may have started them."""
        return tuple(sorted(self._cell.operations))

    def call_name(self, op: OpId) -> str:
        """Return the class name of the call of an operation in flight, empty for one that is not."""
        operation = self._cell.operations.get(op)
        return operation.call_name if operation is not None else ""

    def listen(self, stream: Stream) -> None:
        """Open `stream`; an open one is left as it is."""
        if stream.name not in self.streams:
            listening = self.streams[stream.name] = Listening(self._cell.system, self._cell, stream)
            listening.begin()

    def unlisten(self, name: str) -> None:
        """Close the stream of this name."""
        listening = self.streams.pop(name, None)
        if listening is not None:
            self._close(listening)

    def close_streams(self) -> None:
        """Close all streams: the incarnation is gone."""
        for listening in list(self.streams.values()):
            self._close(listening)
        self.streams.clear()

    def _close(self, listening: Listening) -> None:
        try:
            listening.close()
        except Exception as error:  # noqa: BLE001  # a driver's bug in closing must not stop the stopping
            report(self._cell.log, "closing a stream failed", error)

    def spawn(self, spec: Spec[Any]) -> Handle[Any]:
        """Start a child. Raises `AlreadyExistsError` while a child of that name is not wholly gone."""
        return self._cell.system.spawn_under(self._cell, spec)

    def children(self) -> tuple[Path, ...]:
        """Return the children in the order of their start; they survive a restart of their parent."""
        return tuple(child.path for child in self._cell.children)

    def stop(self, child: Path) -> None:
        """Stop a child, or this actor itself. Raises `NotFoundError` for any other."""
        self._cell.system.stop_below(self._cell, child)

    def watch(self, path: Path) -> None:
        """Get `Restarted` and `ChildDied` of the actor at `path`."""
        self._cell.system.watch(self._cell.path, path)

    def handle(self, path: Path) -> Handle[Any]:
        """Return a handle on the actor that lives at `path` when a message arrives there."""
        return PathHandle(path, self._cell.system)


class Beginning(Message, frozen=True, kw_only=True):
    """Stands in traces and health for the constructor and `on_start`, which answer no message."""

    def brief(self) -> str:
        """Return one line for traces."""
        return "(start)"


class OnStop(Message, frozen=True, kw_only=True):
    """Stands in traces and health for `on_stop`."""

    def brief(self) -> str:
        """Return one line for traces."""
        return "(stop)"


BEGINNING = Beginning()
ENDING = OnStop()
