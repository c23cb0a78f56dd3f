"""The port ``net``: GETs, connections and health checks, all on one thread that starts with the first of them."""

import socket
import threading
from functools import partial

import msgspec

from api.duration import write
from api.errors import Failure, FailureKind
from api.ports.net import GrpcAnswer, GrpcHealth, HttpGet, TcpConnect, TcpConnected, host_port
from api.ports.port import Done, Undo
from runtime.drivers.net.conversation import Conversation, OnBug
from runtime.drivers.net.httpget import HttpConversation
from runtime.net.loop import Loop
from runtime.net.resolver import Resolver

PATIENCE_S = 1.0
AGENT = "kube-probe/1.36"


class TcpConversation(Conversation):
    """Connect, and hang up."""

    def __init__(
        self, loop: Loop, resolver: Resolver, call: TcpConnect, timeout_s: float, done: Done, on_bug: OnBug
    ) -> None:
        super().__init__(loop, resolver, timeout_s, done, on_bug)
        self._call = call

    def begin(self) -> None:
        """Begin."""
        self.start(self._call.host, self._call.port)

    def reached(self, sock: socket.socket) -> None:  # noqa: ARG002  # that it is there is all that was asked
        """End."""
        self.succeed(TcpConnected())

    def late(self) -> str:
        """Return a kubelet's text."""
        return f"dial tcp {self.place}: i/o timeout"


class GrpcConversation(Conversation):
    """See whether anybody is there, and leave the rest to gRPC, which is not even loaded for a server that is away."""

    def __init__(
        self, loop: Loop, resolver: Resolver, call: GrpcHealth, timeout_s: float, done: Done, on_bug: OnBug
    ) -> None:
        super().__init__(loop, resolver, timeout_s, done, on_bug)
        self._call = call
        self._cancel: Undo | None = None
        self._close: Undo | None = None

    def begin(self) -> None:
        """Begin."""
        self.start(self._call.host, self._call.port)

    def reached(self, sock: socket.socket) -> None:  # noqa: ARG002  # gRPC makes a connection of its own
        """Ask."""
        from runtime.wire import health  # noqa: PLC0415  # gRPC costs memory that most agents need not spend

        place = self.place
        self.leave()
        self._cancel, self._close = health.check(
            place, self._call.service, self.timeout_s, AGENT, self._answered
        )

    def _answered(self, status: str, failure: Failure | None) -> None:
        """Take gRPC's word, on its thread."""
        if failure is not None:
            self.submit(partial(self.fail, failure.kind, failure.message, failure.reason))
        else:
            self.submit(partial(self.succeed, GrpcAnswer(status=status)))

    def leave(self) -> None:
        """Close both connections."""
        super().leave()
        cancel, close, self._cancel, self._close = self._cancel, self._close, None, None
        if cancel is not None and close is not None:
            cancel()
            close()

    def late(self) -> str:
        """Return a kubelet's text."""
        if self.is_reached:
            return f"timeout: health rpc did not complete within {span(self.timeout_s)}"
        where = host_port(self._call.host, self._call.port)
        return f'timeout: failed to connect service "{where}" within {span(self.timeout_s)}: context deadline exceeded'

    def unreached(self, why: str) -> str:
        """Return a kubelet's text."""
        where = host_port(self._call.host, self._call.port)
        return f'error: failed to connect service at "{where}": {why}'


class Network:
    """The port ``net``."""

    name = "net"

    def __init__(self, on_bug: OnBug = lambda _what, _error: None) -> None:
        self._on_bug = on_bug
        self._lock = threading.Lock()
        self._loop: Loop | None = None
        self._resolver = Resolver()
        self._closed = False

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start a call; it is over within its `timeout_s`."""
        loop = self._running()
        if loop is None:
            done(None, Failure(kind=FailureKind.CANCELLED, message="the agent is stopping"))
            return _nothing
        conversation: HttpConversation | TcpConversation | GrpcConversation
        bug = self._on_bug
        match call:
            case HttpGet(timeout_s=timeout_s):
                if call.scheme not in ("http", "https"):
                    text = f"{call.scheme}://{call.host}: only http and https are supported"
                    done(None, Failure(kind=FailureKind.REJECTED, message=text))
                    return _nothing
                conversation = HttpConversation(
                    loop, self._resolver, call, min(timeout_s, deadline_s), done, bug
                )
            case TcpConnect(timeout_s=timeout_s):
                conversation = TcpConversation(
                    loop, self._resolver, call, min(timeout_s, deadline_s), done, bug
                )
            case GrpcHealth(timeout_s=timeout_s):
                conversation = GrpcConversation(
                    loop, self._resolver, call, min(timeout_s, deadline_s), done, bug
                )
            case _:
                raise TypeError(f"the port net takes no {type(call).__name__}")
        loop.submit(conversation.begin)
        return conversation.cancel

    def close(self) -> None:
        """End the thread; what is under way is left."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop(PATIENCE_S)

    def _running(self) -> Loop | None:
        """Return the loop, started with the first call; one that ended by a bug is replaced."""
        with self._lock:
            if self._closed:
                return None
            if self._loop is None:
                self._loop = Loop("net", self._lost)
            return self._loop

    def _lost(self) -> None:
        with self._lock:
            self._loop = None


def span(seconds: float) -> str:
    """Return a time as Go writes it."""
    return write(round(seconds * 1e9))


def _nothing() -> None:
    """Take back what never began."""
