"""Carries an upgraded connection between a client and the container runtime's streaming endpoint, byte for byte.

```text
client --request with Upgrade--> agent --the same handshake, with the runtime's URL--> runtime
client <------ 101 ------------- agent <------------------- 101 ---------------------- runtime
client <=====================> relay <==============================================> runtime
```

Nothing in between is interpreted, so whatever two ends agree on (SPDY, WebSocket, any version of theirs) goes through.
What is under way is bounded in both directions: who does not read is not read for. An end of one direction is passed
on as such (half-close); the relay ends when both directions have, when one side is gone, or when nothing moved for
`IDLE_S`.
"""

import contextlib
import select
import socket
import time
from urllib.parse import urljoin, urlsplit

import h11
import msgspec

from api.errors import RejectedError, UnavailableError
from runtime.server.wire import Headers, Request

CONNECT_S = 10.0
"""How long the runtime may take to accept a connection, and again to answer the handshake."""
IDLE_S = 4 * 3600.0
"""How long nothing may move before both sides are ended: what the runtimes themselves allow."""
LINGER_S = 60.0
"""The same after the runtime has ended its direction."""
WAY_BYTES = 64 << 10
"""Most bytes under way in one direction."""
HEAD_LIMIT_BYTES = 16 << 10
SWITCHING = 101
ANSWER_HEADERS = frozenset(
    {
        "connection",
        "upgrade",
        "x-stream-protocol-version",
        "sec-websocket-accept",
        "sec-websocket-protocol",
        "sec-websocket-extensions",
    }
)


class Relay:
    """An accepted handshake: `headers` are the runtime's answer for the client, `run` carries what follows."""

    def __init__(self, runtime: socket.socket, headers: Headers, early: bytes, rest: bytes) -> None:
        self._runtime, self.headers, self._early, self._rest = runtime, headers, early, rest

    def run(self, client: socket.socket, *, idle_s: float = IDLE_S) -> None:
        """Carry bytes both ways until it is over; both sockets are ended then."""
        there = _Way(source=client, sink=self._runtime, bytes_=bytearray(self._early))
        back = _Way(source=self._runtime, sink=client, bytes_=bytearray(self._rest))
        for sock in (client, self._runtime):
            sock.setblocking(False)
        try:
            _carry(there, back, idle_s)
        finally:
            self.close()

    def close(self) -> None:
        """End the connection to the runtime."""
        self._runtime.close()


def open_relay(url: str, request: Request, *, host: str = "127.0.0.1") -> Relay:
    """Make the client's handshake with the runtime at `url`; a relative URL is resolved against `host`.

    No error contains the URL itself: it gives access to the command. Raises `RejectedError` for a URL that is not
    plain HTTP, `UnavailableError` when the connection is refused or the answer is no upgrade.
    """
    try:
        parts = urlsplit(urljoin(f"http://{host}/", url))
        address = (parts.hostname or "", parts.port or 80)
    except ValueError:
        parts, address = urlsplit(""), ("", 0)
    if parts.scheme != "http" or not address[0]:
        raise RejectedError(
            "the streaming address of the container runtime must be plain http; "
            "switch TLS of its streaming server off (containerd: enable_tls_streaming = false)"
        )
    where = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    try:
        sock = socket.create_connection(address, CONNECT_S)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UnavailableError(
            f"the container runtime's streaming endpoint {where} cannot be reached: {why}"
        ) from None
    try:
        # A terminal sends single keys; none of them is to wait for company.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        sock.sendall(_handshake(http, request, target, where))
        headers = read_answer(http, sock, where, request.upgrade)
    except OSError as error:
        sock.close()
        raise UnavailableError(
            f"the container runtime's streaming endpoint {where} did not answer:"
            f" {error.strerror or type(error).__name__}"
        ) from None
    except BaseException:
        sock.close()
        raise
    return Relay(sock, headers, request.early, http.trailing_data[0])


