"""A network in memory: the port ``net`` over peers that a test defines, or that are made up at the first call.

It is part of the world of a simulation and knows nothing of pods: who answers at an address is told by `peers`, a
function of host, port and the call, which may look at whatever it likes.
"""

import random
import threading
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import msgspec

from api.duration import write
from api.errors import Failure, FailureKind
from api.ports.net import (
    PLAIN_HTTP,
    REDIRECT_LIMIT,
    UNREACHED,
    AnyNetCall,
    GrpcAnswer,
    GrpcHealth,
    HttpAnswer,
    HttpGet,
    TcpConnect,
    TcpConnected,
    host_port,
)
from api.ports.port import Done, Timers, Undo


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The server at an address, and its answers."""

    status: int = 200
    body: bytes = b"ok"
    location: str = ""
    """Where a redirect leads."""
    serving: tuple[tuple[str, str], ...] = (("", "SERVING"),)
    """Service and its health, for gRPC; another service is not known."""
    grpc: bool = False
    """It serves gRPC, else HTTP."""
    tls: bool = False
    deaf: bool = False
    """It accepts connections and never answers."""
    dark: bool = False
    """It does not even take connections: what is sent there is lost."""
    takes_s: float = 0.0


Peers = Callable[[str, int, AnyNetCall], Peer | None]
"""Returns the server at an address now, None for none."""


class MemoryNet:
    """The port ``net``."""

    name = "net"

    def __init__(
        self,
        timers: Timers,
        *,
        seed: int = 0,
        peers: Peers | None = None,
        takes_s: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._timers, self._peers, self._takes_s = timers, peers or self._listening, takes_s
        self._random = random.Random(f"{seed}/net")  # noqa: S311  # a simulation repeats its seed
        self._known: dict[tuple[str, int], Peer] = {}
        self._lock = threading.Lock()
        self._numbers = 0
        self._waiting: dict[int, Done] = {}

    def listen(self, host: str, port: int, peer: Peer) -> None:
        """Put up a peer."""
        self._known[host, port] = peer

    def _listening(self, host: str, port: int, _call: AnyNetCall) -> Peer | None:
        return self._known.get((host, port))

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start a call; it is over within its `timeout_s`."""
        if not isinstance(call, AnyNetCall):
            raise TypeError(f"the port net takes no {type(call).__name__}")
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._waiting[number] = done
        now = self._timers.now()
        if isinstance(call, HttpGet) and call.scheme not in ("http", "https"):
            self._end(
                number, None, failed(FailureKind.REJECTED, f"{call.scheme}: only http and https are spoken")
            )
            return partial(self._cancel, number)
        takes_s, result, failure = self._conversation(call)
        limit_s = min(call.timeout_s, deadline_s)
        if result is None and failure is None:
            takes_s = limit_s
        takes_s += self._random.uniform(*self._takes_s)
        if takes_s >= limit_s:
            takes_s, result, failure = (
                limit_s,
                None,
                self._late(call, reached=result is not None or failure is None),
            )
        if takes_s <= 0:
            self._end(number, result, failure)
        else:
            self._timers.call_at(now + takes_s, partial(self._end, number, result, failure))
        return partial(self._cancel, number)

    def disconnect(self) -> None:
        """Forget the agent and what it waited for."""
        with self._lock:
            self._waiting.clear()

    def _conversation(self, call: AnyNetCall) -> tuple[float, msgspec.Struct | None, Failure | None]:
        """Return how long it takes and what comes of it; neither result nor failure: nothing, ever."""
        if isinstance(call, HttpGet):
            return self._follow(call)
        peer = self._peers(call.host, call.port, call)
        if peer is None:
            return 0.0, None, refused(call, call.host, call.port)
        if peer.dark or (peer.deaf and isinstance(call, GrpcHealth)):
            return 0.0, None, None
        if isinstance(call, TcpConnect):
            return peer.takes_s, TcpConnected(), None
        return peer.takes_s, *health(peer, call.service)

    def _follow(self, call: HttpGet) -> tuple[float, msgspec.Struct | None, Failure | None]:
        """Follow a GET over its redirects."""
        scheme, port, takes_s = call.scheme, call.port, 0.0
        for _ in range(REDIRECT_LIMIT):
            peer = self._peers(call.host, port, call)
            if peer is None:
                return takes_s, None, refused(call, call.host, port)
            if peer.dark or peer.deaf:
                return takes_s, None, None
            takes_s += peer.takes_s
            if peer.tls != (scheme == "https"):
                text = "EOF" if peer.tls else "http: server gave HTTP response to HTTPS client"
                reason = "" if peer.tls else PLAIN_HTTP
                return takes_s, None, failed(FailureKind.UNAVAILABLE, get(call, text), reason)
            onward = urlsplit(peer.location)
            if not peer.location or onward.hostname not in (None, call.host):
                body = peer.body[: call.limit_bytes]
                cut = len(peer.body) > len(body)
                return takes_s, HttpAnswer(status=peer.status, body=body, truncated=cut), None
            if onward.hostname:
                scheme, port = onward.scheme, onward.port or {"http": 80, "https": 443}[onward.scheme]
        text = get(call, f"stopped after {REDIRECT_LIMIT} redirects")
        return takes_s, None, failed(FailureKind.UNAVAILABLE, text)

    def _late(self, call: AnyNetCall, *, reached: bool) -> Failure:
        peer = self._peers(call.host, call.port, call)
        reached = reached and peer is not None and not peer.dark
        where = host_port(call.host, call.port)
        span = write(round(call.timeout_s * 1e9))
        match call:
            case TcpConnect():
                text = f"dial tcp {where}: i/o timeout"
            case GrpcHealth() if reached:
                text = f"timeout: health rpc did not complete within {span}"
            case GrpcHealth():
                text = (
                    f'timeout: failed to connect service "{where}" within {span}: context deadline exceeded'
                )
            case HttpGet():
                text = get(call, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
        return failed(FailureKind.TIMED_OUT, text, "" if reached else UNREACHED)

    def _cancel(self, number: int) -> None:
        self._end(number, None, failed(FailureKind.CANCELLED, "cancelled"))

    def _end(self, number: int, result: msgspec.Struct | None, failure: Failure | None) -> None:
        with self._lock:
            done = self._waiting.pop(number, None)
        if done is not None:
            done(result, failure)


def failed(kind: FailureKind, message: str, reason: str = "") -> Failure:
    """Return a failure."""
    return Failure(kind=kind, message=message, reason=reason)


def get(call: HttpGet, why: str) -> str:
    """Return why a GET failed."""
    path = call.path if call.path.startswith("/") else f"/{call.path}"
    return f'Get "{call.scheme}://{host_port(call.host, call.port)}{path}": {why}'


def refused(call: AnyNetCall, host: str, port: int) -> Failure:
    """Return the failure of a call to an address without a server."""
    where = host_port(host, port)
    text = f"dial tcp {where}: connect: connection refused"
    match call:
        case HttpGet():
            text = get(call, text)
        case GrpcHealth():
            text = f'error: failed to connect service at "{where}": {text}'
        case TcpConnect():
            pass
    return failed(FailureKind.UNAVAILABLE, text, UNREACHED)


def health(peer: Peer, service: str) -> tuple[msgspec.Struct | None, Failure | None]:
    """Return a peer's health of a service."""
    status = dict(peer.serving).get(service)
    if peer.grpc and status is not None:
        return GrpcAnswer(status=status), None
    if peer.grpc:
        text = "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
    else:
        text = "error: health rpc probe failed: rpc error: code = Unavailable desc = not gRPC"
    return None, failed(FailureKind.UNAVAILABLE, text)
