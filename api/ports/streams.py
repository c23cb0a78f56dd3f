"""Commands in containers whose input and output are a connection: the calls and results of the port ``streams``.

Each runtime has a driver for it, and one conformance suite holds them to this page. The bytes are in no message: a call
prepares a command, its result says where its streams are reached, and the caller connects there (`runtime.server.relay`).
Rules of the port:

- The URL of the streams is valid once and for a short time, and is a secret: its holder controls the command.
- A runtime without streams rejects every call, in words that say what to do without.
- Unknown container: NotFound. One that does not run: Conflict. A terminal has one output: with `stderr` it is Rejected.
"""

import msgspec

from api.ids import Uid


class StreamCall(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One call on the port ``streams``."""

    def brief(self) -> str:
        """Return one line for traces."""
        return type(self).__name__


class OpenExec(StreamCall, frozen=True, kw_only=True):
    """Prepare a command in a running container whose streams are reached over a URL -> StreamUrl.

    At least one of the streams is asked for; `tty` excludes `stderr`.
    """

    uid: Uid
    container_id: str
    command: tuple[str, ...]
    tty: bool = False
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True

    def brief(self) -> str:
        """Return one line for traces."""
        return f"OpenExec {self.container_id} {self.command[0] if self.command else ''}"


class StreamUrl(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Where the streams of a command are reached, once and soon: SPDY/3.1 or WebSocket by HTTP upgrade."""

    url: str

    def __repr__(self) -> str:
        # Whoever has it has the command.
        return "StreamUrl(url=<hidden>)"
