"""The cell: a pykka actor that outlives its incarnations.

pykka's actor dies on an exception, with its queue, for good. So pykka's actor is the *cell*, which never raises, and
ours is an *incarnation* inside it: handle, path, mailbox and operations stay when an incarnation dies.

A cell is handed messages and commands on any thread, and runs on one thread at a time, which its executor chooses.
What it does there stands in `delivery` (one message), `lifecycle` (incarnations, stopping), `alarm` and `context`.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pykka

from api.ids import Instant, OpId, Path
from api.messages import Message
from api.messages.kernel import ChildDied, Heard, Outcome, StreamEnded
from api.shown.introspection import ActorState
from runtime.kernel import lifecycle
from runtime.kernel.actor import Actor, Log, Spec
from runtime.kernel.alarm import CellAlarm
from runtime.kernel.context import CellContext, CellHandle
from runtime.kernel.delivery import deliver
from runtime.kernel.mailbox import QUEUED, WAKE, Command, Mailbox, Offer
from runtime.kernel.operations import Operation
from runtime.kernel.streams import Listening
from runtime.kernel.trace import Ring, brief, cut

if TYPE_CHECKING:
    from pykka._envelope import Envelope

    from runtime.kernel.system import System


class Inbox(Mailbox):
    """The mailbox in the shape that pykka's `ActorRef` puts envelopes into."""

    __slots__ = ("cell",)

    cell: "Cell"

    def put(self, envelope: "Envelope[Any]", /) -> None:
        """Take an envelope; never blocks, never raises."""
        message = envelope.message
        try:
            key = message.conflation_key()
        except Exception:  # noqa: BLE001  # whatever is wrong with the message must not hurt its sender
            self.cell.take_foreign(message, envelope)
            return
        if not self.cell.system.divert(self.cell, message):
            self.cell.accept(message, key)

    def get(self) -> "Envelope[Any]":
        """Refuse: the executor drains a cell, no loop of pykka's does."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Return whether no message is pending."""
        return self.pending == 0


