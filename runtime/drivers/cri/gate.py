"""How many heavy calls the runtime is given at once.

A runtime that is asked for a hundred sandboxes at the same moment makes each of them later than one that is asked for a
few at a time: they share its locks, its disk and the machine's cores. Waiting ones enter by their rank, then in the
order of their coming: a pod that is nearly there does not wait behind all those that have not begun.

```text
enter --> waits --> is in --> leaves ----------------> the next one enters
             |         └----> stays for too long -----> the next one enters; it goes on, and is not counted any more
             └--> waited for `QUEUE_S` ---------------> it enters, whoever is in
```

A call stays for too long when it has been in for `PATIENCE_S` and no other left meanwhile, or for `LONGEST_S`; on a machine
where its like usually take longer, for half as long and twice as long as they do. So one that hangs, in a network plugin say, holds
up nobody but its own pod, and those that get on are bounded as before.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from api.errors import Failure, FailureKind
from api.ids import Instant
from api.ports.port import Undo
from api.ports.runtime import QUEUE_S
from runtime.drivers.cri.errand import Answer
from runtime.net.loop import After

HEAVY_AT_ONCE = 8
"""On two cores 40 pods took 1.53 s with 4 or 8, 1.63 s with 16, 1.74 s without a bound; more cores bear more than 4."""
PATIENCE_S, LONGEST_S = 0.2, 0.6
"""How long a call keeps its place while others wait: when none of those that are in leaves, and when some do."""
HUNG_S = 5.0
"""A call that was in for so long says nothing of how long its like usually take."""
START, CREATE, RUN = 0, 1, 2
"""Ranks: the later a step of a pod's start, the sooner it enters."""


class Gate:
    """Lets `bound` callers in; whoever is in calls `leave` once.

    `after` is how it comes back to those that stay long, `usual_s` what a call is taken to last as long as none has ended.
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
        self._inside: list[Turn] = []
        """Those that hold a place."""
        self._waiting: tuple[deque[Turn], ...] = tuple(deque() for _ in (START, CREATE, RUN))
        self._usual_s = [usual_s, usual_s, usual_s]
        """How long calls of each rank took lately."""
        self._left_at: Instant = 0.0
        """When one that held a place left last."""
        self._reviewed = False
        """A review will come."""

    @property
    def waiting(self) -> int:
        """Return how many wait."""
        return sum(len(queue) for queue in self._waiting)

    def enter(self, rank: int) -> "Turn":
        """Return what to wait for before something heavy is begun, and to `leave` afterwards."""
        return Turn(self, rank, self._now())

    def queue(self, turn: "Turn") -> None:
        """Have a turn answered as soon as it is in."""
        with self._lock:
            self._waiting[turn.rank].append(turn)
            entering = self._admit()
        _answer(entering)

    def give_up(self, turn: "Turn") -> bool:
        """Take a turn out of the queue; return whether it was still there."""
        with self._lock:
            if turn not in self._waiting[turn.rank]:
                return False
            self._waiting[turn.rank].remove(turn)
            return True

    def leave(self, turn: "Turn") -> None:
        """Make room for the next, unless that was done when the turn had been in for long."""
        with self._lock:
            now = self._now()
            took_s = now - turn.entered_at
            if took_s < HUNG_S:
                self._usual_s[turn.rank] += (took_s - self._usual_s[turn.rank]) / 8
            if turn in self._inside:
                self._inside.remove(turn)
                self._left_at = now
            entering = self._admit()
        _answer(entering)

    def _review(self) -> None:
        """Pass on the places of those that have been in for long."""
        with self._lock:
            self._reviewed = False
            entering = self._admit()
        _answer(entering)

    def _admit(self) -> list["Turn"]:
        """Return who enters now, and come back when the next one could. Under the lock."""
        now = self._now()
        entering: list[Turn] = []
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
            turn = queues[0].popleft()
            turn.entered_at = now
            self._inside.append(turn)
            entering.append(turn)
        return entering

    def _too_long_at(self, turn: "Turn") -> Instant:
        """Return from when on a turn that is in gives its place to others."""
        usual_s, since = self._usual_s[turn.rank], turn.entered_at
        calm_at = max(since, self._left_at) + max(PATIENCE_S, usual_s / 2)
        return min(calm_at, since + max(LONGEST_S, 2 * usual_s))

    def _come_back(self, seconds: float) -> None:
        if not self._reviewed:
            self._reviewed = True
            self._after(seconds, self._review)


class Turn:
    """A place in the gate's queue; whoever got the answer is in."""

    def __init__(self, gate: Gate, rank: int, asked_at: Instant) -> None:
        self._gate, self.rank, self.asked_at = gate, rank, asked_at
        self.entered_at: Instant = 0.0
        self.answer: Answer

    def begin(self, left_s: float, answer: Answer) -> Undo:  # noqa: ARG002 whose time is up is found out inside
        """Answer when the caller is in."""
        self.answer = answer
        self._gate.queue(self)

        def undo() -> None:
            if self._gate.give_up(self):
                answer(None, Failure(kind=FailureKind.CANCELLED, message="cancelled before it began"))

        return undo

    def leave(self) -> None:
        """Give the place back."""
        self._gate.leave(self)


def _answer(turns: list[Turn]) -> None:
    for turn in turns:
        turn.answer(None, None)
