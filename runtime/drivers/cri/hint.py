"""The stream ``runtime.events``: which pods to inspect. Hints only, never the result itself."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from api.errors import Failure
from api.ids import Instant, Uid
from api.messages import Message
from api.ports.port import Undo
from api.ports.runtime import RuntimeChanged
from runtime.net.loop import Loop

Push = Callable[[Message], None]
Ended = Callable[[Failure | None], None]
SOON_S = 1.0
"""For how long nothing more must have changed of a pod before changes that may be our own are hinted at.

One start of a pod makes five of them, on a busy runtime seconds apart.
"""


@dataclass(slots=True)
class Gathered:
    """Changes of one pod that are hinted at together."""

    due_at: Instant


class Hints:
    """Pushes `RuntimeChanged`: at once for an end, when a pod has come to rest for what may be our own doing."""

    name = "runtime.events"

    def __init__(self, loop: Loop, opened: Callable[[], None]) -> None:
        self._loop = loop
        self._opened = opened
        self._lock = threading.Lock()
        self._listeners: list[tuple[Push, Ended]] = []
        self._gathered: dict[Uid, Gathered] = {}

    def open(self, push: Push, ended: Ended) -> Undo:
        """Begin to feed `push`, on any thread."""
        entry = (push, ended)
        with self._lock:
            self._listeners.append(entry)
        self._opened()

        def undo() -> None:
            with self._lock:
                self._listeners = [known for known in self._listeners if known is not entry]

        return undo

    def now(self, uid: Uid) -> None:
        """Send at once that something of a pod changed."""
        with self._lock:
            self._gathered.pop(uid, None)
            listeners = list(self._listeners)
        for push, _ in listeners:
            push(RuntimeChanged(uid=uid))

    def soon(self, uid: Uid) -> None:
        """Send that something of a pod changed after `SOON_S` without a change, once for all changes until then."""
        with self._lock:
            known = self._gathered.get(uid)
            if known is not None:
                known.due_at = time.monotonic() + SOON_S
            if not self._listeners or known is not None:
                return
            gathered = self._gathered[uid] = Gathered(due_at=time.monotonic() + SOON_S)
        self._loop.after(SOON_S, lambda: self._due(uid, gathered))

    def end(self, failure: Failure) -> None:
        """End the stream for every subscriber."""
        with self._lock:
            listeners, self._listeners = self._listeners, []
        for _, ended in listeners:
            ended(failure)

    def _due(self, uid: Uid, gathered: Gathered) -> None:
        with self._lock:
            if self._gathered.get(uid) is not gathered:
                return
            left_s = gathered.due_at - time.monotonic()
        if left_s > 0:
            self._loop.after(left_s, lambda: self._due(uid, gathered))
        else:
            self.now(uid)
