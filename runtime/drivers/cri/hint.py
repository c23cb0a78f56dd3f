"""The stream ``runtime.events``: which pods to look at. Hints only, never the truth."""

import threading
from collections.abc import Callable

from api.containers import RuntimeChanged
from api.errors import Failure
from api.ids import Uid
from api.messages import Message
from api.ports import Undo
from runtime.drivers.cri.poller import Poller

Push = Callable[[Message], None]
Ended = Callable[[Failure | None], None]
SOON_S = 0.25
"""How long hints of changes that are told otherwise too are gathered: one start of a pod makes five of them."""


class Hints:
    """Pushes `RuntimeChanged`: at once for what nobody else tells, a moment later for the rest."""

    name = "runtime.events"

    def __init__(self, poller: Poller, opened: Callable[[], None]) -> None:
        self._poller = poller
        self._opened = opened
        self._lock = threading.Lock()
        self._listeners: list[tuple[Push, Ended]] = []
        self._gathered: set[Uid] = set()

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
        """Say at once that something of a pod changed."""
        with self._lock:
            self._gathered.discard(uid)
            listeners = list(self._listeners)
        for push, _ in listeners:
            push(RuntimeChanged(uid=uid))

    def soon(self, uid: Uid) -> None:
        """Say within a moment that something of a pod changed, once for all changes until then."""
        with self._lock:
            if not self._listeners or uid in self._gathered:
                return
            self._gathered.add(uid)
        self._poller.after(SOON_S, lambda: self._due(uid))

    def end(self, failure: Failure) -> None:
        """Tell every listener that no more comes."""
        with self._lock:
            listeners, self._listeners = self._listeners, []
        for _, ended in listeners:
            ended(failure)

    def _due(self, uid: Uid) -> None:
        with self._lock:
            due = uid in self._gathered
        if due:
            self.now(uid)
