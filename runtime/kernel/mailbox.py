"""The mailbox of a cell: two lanes for messages, one for the kernel's own commands, and accounts that balance.

```text
commands   begin, restart, stop, ring, ping          taken first, also while the mailbox is held; never messages
control    Outcome, Alarm, Restarted, ChildDied      overtake ordinary messages; bounded by what was asked for
ordinary   everything told, and what streams bring   bounded; a level keeps only its newest undelivered one
```

A mailbox is a data structure with a lock: it starts nothing and tells nobody. ``offer``, ``post`` and ``command``
say whether the cell must now be queued with its executor, which is the case once until ``take`` finds nothing.

The lock guards what senders touch. What belongs to the one thread that runs the cell (`outgoing`, `handled`,
`plain_taken`) it changes without the lock, so that sender and receiver meet once for many messages.

Accounts: accepted = handled + conflated + dead-lettered + pending. Every message that anybody hands in is accepted;
one that does not fit is at once dead-lettered.
"""

from collections.abc import Callable
from enum import StrEnum
from threading import Lock

import msgspec

from api.ids import Instant
from api.messages import Message

Command = Callable[[], None]
"""Something that the cell does to itself, on the thread that runs it."""


class Offer(StrEnum):
    """What became of a message handed in. All but the first two are reasons of dead letters."""

    QUEUED = "queued"
    WAKE = "wake"  # queued, and the cell must be given to its executor
    FULL = "full"
    STOPPING = "stopping"
    GONE = "no such actor"
    FOREIGN = "not a message"


QUEUED, WAKE, FULL = Offer.QUEUED, Offer.WAKE, Offer.FULL


