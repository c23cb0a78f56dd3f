"""The port ``streams`` on the embedded runtime, which has none yet: each call is refused at once."""

import msgspec

from api.errors import RejectedError
from api.ports.port import Done, Undo
from api.ports.streams import StreamCall


class EmbeddedStreams:
    """Commands with streams, refused in words."""

    name = "streams"

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:  # noqa: ARG002  # at once
        """Refuse a call."""
        assert isinstance(call, StreamCall)
        done(
            None,
            RejectedError("the embedded runtime does not support streaming yet; remove -i and -t").failure(),
        )
        return _refused


def _refused() -> None:
    """Take back what was never begun."""
