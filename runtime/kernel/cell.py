"""The cell: a pykka actor that outlives its incarnations.

pykka's actor dies on an exception, with its queue, for good. So pykka's actor is the *cell*, which never raises, and
ours is an *incarnation* inside it: handle, path, mailbox and operations stay when an incarnation dies.

```text
PENDING_CREATION --begin--> ALIVE --exception--> RESTARTING --delay--> ALIVE ...
       |                      |                      |
       +----------------------+-- stop, kill, past the budget --> (children stop, last started first) --> DEAD
```

Everything here but `Inbox.put`, `order`, `settle`, `hear`, `lose` runs on the one thread that runs the cell.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pykka
from pykka import ActorRegistry

from api.errors import AlreadyExistsError, NotFoundError, UnavailableError
from api.ids import Instant, OpId, Path
from api.messages import Message
from api.messages.kernel import Alarm, ChildDied, Heard, Outcome, Restarted, StreamEnded
from api.ports.port import BlockingPort, Port, Stream, Undo
from api.shown.introspection import ActorState
from runtime.kernel.actor import Actor, Log, Spec
from runtime.kernel.context import BEGINNING, ENDING, CellContext, CellHandle
from runtime.kernel.mailbox import QUEUED, WAKE, Command, Mailbox, Offer
from runtime.kernel.meter import SHORT_S
from runtime.kernel.operations import Operation
from runtime.kernel.streams import Listening
from runtime.kernel.supervision import judge
from runtime.kernel.trace import TEXT_LIMIT, Ring, brief, cut, report

if TYPE_CHECKING:
    from pykka._envelope import Envelope

    from runtime.kernel.system import System

CAUSE_LIMIT = 300
KILLED = "killed"


class Inbox(Mailbox):
    """The mailbox in the shape that pykka's `ActorRef` puts envelopes into."""

    __slots__ = ("cell",)

    cell: "Cell"

    def put(self, envelope: "Envelope[Any]", /) -> None:
        """Take an envelope; never blocks, never raises. An ordinary message is offered without a further call."""
        message = envelope.message
        try:
            key = message.conflation_key()
        except Exception:  # noqa: BLE001  # whatever is wrong with the message must not hurt its sender
            self.cell.take_foreign(message, envelope)
            return
        cell = self.cell
        system = cell.system
        if system.interceptor is not None and system.divert(cell, message):
            return
        offer = self.offer(message, key, system.clock())
        if offer is WAKE:
            system.ready(cell)
        elif offer is not QUEUED:
            system.refuse(cell.path, message, offer)

    def get(self) -> "Envelope[Any]":
        """Refuse: the executor drains a cell, no loop of pykka's does."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Return whether no message is pending."""
        return self.pending == 0


