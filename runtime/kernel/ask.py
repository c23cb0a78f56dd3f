"""Questions from outside the tree: each has a reply path of its own, and what is sent there is its answer."""

from threading import Lock

from api.ids import Path
from api.messages import Message

ASK = "/ask/"


class Reply:
    """The place of one answer."""

    __slots__ = ("answer", "cause", "here", "target")

    def __init__(self, here: Path, target: Path) -> None:
        self.here, self.target = here, target
        self.answer: Message | None = None
        self.cause: str | None = None
        """What the asked actor died of, when it did before it answered."""

    @property
    def settled(self) -> bool:
        """Return whether there is nothing to wait for."""
        return self.answer is not None or self.cause is not None


class Replies:
    """The replies that are waited for; any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[Path, Reply] = {}
        self._asked = 0

    def expect(self, target: Path) -> Reply:
        """Open a place for the answer of the actor at `target`."""
        with self._lock:
            self._asked += 1
            reply = Reply(Path(f"{ASK}{self._asked}"), target)
            self._open[reply.here] = reply
            return reply

    def answer(self, path: Path, message: Message) -> bool:
        """Take an answer sent to `path`; return whether it was still waited for."""
        with self._lock:
            reply = self._open.pop(path, None)
        if reply is None:
            return False
        reply.answer = message
        return True

    def target_died(self, target: Path, cause: str) -> None:
        """End the wait for the answers of an actor that is dead."""
        with self._lock:
            for reply in self._open.values():
                if reply.target == target:
                    reply.cause = cause

    def forget(self, reply: Reply) -> None:
        """Wait no longer."""
        with self._lock:
            self._open.pop(reply.here, None)
