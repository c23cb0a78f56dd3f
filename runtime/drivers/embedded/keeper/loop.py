"""The keeper's loop: one selector, and timers that cost nothing while none is due."""

from __future__ import annotations

import heapq
import selectors
import time
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

LONGEST_WAIT_S = 3600.0
"""A selector waits at most some 24 days; a later instant is checked again then."""


class KeeperLoop:
    """Calls back for ready descriptors and for timers."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0

    def watch(self, what: FileDescriptorLike, ready: Callable[[int], None]) -> None:
        """Call `ready` with the events of a descriptor, reading at first, until it is forgotten."""
        self._selector.register(what, selectors.EVENT_READ, ready)

    def watch_for(self, what: FileDescriptorLike, events: int) -> None:
        """Watch a descriptor for these events from now on."""
        key = self._selector.get_key(what)
        if key.events != events:
            self._selector.modify(what, events, key.data)

    def forget(self, what: FileDescriptorLike) -> None:
        """Stop watching a descriptor; raise KeyError if it was not watched."""
        self._selector.unregister(what)

    def at(self, instant: float, then: Callable[[], None]) -> None:
        """Call `then` once, at a monotonic instant."""
        self._numbers += 1
        heapq.heappush(self._timers, (instant, self._numbers, then))

    def turn(self) -> None:
        """Wait until something is ready or due, and call whom it concerns."""
        for key, mask in self._selector.select(self._timeout()):
            # An earlier callback may have closed it.
            if key.fd in self._selector.get_map():
                key.data(mask)
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()

    def _timeout(self) -> float | None:
        return min(max(0.0, self._timers[0][0] - time.monotonic()), LONGEST_WAIT_S) if self._timers else None
