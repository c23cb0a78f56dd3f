"""Streams in memory: what the world pushes, every listener hears, until the stream is cut."""

from collections.abc import Callable

from api.errors import Failure
from api.messages import Message
from api.ports.port import Undo


class MemoryStream:
    """A stream of this name; everything pushed reaches all who listen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._listeners: dict[int, tuple[Callable[[Message], None], Callable[[Failure | None], None]]] = {}
        self._count = 0

    def open(self, push: Callable[[Message], None], ended: Callable[[Failure | None], None]) -> Undo:
        """Feed `push` until the returned undo is called, or until `cut`."""
        self._count += 1
        number = self._count
        self._listeners[number] = (push, ended)

        def close() -> None:
            self._listeners.pop(number, None)

        return close

    def push(self, item: Message) -> None:
        """Bring an item to every listener."""
        for push, _ in tuple(self._listeners.values()):
            push(item)

    def cut(self, failure: Failure | None = None) -> None:
        """End the stream for all who listen, as a runtime that restarts does."""
        listeners, self._listeners = tuple(self._listeners.values()), {}
        for _, ended in listeners:
            ended(failure)

    def forget_listeners(self) -> None:
        """Drop all listeners without a word: they died."""
        self._listeners = {}
