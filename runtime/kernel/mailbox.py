"""The mailbox of a cell: two lanes for messages, commands before both, and accounts that balance.

```text
commands   begin, restart, stop, ring, ping          taken first, also while the mailbox is held; never messages
control    Outcome, Alarm, Restarted, ChildDied      overtakes ordinary messages; bounded by what was asked for
ordinary   what actors send, and what streams bring  bounded; a level keeps only its newest undelivered one
```

A mailbox is data behind one lock, and starts nothing. ``offer``, ``post`` and ``command`` return whether the cell must
now be queued with its executor, which is so once until ``take`` finds nothing.

Accounts: accepted = handled + conflated + dead-lettered + pending. Every message handed in is accepted; one that does
not fit is dead-lettered at once.
"""

from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from threading import Lock
from typing import Any

import msgspec

from api.ids import Instant
from api.messages import Message

Command = Callable[[Any], None]
"""Something that a cell does to itself, on the thread that runs it: called with the cell."""

Arrival = tuple[Instant, Message]
"""A message, and when it came."""


class Offer(StrEnum):
    """What became of a message handed in. All but the first two are reasons of dead letters."""

    QUEUED = "queued"
    WAKE = "wake"  # queued, and the cell must be given to its executor
    FULL = "full"
    STOPPING = "stopping"
    GONE = "no such actor"
    FOREIGN = "not a message"


QUEUED, WAKE = Offer.QUEUED, Offer.WAKE
"""Looked up for each message: the members of an enumeration take longer to find than a module's names."""


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


class Mailbox:
    """Two lanes and the commands; any thread hands in, the one that runs the cell takes."""

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
        "limit",
        "lock",
        "ordinary",
        "scheduled",
        "unkeyed",
    )

    def __init__(self, limit: int = 256) -> None:
        self.lock = Lock()
        self.limit = limit
        self.held = True
        """Only commands are taken: messages wait until there is an incarnation to handle them."""
        self.closed: Offer | None = None
        """Why messages are refused now."""
        self.scheduled = False
        """The cell is queued with its executor, or runs."""
        self.commands: list[Command] = []
        self.control: list[Arrival] = []
        self.ordinary: OrderedDict[str | int, Arrival] = OrderedDict()
        """By conflation key; a message without one is filed under its number, which no other has."""
        self.unkeyed = 0
        """Ordinary messages without a key: those that count against the bound."""
        self.accepted = self.handled = self.conflated = self.dead_lettered = 0
        self.high_water = 0

    def offer(self, message: Message, key: str | None, at: Instant) -> Offer:
        """Hand in an ordinary message; `key` is its conflation key. Full or closed: it is dead-lettered."""
        with self.lock:
            if self.closed is not None:
                return self._refuse(self.closed)
            self.accepted += 1
            if key is None:
                if self.unkeyed >= self.limit:
                    self.dead_lettered += 1
                    return Offer.FULL
                self.unkeyed += 1
            elif self.ordinary.pop(key, None) is not None:
                # The newest goes to the end: in the older one's place it would overtake what its own sender sent before.
                self.conflated += 1
            self.ordinary[self.accepted if key is None else key] = at, message
            return self._wake()

    def post(self, message: Message, at: Instant, *, ordered: bool = False) -> Offer:
        """Hand in a message whose slot is reserved: it is never refused for want of room.

        It goes to the control lane or, when `ordered`, behind the ordinary messages already there.
        """
        with self.lock:
            if self.closed is not None:
                return self._refuse(self.closed)
            self.accepted += 1
            if ordered:
                self.unkeyed += 1
                self.ordinary[self.accepted] = at, message
            else:
                self.control.append((at, message))
            return self._wake()

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

    def _refuse(self, reason: Offer) -> Offer:
        if reason is not Offer.GONE:
            # The accounts of a cell that is gone are closed; its system counts what still comes.
            self.accepted += 1
            self.dead_lettered += 1
        return reason

    def _wake(self) -> Offer:
        pending = len(self.control) + len(self.ordinary)
        if pending > self.high_water:  # noqa: PLR1730  # max() takes longer than all else here
            self.high_water = pending
        if self.held or self.scheduled:
            return QUEUED
        self.scheduled = True
        return WAKE

    def take(self) -> Arrival | Command | None:
        """Take the next command or message; None when there is nothing to do.

        After None the mailbox asks to be queued again with the next thing handed in.
        """
        with self.lock:
            if self.commands:
                return self.commands.pop(0)
            if self.control and not self.held:
                self.handled += 1
                return self.control.pop(0)
            if self.ordinary and not self.held:
                self.handled += 1
                key, arrival = self.ordinary.popitem(last=False)
                if isinstance(key, int):
                    self.unkeyed -= 1
                return arrival
            self.scheduled = False
            return None

    @property
    def pending(self) -> int:
        """Return how many messages wait."""
        return len(self.control) + len(self.ordinary)

    def count_direct(self) -> None:
        """Count a message that went straight from the kernel to the actor, as an alarm does."""
        with self.lock:
            self.accepted += 1
            self.handled += 1

    def count_lost(self) -> None:
        """Count a message that was lost on its way: by a planned fault, or because it is no message."""
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
            left = [message for _, message in (*self.control, *self.ordinary.values())]
            self.control.clear()
            self.ordinary.clear()
            self.unkeyed = 0
            if reason is Offer.GONE:
                self.commands.clear()
            self.dead_lettered += len(left)
            return left

    def seal(self) -> None:
        """Refuse everything from now on, as one that is gone; on any thread, for a system that is gone too."""
        with self.lock:
            self.closed = Offer.GONE
            self.held = True
            self.commands.clear()

    def oldest(self) -> Instant | None:
        """Return when the oldest pending message came."""
        with self.lock:
            firsts = [next(iter(lane), None) for lane in (self.control, self.ordinary.values())]
            return min((arrival[0] for arrival in firsts if arrival is not None), default=None)

    def accounts(self) -> Accounts:
        """Return what became of all messages so far."""
        with self.lock:
            return Accounts(
                accepted=self.accepted,
                handled=self.handled,
                conflated=self.conflated,
                dead_lettered=self.dead_lettered,
                pending=self.pending,
            )
