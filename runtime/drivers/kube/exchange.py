"""One request and its answer, whatever carries them."""

from collections.abc import Callable, Mapping

from api.errors import Failure, FailureKind

NOT_TAKEN = Failure(kind=FailureKind.UNAVAILABLE, message="the server did not take the request on")
"""It certainly did nothing, and works: as when it moves its clients to other servers, or lets us have fewer streams."""

Head = Callable[[int, Mapping[str, str]], None]
"""Receives the status and the headers, by their names in lower case."""
Data = Callable[[bytes], None]
End = Callable[[Failure | None], None]
"""Called once: None when the answer is complete."""


class ApiExchange:
    """A request and who receives its answer. Used on the loop's thread only."""

    def __init__(
        self,
        method: str,
        target: str,
        *,
        head: Head,
        data: Data,
        end: End,
        content_type: str = "",
        body: bytes = b"",
        lasting: bool = False,
    ) -> None:
        self.method, self.target, self.content_type, self.body = method, target, content_type, body
        self.prefix = ""
        """The path of the server's URL, which comes before each target."""
        self.head, self.data = head, data
        self._end: End | None = end
        self.lasting = lasting
        """A watch: it does not end by itself soon, and is ended when its connection is replaced."""
        self.sent = False
        """Part of it was written to a connection: the server may have carried it out."""
        self.leave: Callable[[], None] | None = None
        """Takes it back from the connection that carries it."""

    @property
    def over(self) -> bool:
        """Return whether it has ended."""
        return self._end is None

    def end(self, failure: Failure | None) -> None:
        """End it, once."""
        end, self._end, self.leave = self._end, None, None
        if end is not None:
            end(failure)

    def cancel(self) -> None:
        """Take it back; no one is called any more."""
        leave, self._end, self.leave = self.leave, None, None
        if leave is not None:
            leave()
