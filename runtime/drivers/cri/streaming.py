"""The port ``streams`` on the streaming server of a container runtime; see `api.ports.streams` for the rules that it keeps."""

import msgspec

from api.errors import OperatingError, RejectedError
from api.ports.port import Done, Undo
from api.ports.streams import OpenExec, StreamUrl
from runtime.drivers.cri import request
from runtime.drivers.cri.link import Channels
from runtime.drivers.cri.opencall import Steps, start_call
from runtime.drivers.cri.view import PodLister
from runtime.wire import cri
from runtime.wire.generated import cri_pb2 as pb


class CriStreams:
    """Commands with streams over CRI v1. Its connection is closed by who made it."""

    name = "streams"

    def __init__(self, link: Channels, view: PodLister) -> None:
        self._link, self._view = link, view

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start an `OpenExec`; the deadline is in seconds."""
        assert isinstance(call, OpenExec)
        return start_call(self._exec(call), deadline_s, done, what=call.brief(), cancellable=True)

    def _exec(self, call: OpenExec) -> Steps[StreamUrl]:
        """Exec: the runtime's streaming server gives a URL."""
        if call.tty and call.stderr:
            raise RejectedError("a TTY has no separate stderr; request it without stderr")
        identity = request.bare(call.container_id)
        message = pb.ExecRequest(
            container_id=identity,
            cmd=call.command,
            tty=call.tty,
            stdin=call.stdin,
            stdout=call.stdout,
            stderr=call.stderr,
        )
        try:
            reply = yield self._link.ask(cri.EXEC, message)
        except OperatingError as error:
            yield from self._view.raise_for_state(identity, error)
        return StreamUrl(url=reply.url)
