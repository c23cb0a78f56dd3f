"""The port ``streams`` over a virtual world, which has no sockets: each call is refused."""

import msgspec

from api.errors import RejectedError
from api.ports.port import Done, Undo
from api.ports.streams import StreamCall


class MemoryStreams:
    """Commands with streams, refused in words."""

    name = "streams"

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:  # noqa: ARG002  # at once
        """Refuse a call."""
        if not isinstance(call, StreamCall):
            raise TypeError(f"the port streams takes no {type(call).__name__}")
        done(None, RejectedError("the memory runtime has no streams; leave -i and -t out").failure())
        return _refused


def _refused() -> None:
    """Take back what was never begun."""