class Accounts(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all messages of one mailbox."""

    accepted: int = 0
    handled: int = 0
    conflated: int = 0
    dead_lettered: int = 0
    pending: int = 0

    @property
    def balanced(self) -> bool:
        """Return whether no message got lost."""
        return self.accepted == self.handled + self.conflated + self.dead_lettered + self.pending


class Level:
    """An undelivered level; superseded when `message` is None."""

    __slots__ = ("key", "message")

    def __init__(self, key: str, message: Message) -> None:
        self.key = key
        self.message: Message | None = message


Item = tuple[Instant, Message | Level]
Taken = tuple[Instant, Message] | Command

COMPACT_AFTER = 64
"""Superseded levels that may lie in the ordinary lane, besides as many as wait, before it is swept."""


class Mailbox:
    """Two lanes and the commands; see the module."""

    __slots__ = (
        "accepted",
        "closed",
        "commands",
        "conflated",
        "control",
        "dead_lettered",
        "handled",
        "held",
        "high_water",
        "incoming",
        "levels",
        "limit",
        "lock",
        "outgoing",
        "plain_accepted",
        "plain_taken",
        "scheduled",
    )

    def __init__(self, limit: int = 256) -> None:
        self.lock = Lock()
        self.limit = limit
        self.held = True
        """Held: only commands are taken. Messages wait until there is an incarnation to handle them."""
        self.closed: Offer | None = None
        self.scheduled = False
        self.commands: list[Command] = []
        self.control: list[tuple[Instant, Message]] = []
        # A queue out of two lists: what arrives is appended to one, what leaves is popped off the end of the other
        # (the first, reversed). An empty deque would cost every idle actor 760 bytes.
        self.incoming: list[Item] = []
        self.outgoing: list[Item] = []
        self.levels: dict[str, Level] | None = None
        self.plain_accepted = self.plain_taken = 0
        """Messages that count against the bound: those that came, those that left."""
        self.accepted = self.handled = self.conflated = self.dead_lettered = 0
        self.high_water = 0

    def offer(self, message: Message, key: str | None, at: Instant) -> Offer:
        """Hand in an ordinary message; `key` is its conflation key. Full or closed: it is dead-lettered."""
        with self.lock:
            if self.closed is not None:
                return self._refuse(self.closed)
            self.accepted += 1
            if key is not None:
                self._append_level(message, key, at)
            elif self.plain_accepted - self.plain_taken >= self.limit:
                self.dead_lettered += 1
                return FULL
            else:
                self.plain_accepted += 1
                self.incoming.append((at, message))
            pending = self.accepted - self.handled - self.conflated - self.dead_lettered
            if pending > self.high_water:  # noqa: PLR1730  # max() is a call for every message
                self.high_water = pending
            if self.scheduled or self.held:
                return QUEUED
            self.scheduled = True
            return WAKE

    def _refuse(self, reason: Offer) -> Offer:
        if reason is not Offer.GONE:
            # The accounts of a cell that is gone are closed; its system counts what still comes.
            self.accepted += 1
            self.dead_lettered += 1
        return reason

    def _append_level(self, message: Message, key: str, at: Instant) -> None:
        levels = self.levels
        if levels is None:
            levels = self.levels = {}
        older = levels.get(key)
        if older is not None:
            # The newest goes to the end and the older one vanishes: taking over its place would let the newest
            # overtake what its own sender had told before it.
            older.message = None
            self.conflated += 1
        level = levels[key] = Level(key, message)
        self.incoming.append((at, level))
        if len(self.incoming) > COMPACT_AFTER + 2 * self.pending:
            self._compact()

    def _compact(self) -> None:
        """Sweep superseded levels out of what has come; those in `outgoing` are few and soon taken anyway."""
        self.incoming = [
            item for item in self.incoming if not (type(item[1]) is Level and item[1].message is None)
        ]

    def post(self, message: Message, at: Instant, *, ordered: bool = False) -> Offer:
        """Hand in a message whose slot is reserved: it is never refused for want of room.

        It goes to the control lane or, when `ordered`, behind the ordinary messages already there.
        """
        with self.lock:
            if self.closed is not None:
                return self._refuse(self.closed)
            self.accepted += 1
            if ordered:
                # The bound counts what is taken, so a reserved slot must be given out before it is used.
                self.plain_accepted += 1
                self.incoming.append((at, message))
            else:
                self.control.append((at, message))
            self.high_water = max(self.high_water, self.pending)
            if self.scheduled or self.held:
                return QUEUED
            self.scheduled = True
            return WAKE

    def command(self, command: Command) -> Offer:
        """Hand in a command; it is taken before all messages. A mailbox whose cell is gone refuses it."""
        with self.lock:
            if self.closed is Offer.GONE:
                return self.closed
            self.commands.append(command)
            if self.scheduled:
                return QUEUED
            self.scheduled = True
            return WAKE

    def take(self) -> Taken | None:
        """Take the next command or message (with the instant it came), None when there is nothing to do.

        After None the mailbox asks to be queued again with the next thing handed in. Only the thread that runs
        the cell takes.
        """
        if self.outgoing and not (self.held or self.commands or self.control):
            item = self.outgoing.pop()
            if type(item[1]) is not Level:
                self.plain_taken += 1
                self.handled += 1
                return item  # type: ignore[return-value]  # narrowed by the exact type above
            self.outgoing.append(item)
        with self.lock:
            if self.commands:
                return self.commands.pop(0)
            if not self.held:
                if self.control:
                    self.handled += 1
                    return self.control.pop(0)
                if self.outgoing or self.incoming:
                    taken = self._take_ordinary()
                    if taken is not None:
                        self.handled += 1
                        return taken
            self.scheduled = False
            return None

    def _take_ordinary(self) -> tuple[Instant, Message] | None:
        while True:
            if not self.outgoing:
                if not self.incoming:
                    return None
                if len(self.incoming) > 1:
                    self.incoming.reverse()
                self.outgoing, self.incoming = self.incoming, self.outgoing
            item = self.outgoing.pop()
            message = item[1]
            if type(message) is not Level:
                self.plain_taken += 1
                return item  # type: ignore[return-value]  # narrowed by the exact type above
            if message.message is not None:
                assert self.levels is not None
                del self.levels[message.key]
                return item[0], message.message

    @property
    def pending(self) -> int:
        """Return how many messages wait."""
        return self.accepted - self.handled - self.conflated - self.dead_lettered

    def count_direct(self) -> None:
        """Count a message that went straight from the kernel to the actor, as an alarm does."""
        with self.lock:
            self.accepted += 1
            self.handled += 1

    def count_lost(self) -> None:
        """Count a message that was lost on its way, by a planned fault."""
        with self.lock:
            self.accepted += 1
            self.dead_lettered += 1

    def hold(self) -> None:
        """Take only commands from now on."""
        with self.lock:
            self.held = True

    def release(self) -> None:
        """Take messages again. Only while the cell runs, so that it need not be queued."""
        with self.lock:
            self.held = False

    def close(self, reason: Offer) -> list[Message]:
        """Refuse all messages with `reason` from now on; return those that were pending, now dead-lettered."""
        with self.lock:
            self.closed = reason
            self.held = True
            left = [message for _, message in self.control]
            for _, message in [*reversed(self.outgoing), *self.incoming]:
                if not isinstance(message, Level):
                    left.append(message)
                elif message.message is not None:
                    left.append(message.message)
            self.control = []
            self.incoming = []
            self.outgoing = []
            self.levels = None
            self.plain_taken = self.plain_accepted
            if reason is Offer.GONE:
                self.commands = []
            assert len(left) == self.pending, "a message got lost in its mailbox"
            self.dead_lettered += len(left)
            return left

    def seal(self) -> None:
        """Refuse everything from now on, as one that is gone; on any thread, for a system that is gone too."""
        with self.lock:
            self.closed = Offer.GONE
            self.held = True
            self.commands = []

    def oldest(self) -> Instant | None:
        """Return when the oldest pending message came."""
        with self.lock:
            first = [lane[0][0] for lane in (self.control, self.incoming) if lane]
            # The cell may take the last one at any time: a copy of the slice can not run out under our hands.
            first += [item[0] for item in self.outgoing[-1:]]
            return min(first, default=None)

    def accounts(self) -> Accounts:
        """Return what became of all messages so far."""
        with self.lock:
            handled = self.handled
            return Accounts(
                accepted=self.accepted,
                handled=handled,
                conflated=self.conflated,
                dead_lettered=self.dead_lettered,
                pending=self.accepted - handled - self.conflated - self.dead_lettered,
            )
