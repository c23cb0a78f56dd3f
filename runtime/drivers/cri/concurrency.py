"""The concurrency limit of heavy calls to the runtime.

A runtime that is asked for a hundred sandboxes at the same moment makes each of them later than one that is asked for a
few at a time: they share its locks, its disk and the machine's cores. Waiting calls enter by rank, then in order of
arrival: a pod that has nearly started does not wait behind those that have not begun.

```text
enter --> waits --> is in --> leaves ----------------> the next one enters
             |         └----> stays for too long -----> the next one enters; it goes on, and is not counted any more
             └--> waited for `QUEUE_S` ---------------> it enters, over the limit
```

A call stays for too long when it has been in for `PATIENCE_S` and no other left in that time, or for `LONGEST_S`; on a machine
where such calls usually take longer, for half as long and twice as long as they do. So a call that hangs, in a network plugin
for example, delays only its own pod, and the others are limited as before.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from api.errors import Failure, FailureKind
from api.ids import Instant
from api.ports.port import Undo
from api.ports.runtime import QUEUE_S
from runtime.drivers.cri.opencall import Answer
from runtime.net.loop import After

HEAVY_AT_ONCE = 8
"""On two cores 40 pods took 1.53 s with 4 or 8, 1.63 s with 16, 1.74 s without a bound; more cores bear more than 4."""
PATIENCE_S, LONGEST_S = 0.2, 0.6
"""How long a call keeps its place while others wait: when none of those that are in leaves, and when some do."""
HUNG_S = 5.0
"""A call that was in for so long does not count for the usual duration."""
START, CREATE, RUN = 0, 1, 2
"""Ranks: the later a step of a pod's start, the sooner it enters."""


class ConcurrencyLimit:
    """Admits `bound` callers at a time; each calls `leave` once.

    `after` schedules the review of calls that stay long, `usual_s` is the assumed duration until a call has ended.
    """

    def __init__(
        self,
        after: After,
        bound: int = HEAVY_AT_ONCE,
        *,
        usual_s: float = 1.0,
        now: Callable[[], Instant] = time.monotonic,
    ) -> None:
        self._after, self._bound, self._now = after, bound, now
        self._lock = threading.Lock()
        self._inside: list[Slot] = []
        """Slots that count."""
        self._waiting: tuple[deque[Slot], ...] = tuple(deque() for _ in (START, CREATE, RUN))
        self._usual_s = [usual_s, usual_s, usual_s]
        """Recent duration of calls of each rank."""
        self._left_at: Instant = 0.0
        """When a slot that counts was last released."""
        self._reviewed = False
        """A review is scheduled."""

    @property
    def waiting(self) -> int:
        """Return the number of waiting calls."""
        return sum(len(queue) for queue in self._waiting)

    def enter(self, rank: int) -> "Slot":
        """Return the slot to wait for before a heavy call, and to `leave` after it."""
        return Slot(self, rank, self._now())

    def queue(self, slot: "Slot") -> None:
        """Queue a slot; it is answered when it is admitted."""
        with self._lock:
            self._waiting[slot.rank].append(slot)
            entering = self._admit()
        _answer(entering)

    def give_up(self, slot: "Slot") -> bool:
        """Take a slot out of the queue; return whether it was still there."""
        with self._lock:
            if slot not in self._waiting[slot.rank]:
                return False
            self._waiting[slot.rank].remove(slot)
            return True

    def leave(self, slot: "Slot") -> None:
        """Release a slot, unless it was released because it stayed for too long."""
        with self._lock:
            now = self._now()
            took_s = now - slot.entered_at
            if took_s < HUNG_S:
                self._usual_s[slot.rank] += (took_s - self._usual_s[slot.rank]) / 8
            if slot in self._inside:
                self._inside.remove(slot)
                self._left_at = now
            entering = self._admit()
        _answer(entering)

    def _review(self) -> None:
        """Release the slots that stayed for too long."""
        with self._lock:
            self._reviewed = False
            entering = self._admit()
        _answer(entering)

    def _admit(self) -> list["Slot"]:
        """Return the slots that are admitted now, and schedule the next review. Under the lock."""
        now = self._now()
        entering: list[Slot] = []
        while any(self._waiting):
            queues = [queue for queue in self._waiting if queue]
            eldest = min(queues, key=lambda queue: queue[0].asked_at)
            overdue_at = eldest[0].asked_at + QUEUE_S
            if now >= overdue_at:
                queues = [eldest]
            elif len(self._inside) >= self._bound:
                first = min(self._inside, key=self._too_long_at)
                if now < self._too_long_at(first):
                    self._come_back(min(overdue_at, self._too_long_at(first)) - now)
                    break
                self._inside.remove(first)
            slot = queues[0].popleft()
            slot.entered_at = now
            self._inside.append(slot)
            entering.append(slot)
        return entering

    def _too_long_at(self, slot: "Slot") -> Instant:
        """Return when an admitted slot stops to count."""
        usual_s, since = self._usual_s[slot.rank], slot.entered_at
        calm_at = max(since, self._left_at) + max(PATIENCE_S, usual_s / 2)
        return min(calm_at, since + max(LONGEST_S, 2 * usual_s))

    def _come_back(self, seconds: float) -> None:
        if not self._reviewed:
            self._reviewed = True
            self._after(seconds, self._review)


class Slot:
    """A place in the queue; its answer means that it is admitted."""

    def __init__(self, limit: ConcurrencyLimit, rank: int, asked_at: Instant) -> None:
        self._limit, self.rank, self.asked_at = limit, rank, asked_at
        self.entered_at: Instant = 0.0
        self.answer: Answer

    def begin(self, left_s: float, answer: Answer) -> Undo:  # noqa: ARG002 whose time is up is found out inside
        """Answer when the slot is admitted."""
        self.answer = answer
        self._limit.queue(self)

        def undo() -> None:
            if self._limit.give_up(self):
                answer(None, Failure(kind=FailureKind.CANCELLED, message="cancelled before it began"))

        return undo

    def leave(self) -> None:
        """Release the slot."""
        self._limit.leave(self)


def _answer(slots: list[Slot]) -> None:
    for slot in slots:
        slot.answer(None, None)