class Cell(pykka.Actor):
    """One place in the tree: mailbox, operations, counters, and at most one incarnation at a time."""

    __slots__ = (
        "_log",
        "actor_id",
        "alarm",
        "cause",
        "children",
        "committed",
        "context",
        "current",
        "deaths",
        "handle",
        "handling_s",
        "inbox",
        "incarnation",
        "last_op",
        "meter",
        "moment",
        "number",
        "operations",
        "parent",
        "path",
        "pinged_at",
        "ring",
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
        self.children: tuple[Cell, ...] = ()
        """In the order of their start."""
        self.watchers: tuple[Path, ...] = ()
        """In the order in which they asked."""
        self.state = ActorState.PENDING_CREATION
        self.stopping: lifecycle.StopProgress | None = None
        self.incarnation: Actor[Any] | None = None
        self.context: CellContext | None = None
        self.number = 0
        """The incarnation, counted from 0: how often the actor was restarted."""
        self.deaths: tuple[Instant, ...] = ()
        """Of incarnations, those that count for the restart policy."""
        self.cause = ""
        """Of the last death."""
        self.operations: dict[OpId, Operation] = {}
        """In flight, whichever incarnation started them."""
        self.last_op = 0
        self.alarm = CellAlarm()
        self.current: Message | None = None
        """What is being handled."""
        self.moment: Instant = system.clock()
        """Now, as the actor sees it: when the handling of `current` began."""
        self.committed: msgspec.Struct | None = None
        """The actor's state after the last message that it handled."""
        self.handling_s = 0.0
        self.meter = system.meters.of_class(spec.actor.__name__)
        self.ring = Ring()
        self.pinged_at: Instant | None = None
        """When the ping that is not answered yet was sent."""
        self._log: Log | None = None

    # pykka's seam.

    @staticmethod
    def _create_actor_inbox() -> Inbox:
        return Inbox()

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    def _start_actor_loop(self) -> None:
        self.system.enrol(self)
        self.command(lifecycle.bring_up)

    def take_foreign(self, message: object, envelope: "Envelope[Any]") -> None:
        """Take what is no message of ours: pykka's own stop, or a mistake, which becomes a dead letter."""
        if isinstance(message, pykka.messages._ActorStop):  # noqa: SLF001  # pykka has no public name for it
            self.command(partial(lifecycle.stop_for, envelope.reply_to))
            return
        self.inbox.count_lost()
        self.system.refuse(self.path, message, Offer.FOREIGN)

    # What is handed to the cell, on any thread.

    def command(self, command: Command) -> None:
        """Have the cell do something to itself, before all messages."""
        if self.inbox.command(command) is WAKE:
            self.system.ready(self)

    def accept(self, message: Message, key: str | None) -> None:
        """Put a message into the ordinary lane; `key` is its conflation key."""
        self._follow(message, self.inbox.offer(message, key, self.system.clock()))

    def post(self, message: Message, *, ordered: bool = False) -> None:
        """Deliver a message of the kernel, whose slot is reserved."""
        self._follow(message, self.inbox.post(message, self.system.clock(), ordered=ordered))

    def _follow(self, message: Message, offer: Offer) -> None:
        """Queue the cell, or refuse the message, as the mailbox decided."""
        if offer is WAKE:
            self.system.ready(self)
        elif offer is not QUEUED:
            self.system.refuse(self.path, message, offer)

    def settle(self, operation: Operation, outcome: Outcome) -> None:
        """Deliver the outcome of an operation, unless it was settled before or its actor is gone."""
        if self.operations.pop(operation.op, None) is not None:
            self.post(outcome)

    def accept_item(self, item: Heard) -> None:
        """Put an item of a stream into the ordinary lane."""
        self.accept(item, item.conflation_key())

    def end_stream(self, stream: Listening, ended: StreamEnded) -> None:
        """Take the end of a stream, behind its items."""
        context = self.context
        if context is not None and context.streams.get(stream.name) is stream:
            context.streams.pop(stream.name, None)
        self.post(ended, ordered=True)

    def report_death(self, path: Path, cause: str) -> None:
        """Deliver that a child or a watched actor is dead."""
        self.post(ChildDied(path=path, cause=cause))

    def ping(self, now: Instant) -> None:
        """Ask for a sign of life; an earlier question that is still open stays the one that counts."""
        if self.pinged_at is None:
            self.pinged_at = now
            self.command(answer_ping)

    # On the thread that runs the cell.

    def run(self, limit: int, slice_s: float) -> bool:
        """Do up to `limit` commands and messages, or what fits into `slice_s`; return whether there may be more to do.

        A cell that may have more to do counts as queued: its executor runs it again.
        """
        until = self.system.clock() + slice_s
        for _ in range(limit):
            taken = self.inbox.take()
            if taken is None:
                return False
            if isinstance(taken, tuple):
                arrived_at, message = taken
                deliver(self, message)
                self.meter.count_wait(self.moment - arrived_at)
                if self.moment > until:
                    break
            else:
                taken(self)
        return True

    def record(self, message: Message, outcome: str, took_s: float) -> None:
        """Keep in the trace what came of a message, whose handling began at `moment`."""
        text, outcome = brief(message), cut(outcome)
        self.ring.add((self.moment, took_s, text, outcome), self.system.trace_depth)
        if self.system.trace_log is not None:
            self.system.trace_log(f"{self.moment:.6f} {self.path}#{self.number} {text} | {outcome}")

    @property
    def parent_path(self) -> Path:
        """Return where the parent lives; the root of the system for an actor directly below it."""
        return self.system.root if self.parent is None else self.parent.path

    @property
    def log(self) -> Log:
        """Return the logger that knows the actor's path."""
        if self._log is None:
            self._log = self.system.log_factory(self.path)
        return self._log


def answer_ping(cell: Cell) -> None:
    """Give the sign of life that a ping asks for."""
    cell.pinged_at = None
