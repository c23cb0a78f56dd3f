"""How many heavy calls the runtime is given at once.

A runtime that is asked for a hundred sandboxes at the same moment makes each of them later than one that is asked for a
few at a time: they share its locks, its disk and the machine's cores. Waiting ones enter in the order of their coming.
"""

import threading
from collections import deque

from api.errors import Failure, FailureKind
from api.ports import Undo
from runtime.drivers.cri.errand import Answer, nothing

HEAVY_AT_ONCE = 8
"""Between the 4 and 16 that do best on small and large machines."""


class Gate:
    """Lets `bound` callers in; whoever is in calls `leave` once."""

    def __init__(self, bound: int = HEAVY_AT_ONCE) -> None:
        self._free = bound
        self._lock = threading.Lock()
        self._waiting: deque[Answer] = deque()

    @property
    def waiting(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def begin(self, left_s: float, answer: Answer) -> Undo:  # noqa: ARG002 whose time is up is found out inside
        """Answer when the caller is in."""
        with self._lock:
            enters = self._free > 0
            if enters:
                self._free -= 1
            else:
                self._waiting.append(answer)
        if enters:
            answer(None, None)
            return nothing

        def undo() -> None:
            with self._lock:
                waits = answer in self._waiting
                if waits:
                    self._waiting.remove(answer)
            if waits:
                answer(None, Failure(kind=FailureKind.CANCELLED, message="cancelled before it began"))

        return undo

    def leave(self) -> None:
        """Make room for the next."""
        with self._lock:
            following = self._waiting.popleft() if self._waiting else None
            if following is None:
                self._free += 1
        if following is not None:
            following(None, None)
