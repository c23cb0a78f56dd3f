"""How many heavy calls the runtime is given at once.

A runtime that is asked for a hundred sandboxes at the same moment makes each of them later than one that is asked for a
few at a time: they share its locks, its disk and the machine's cores. Waiting ones enter by their rank, then in the
order of their coming: a pod that is nearly there does not wait behind all those that have not begun.
"""

import threading
from collections import deque

from api.errors import Failure, FailureKind
from api.ports import Undo
from runtime.drivers.cri.errand import Answer, nothing

HEAVY_AT_ONCE = 8
"""On two cores 40 pods took 1.53 s with 4 or 8, 1.63 s with 16, 1.74 s without a bound; more cores bear more than 4."""
START, CREATE, RUN = 0, 1, 2
"""Ranks: the later a step of a pod's start, the sooner it enters."""


class Gate:
    """Lets `bound` callers in; whoever is in calls `leave` once."""

    def __init__(self, bound: int = HEAVY_AT_ONCE) -> None:
        self._free = bound
        self._lock = threading.Lock()
        self._waiting: tuple[deque[Answer], ...] = tuple(deque() for _ in (START, CREATE, RUN))

    @property
    def waiting(self) -> int:
        """Return how many wait."""
        return sum(len(queue) for queue in self._waiting)

    def enter(self, rank: int) -> "Turn":
        """Return what to wait for before something heavy is begun."""
        return Turn(self, rank)

    def take(self, rank: int, answer: Answer) -> bool:
        """Let a caller in now, or keep its answer for when it is its turn."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            self._waiting[rank].append(answer)
            return False

    def give_up(self, rank: int, answer: Answer) -> bool:
        """Take a caller out of the queue; return whether it was still there."""
        with self._lock:
            if answer not in self._waiting[rank]:
                return False
            self._waiting[rank].remove(answer)
            return True

    def leave(self) -> None:
        """Make room for the next."""
        with self._lock:
            queue = next((queue for queue in self._waiting if queue), None)
            following = queue.popleft() if queue else None
            if following is None:
                self._free += 1
        if following is not None:
            following(None, None)


class Turn:
    """A place in the gate's queue; whoever got the answer is in."""

    def __init__(self, gate: Gate, rank: int) -> None:
        self._gate, self._rank = gate, rank

    def begin(self, left_s: float, answer: Answer) -> Undo:  # noqa: ARG002 whose time is up is found out inside
        """Answer when the caller is in."""
        if self._gate.take(self._rank, answer):
            answer(None, None)
            return nothing

        def undo() -> None:
            if self._gate.give_up(self._rank, answer):
                answer(None, Failure(kind=FailureKind.CANCELLED, message="cancelled before it began"))

        return undo