class Cell(pykka.Actor):
    """One place in the tree: mailbox, operations, counters, and at most one incarnation at a time."""

    __slots__ = (
        "_alarm_at",
        "_alarm_timer",
        "_alarm_timer_at",
        "_context",
        "_deaths",
        "_goodbye",
        "_incarnation",
        "_last_op",
        "_log",
        "_overdue",
        "_stop_waiters",
        "_streams",
        "actor_id",
        "cause",
        "children",
        "committed",
        "current",
        "handle",
        "handling_s",
        "inbox",
        "meter",
        "moment",
        "number",
        "operations",
        "parent",
        "path",
        "pinged_at",
        "restarts",
        "ring",
        "since",
        "spec",
        "state",
        "stopping",
        "system",
        "watchers",
    )

    def __init__(
        self, system: "System", spec: Spec[Any], path: Path, parent: "Cell | None", number: int
    ) -> None:
        super().__init__()
        self.system, self.spec, self.path, self.parent = system, spec, path, parent
        assert isinstance(self.actor_inbox, Inbox)
        self.inbox = self.actor_inbox
        self.inbox.cell = self
        self.inbox.limit = spec.mailbox
        self.handle = CellHandle(path, self.actor_ref, system)
        self.actor_id = number
        self.state = ActorState.PENDING_CREATION
        self.number = 0
        """The incarnation, counted from 0."""
        self.restarts = 0
        self.cause = ""
        self.children: dict[Path, Cell] | None = None
        self.watchers: dict[Path, None] = {}
        """In the order in which they asked."""
        self.operations: dict[OpId, Operation] | None = None
        self.committed: msgspec.Struct | None = None
        self.current: Message | None = None
        self.since: Instant = 0.0
        self.moment: Instant = system.clock()
        self.handling_s = 0.0
        self.pinged_at: Instant | None = None
        self.ring = Ring()
        self.meter = system.meters.of_class(spec.actor.__name__)
        self.stopping = False
        self._incarnation: Actor[Any] | None = None
        self._context: CellContext | None = None
        self._streams: dict[str, Listening] | None = None
        self._alarm_at: Instant | None = None
        self._alarm_timer: Undo | None = None
        self._alarm_timer_at: Instant = 0.0
        self._deaths: tuple[Instant, ...] = ()
        self._last_op = 0
        self._log: Log | None = None
        self._goodbye = False
        self._overdue: tuple[Path, ...] = ()
        self._stop_waiters: list[pykka.Future[Any]] | None = None

    # pykka's seam.

    @staticmethod
    def _create_actor_inbox() -> Inbox:
        return Inbox()

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    def _start_actor_loop(self) -> None:
        self.system.enrol(self)
        self.order(self._bring_up)

    def take_foreign(self, message: object, envelope: "Envelope[Any]") -> None:
        """Take what is no message of ours: pykka's own stop, or a mistake, which becomes a dead letter."""
        if isinstance(message, pykka.messages._ActorStop):  # noqa: SLF001  # pykka has no public name for it
            if envelope.reply_to is not None:
                if self._stop_waiters is None:
                    self._stop_waiters = []
                self._stop_waiters.append(envelope.reply_to)
            self.order(self.stop_gently)
            return
        self.inbox.count_lost()
        self.system.refuse(self.path, message, Offer.FOREIGN)

    # What the executor and others ask of a cell, on any thread.

    @property
    def log(self) -> Log:
        """Return the logger that knows the actor's path."""
        if self._log is None:
            self._log = self.system.log_factory(self.path)
        return self._log

    def order(self, command: Command) -> None:
        """Have the cell do something to itself, before all messages."""
        if self.inbox.command(command) is WAKE:
            self.system.ready(self)

    def post(self, message: Message, *, ordered: bool = False) -> None:
        """Deliver a message of the kernel, whose slot is reserved."""
        offer = self.inbox.post(message, self.system.clock(), ordered=ordered)
        if offer is WAKE:
            self.system.ready(self)
        elif offer is not QUEUED:
            self.system.refuse(self.path, message, offer)

    def settle(self, operation: Operation, outcome: Outcome) -> None:
        """Deliver the outcome of an operation."""
        operations = self.operations
        if operations is not None and operations.pop(operation.op, None) is not None:
            self.post(outcome)

    def take(self, message: Message) -> None:
        """Take a message into the ordinary lane, past the seam."""
        offer = self.inbox.offer(message, message.conflation_key(), self.system.clock())
        if offer is WAKE:
            self.system.ready(self)
        elif offer is not QUEUED:
            self.system.refuse(self.path, message, offer)

    def hear(self, heard: Heard) -> None:
        """Take an item of a stream into the ordinary lane."""
        self.take(heard)

    def lose(self, stream: Listening, ended: StreamEnded) -> None:
        """Take the end of a stream, behind its items."""
        streams = self._streams
        if streams is not None and streams.get(stream.name) is stream:
            streams.pop(stream.name, None)
        self.post(ended, ordered=True)

    def run(self, limit: int, slice_s: float) -> bool:
        """Do up to `limit` commands and messages, or what fits into `slice_s`; return whether there may be more to do.

        A cell that may have more to do counts as queued: its executor runs it again.
        """
        take = self.inbox.take
        until = None
        for _ in range(limit):
            taken = take()
            if taken is None:
                return False
            if type(taken) is tuple:
                self._deliver(taken[1])
                waited_s = self.moment - taken[0]
                meter = self.meter
                meter.waited_s += waited_s
                if waited_s <= SHORT_S:
                    meter.short_waits += 1
                else:
                    meter.wait(waited_s)
                # Most runs end after one message: the clock that its delivery read anyway serves as their start.
                if until is None:
                    until = self.moment + slice_s
                elif self.moment > until:
                    break
            else:
                taken()  # type: ignore[operator]  # narrowed by the exact type above
        return True

    # Deliveries.

    def _deliver(self, message: Message) -> None:  # noqa: C901  # every message passes here: no calls for its parts
        system = self.system
        clock = system.clock
        started = self.moment = self.since = clock()
        self.current = message
        incarnation = self._incarnation
        assert incarnation is not None
        assert self._context is not None
        try:
            if system.interceptor is not None:
                system.interceptor.delivering(self.path, message)
            incarnation.receive(message, self._context)
            said = incarnation.explain_last()
            state = incarnation.state
        except (Exception, SystemExit) as error:  # noqa: BLE001  # an incarnation dies of anything, its cell of nothing
            self.current = None
            if not system.halted:
                took_s = clock() - started
                self.handling_s += took_s
                self._count(took_s)
                self._crash(error, message)
            return
        self.current = None
        if system.halted:
            return
        self.committed = state
        ended = clock()
        took_s = ended - started
        self.handling_s += took_s
        # As `_count` does, without the call: this happens for every message.
        meter = self.meter
        meter.handled_s += took_s
        if took_s <= SHORT_S:
            meter.short_takes += 1
        else:
            meter.take(took_s)
        try:
            text = message.brief()
            if len(text) > TEXT_LIMIT or "\n" in text:
                text = cut(text)
        except Exception:  # noqa: BLE001  # `brief` says so in the trace
            text = brief(message)
        if len(said) > TEXT_LIMIT:
            said = cut(said)
        # As `Ring.append` does, without the call: this happens for every message.
        entries = self.ring.entries
        entries.append((started, took_s, text, said))
        if len(entries) > system.trace_depth:
            del entries[0]
        if system.trace_log is not None:
            system.trace_log(f"{started:.6f} {self.path}#{self.number} {text} | {said}")

    def _count(self, took_s: float) -> None:
        self.meter.handled_s += took_s
        if took_s <= SHORT_S:
            self.meter.short_takes += 1
        else:
            self.meter.take(took_s)

    def _record(self, message: Message, outcome: str) -> None:
        text = brief(message)
        now = self.system.clock()
        self.ring.append((self.since, now - self.since, text, cut(outcome)), self.system.trace_depth)
        if self.system.trace_log is not None:
            self.system.trace_log(f"{self.since:.6f} {self.path}#{self.number} {text} | {cut(outcome)}")

    # Birth and death of incarnations.

    def _bring_up(self) -> None:
        if self.stopping:
            return
        self.moment = self.since = self.system.clock()
        self.current = BEGINNING
        context = self._context = CellContext(self, self.number)
        try:
            incarnation = self.spec.make()
            incarnation.on_start(context)
            said = incarnation.explain_last()
        except (Exception, SystemExit) as error:  # noqa: BLE001  # constructor, on_start and receive fail alike
            self.current = None
            if not self.system.halted:
                self._crash(error, BEGINNING)
            return
        self.current = None
        if self.system.halted:
            return
        self._record(BEGINNING, said)
        self._incarnation = incarnation
        if incarnation.state is not None:
            self.committed = incarnation.state
        self.state = ActorState.ALIVE
        self.inbox.release()
        if self.number:
            message = Restarted(path=self.path, incarnation=self.number, cause=cut(self.cause))
            self.system.announce(self, message)

    def _crash(self, error: BaseException, message: Message) -> None:
        cause = cut(f"{type(error).__name__}: {error}", CAUSE_LIMIT)
        self._record(message, cause)
        report(
            self.log,
            "incarnation died",
            error,
            path=self.path,
            incarnation=self.number,
            cause=cause,
            message=brief(message),
            deliveries=tuple(f"{at:.3f} {text} | {said}" for at, _, text, said in self.ring.entries),
        )
        self._end_incarnation(cause)

    def _end_incarnation(self, cause: str) -> None:
        self.cause = cause
        self._let_go()
        self.inbox.hold()
        now = self.system.clock()
        verdict = judge(self.spec.restart, self._deaths, now)
        self._deaths = verdict.deaths
        if verdict.delay_s is None:
            self._wind_down(Offer.GONE)
            return
        self.state = ActorState.RESTARTING
        self.system.timers.call_at(now + verdict.delay_s, lambda: self.order(self._restart))

    def _restart(self) -> None:
        if self.stopping or self.state is not ActorState.RESTARTING:
            return
        self.number += 1
        self.restarts += 1
        self.meter.restarts += 1
        self._bring_up()

    def _let_go(self) -> None:
        """Drop what belongs to the incarnation: itself, its streams, its alarm. Operations and children stay."""
        self._incarnation = self._context = None
        self._alarm_at = None
        streams, self._streams = self._streams, None
        for stream in (streams or {}).values():
            self._undo(stream.close, "closing a stream failed")

    def _undo(self, undo: Undo, text: str) -> None:
        try:
            undo()
        except Exception as error:  # noqa: BLE001  # a driver's bug in closing must not stop the stopping
            report(self.log, text, error)

    # Stopping.

    def stop_gently(self) -> None:
        """Stop: children first, then `on_stop`, then gone."""
        if not self.stopping:
            self._goodbye = True
            self.cause = ""
            self._wind_down(Offer.STOPPING)

    def kill(self) -> None:
        """End without a goodbye; children stop first."""
        if not self.stopping:
            self.cause = KILLED
            self._wind_down(Offer.GONE)

    def kill_incarnation(self) -> None:
        """End this incarnation as an exception would."""
        if not self.stopping and self.state is ActorState.ALIVE:
            self.since = self.system.clock()
            self._record(ENDING, KILLED)
            self._end_incarnation(KILLED)

    def stop_below(self, path: Path) -> None:
        """Stop a child, or the actor itself. Raises `NotFoundError` for anybody else."""
        if path == self.path:
            self.order(self.stop_gently)
            return
        child = (self.children or {}).get(path)
        if child is None:
            raise NotFoundError(f"{self.path} can not stop {path}: it is no child of it")
        child.order(child.stop_gently)

    def _wind_down(self, reason: Offer) -> None:
        self.stopping = True
        for message in self.inbox.close(Offer.STOPPING):
            self.system.refuse(self.path, message, reason, counted=True)
        self._stop_next()

    def _stop_next(self) -> None:
        with self.system.lock:
            left = [cell for path, cell in (self.children or {}).items() if path not in self._overdue]
        if not left:
            self._finish()
            return
        child = left[-1]
        child.order(child.stop_gently)
        at = self.system.clock() + child.spec.stop_deadline_s
        self.system.timers.call_at(at, lambda: self.order(lambda: self._child_overdue(child)))

    def child_gone(self) -> None:
        """Go on stopping: a child is gone."""
        if self.stopping and self.state is not ActorState.DEAD:
            self._stop_next()

    def _child_overdue(self, child: "Cell") -> None:
        if self.state is ActorState.DEAD or child.state is ActorState.DEAD or child.path in self._overdue:
            return
        self._overdue = (*self._overdue, child.path)
        self.log.error("child did not stop in time", child=child.path, deadline_s=child.spec.stop_deadline_s)
        self._stop_next()

    def _finish(self) -> None:
        self._say_goodbye()
        self._let_go()
        operations, self.operations = self.operations, None
        for operation in list((operations or {}).values()):
            operation.abandon()
        if self._alarm_timer is not None:
            self._alarm_timer()
        self.state = ActorState.DEAD
        ActorRegistry.unregister(self.actor_ref)
        self.actor_stopped.set()
        for message in self.inbox.close(Offer.GONE):
            self.system.refuse(self.path, message, Offer.STOPPING, counted=True)
        self.system.remove(self)
        waiters, self._stop_waiters = self._stop_waiters, None
        for waiter in waiters or ():
            # Whoever waited may have been answered by pykka already.
            with suppress(Exception):
                waiter.set(None)

    def _say_goodbye(self) -> None:
        incarnation, context = self._incarnation, self._context
        if not self._goodbye or incarnation is None or context is None:
            return
        self.moment = self.since = self.system.clock()
        self.current = ENDING
        said = ""
        try:
            incarnation.on_stop(context)
            self.committed = incarnation.state
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a failed goodbye is still one
            said = cut(f"{type(error).__name__}: {error}")
            report(self.log, "on_stop failed", error)
        self.current = None
        self._record(ENDING, said)

    def vanish(self) -> None:
        """Be gone as after a kill of the process: nothing is told to anybody."""
        self.state = ActorState.DEAD
        self.inbox.seal()
        ActorRegistry.unregister(self.actor_ref)
        self.actor_stopped.set()

    def children_paths(self) -> tuple[Path, ...]:
        """Return the children in the order of their start."""
        with self.system.lock:
            return tuple(self.children or ())

    def may_spawn(self) -> None:
        """Raise `UnavailableError` when the cell is on its way out."""
        if self.stopping:
            raise UnavailableError(f"{self.path} starts no child: it is stopping")

    # Alarm.

    @property
    def alarm_at(self) -> Instant | None:
        """Return when the alarm rings."""
        return self._alarm_at

    def wake_at(self, at: Instant | None) -> None:
        """Set the alarm. A timer that rings too early is set again then, so a later alarm costs nothing now."""
        self._alarm_at = at
        if at is None or (self._alarm_timer is not None and self._alarm_timer_at <= at):
            return
        if self._alarm_timer is not None:
            self._alarm_timer()
        self._alarm_timer_at = at
        self._alarm_timer = self.system.timers.call_at(at, lambda: self.order(self._ring))

    def _ring(self) -> None:
        at = self._alarm_at
        now = self.system.clock()
        if self._alarm_timer is not None and self._alarm_timer_at <= now:
            self._alarm_timer = None
        if at is None or self._incarnation is None:
            return
        if now < at:
            self.wake_at(at)
            return
        self._alarm_at = None
        if self.system.interceptor is not None:
            self.system.interceptor.waking(self.path, at)
        self.inbox.count_direct()
        self._deliver(Alarm(at=at))

    # Operations and streams.

    def new_op(self) -> OpId:
        """Return the next operation id."""
        self._last_op += 1
        return OpId(self._last_op)

    def start_operation(
        self, op: OpId, port: Port | BlockingPort, call: msgspec.Struct, deadline_s: float
    ) -> None:
        """Start an operation. Raises `AlreadyExistsError` when `op` is in flight."""
        if self.operations is None:
            self.operations = {}
        if op in self.operations:
            raise AlreadyExistsError(f"{self.path}: operation {op} is in flight already")
        operation = Operation(self.system, self, op=op, port=port, call=call, deadline_s=deadline_s)
        self.operations[op] = operation
        operation.arm()
        self.system.launch(operation)

    def cancel_operation(self, op: OpId) -> None:
        """Cancel an operation; one that is not in flight is left in peace."""
        operation = (self.operations or {}).get(op)
        if operation is not None:
            operation.cancel()

    def listen(self, stream: Stream) -> None:
        """Open a stream, unless it is open."""
        if self._streams is None:
            self._streams = {}
        if stream.name in self._streams:
            return
        listening = self._streams[stream.name] = Listening(self.system, self, stream)
        listening.begin()

    def unlisten(self, name: str) -> None:
        """Close a stream."""
        listening = (self._streams or {}).pop(name, None)
        if listening is not None:
            self._undo(listening.close, "closing a stream failed")

    # Ping.

    def ping(self, now: Instant) -> None:
        """Ask for a sign of life; an earlier question that is still open stays the one that counts."""
        if self.pinged_at is None:
            self.pinged_at = now
            self.order(self._pong)

    def _pong(self) -> None:
        self.pinged_at = None

    def tell_death(self, path: Path, cause: str) -> None:
        """Take the news that a child or a watched actor is dead."""
        self.post(ChildDied(path=path, cause=cause))