class _Way(msgspec.Struct):
    """One direction."""

    source: socket.socket
    sink: socket.socket
    bytes_: bytearray
    ended: bool = False
    """The source sent end of file."""
    over: bool = False
    """All has arrived, or never will."""

    def wants_input(self) -> bool:
        return not self.ended and len(self.bytes_) < WAY_BYTES

    def wants_output(self) -> bool:
        return bool(self.bytes_) and not self.over

    def drop(self) -> None:
        """Give up: its sink takes nothing any more."""
        self.bytes_.clear()
        self.ended = self.over = True

    def read(self) -> None:
        try:
            piece = self.source.recv(WAY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        self.ended = not piece
        self.bytes_ += piece

    def write(self) -> None:
        try:
            sent = self.sink.send(self.bytes_)
        except BlockingIOError:
            return
        except OSError:
            self.drop()
            return
        del self.bytes_[:sent]

    def pass_end_on(self) -> None:
        if self.ended and not self.bytes_ and not self.over:
            self.over = True
            with contextlib.suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)


def _carry(there: _Way, back: _Way, idle_s: float) -> None:
    gone: set[int] = set()
    moved_at = time.monotonic()
    while not (there.over and back.over):
        # After the runtime's end of file only the client's is outstanding.
        limit_s = min(idle_s, LINGER_S) if back.over else idle_s
        left = moved_at + limit_s - time.monotonic()
        if left <= 0:
            return
        found = dict(_poll_of(there, back, gone).poll(left * 1000))
        if found:
            moved_at = time.monotonic()
        for out, into in ((there, back), (back, there)):
            _serve(out, into, found.get(out.source.fileno(), 0), gone)
        for way in (there, back):
            way.pass_end_on()


def _poll_of(there: _Way, back: _Way, gone: set[int]) -> select.poll:
    poll = select.poll()
    for out, into in ((there, back), (back, there)):
        mask = select.POLLIN if out.wants_input() else 0
        mask |= select.POLLOUT if into.wants_output() else 0
        # One that has hung up reports so for ever, so it is asked only while there is something to take from it.
        if mask or out.source.fileno() not in gone:
            poll.register(out.source, mask)
    return poll


def _serve(out: _Way, into: _Way, seen: int, gone: set[int]) -> None:
    """Read from and write to one socket: `out` carries received bytes, `into` bytes to send."""
    hangup = seen & (select.POLLHUP | select.POLLERR | select.POLLNVAL)
    if hangup:
        gone.add(out.source.fileno())
    if (hangup or seen & select.POLLIN) and out.wants_input():
        out.read()
    if seen & select.POLLOUT and into.wants_output():
        into.write()
    if hangup and not into.over:
        into.drop()


def _handshake(http: h11.Connection, request: Request, target: str, where: str) -> bytes:
    headers = [("Host", where), ("Connection", "Upgrade"), *request.handshake]
    if request.method == "POST":
        headers.append(("Content-Length", "0"))
    return http.send(
        h11.Request(
            method=request.method,
            target=target,
            headers=[(k.encode(), v.encode("latin-1")) for k, v in headers],
        )
    ) + http.send(h11.EndOfMessage())


def read_answer(http: h11.Connection, sock: socket.socket, where: str, upgrade: str) -> Headers:
    """Return those headers of the runtime's answer that are the client's."""
    endpoint = f"the container runtime's streaming endpoint {where}"
    deadline = time.monotonic() + CONNECT_S
    try:
        while (event := http.next_event()) is h11.NEED_DATA:
            left = deadline - time.monotonic()
            if left <= 0:
                raise UnavailableError(f"{endpoint} sent an invalid HTTP answer")
            sock.settimeout(left)
            piece = sock.recv(16 << 10)
            if not piece:
                raise UnavailableError(f"{endpoint} ended the connection without an answer")
            http.receive_data(piece)
    except h11.RemoteProtocolError:
        raise UnavailableError(f"{endpoint} sent an invalid HTTP answer") from None
    assert isinstance(event, h11.InformationalResponse | h11.Response)
    if event.status_code != SWITCHING:
        raise UnavailableError(
            f"{endpoint} answered {event.status_code} instead of switching to {upgrade}:"
            " the command may have expired; retry"
        )
    pairs = ((name.decode(), value.decode("latin-1")) for name, value in event.headers.raw_items())
    return tuple((name, value) for name, value in pairs if name.lower() in ANSWER_HEADERS)
