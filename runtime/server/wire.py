"""HTTP/1.1 as far as the agent needs it: one request per connection, every size and time bounded.

A connection carries one request and is closed after the answer: no pipelining, no chunked request bodies. h11 knows the
protocol; here are deadlines, limits, and which requests are taken. A head that does not arrive within its deadline ends the connection, however slowly it drips. A request
may request a protocol upgrade; a view that grants it answers with a `Tunnel`, which has the connection from then
on, and all others answer as if it had not been asked.
"""

import select
import socket
import time
from collections.abc import Iterator
from typing import Protocol
from urllib.parse import parse_qsl, unquote_to_bytes

import h11
import msgspec

from api.shortening import shortened

HEAD_LIMIT_BYTES = 16 << 10
SWITCHING, HEAD_TOO_LARGE = 101, 431
BODY_LIMIT_BYTES = 256 << 10
QUERY_LIMIT = 1024
"""Most parameters of a query: a command in a container is one per word. Their bytes are the head's."""
READ_S = 10.0
"""How long a client may take for its head, and again for its body."""
WRITE_S = 10.0
"""How long an answer may find no room in the client's socket."""
STREAM_WRITE_S = 600.0
"""The same for a followed log: its reader may scroll."""

PHRASES = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
HANDSHAKE = frozenset(
    {
        "upgrade",
        "x-stream-protocol-version",
        "sec-websocket-key",
        "sec-websocket-version",
        "sec-websocket-protocol",
        "sec-websocket-extensions",
    }
)
"""Headers by which two ends agree on another protocol: the only ones that are ever passed on."""

Headers = tuple[tuple[str, str], ...]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request, decoded."""

    method: str
    segments: tuple[str, ...]
    """The path's parts, percent-decoded; never empty, never a dot segment."""
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    hangup: int = -1
    """The connection's file descriptor, for answers that last until the client leaves."""
    upgrade: str = ""
    """The protocol of the upgrade request, as written; empty for none."""
    handshake: Headers = ()
    """The versions of that protocol, in the client's order; a name may occur more than once."""
    early: bytes = b""
    """What it sent in that protocol already, before it knew."""

    @property
    def path(self) -> str:
        """Return the path for people."""
        return "/" + "/".join(self.segments)

    def every(self, name: str) -> tuple[str, ...]:
        """Return all values of a query parameter."""
        return tuple(value for key, value in self.query if key == name)

    def last(self, name: str, default: str = "") -> str:
        """Return the last value of a query parameter."""
        values = self.every(name)
        return values[-1] if values else default


class Pieces(Protocol):
    """An answer of unknown length."""

    def __iter__(self) -> Iterator[bytes]:
        """Return the pieces as they come."""
        ...

    def close(self) -> None:
        """Release its resources."""
        ...


class Tunnel(Protocol):
    """The protocol that takes over a connection."""

    @property
    def headers(self) -> Headers:
        """Return what grants it."""
        ...

    def run(self, client: socket.socket) -> None:
        """Have the connection until it is over."""
        ...

    def close(self) -> None:
        """Release its resources."""
        ...


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: a whole body, pieces that are sent as they come, or a tunnel."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    pieces: Pieces | None = None
    tunnel: Tunnel | None = None
    allow: str = ""


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """What every failed request gets."""

    error: str
    """What failed, where and why."""
    reason: str
    """One CamelCase word for programs."""
    detail: str = ""
    """What to do, or more about it."""


class RequestRefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, reason: str, error: str, detail: str = "", *, allow: str = "") -> None:
        super().__init__(error)
        self.response = Response(
            status=status,
            body=msgspec.json.encode(ErrorBody(error=error, reason=reason, detail=detail)) + b"\n",
            allow=allow,
        )


class Exchange:
    """One request on a connection, and its answer; h11 reads and writes them.

    Raises OSError when the client is gone, or takes longer for an answer than its deadline.
    """

    def __init__(self, conn: socket.socket) -> None:
        self._conn = conn
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        self._asked_by = ""

    def read(self) -> Request | None:
        """Read the request; None when the client left without one. Raises `RequestRefusedError` for what is not one."""
        try:
            head = self._head()
            if head is None:
                return None
            method, target = request_line(head)
            self._asked_by = method
            body = self._body(head)
        except h11.RemoteProtocolError as error:
            raise refusal(error) from None
        segments, query = split(target)
        request = Request(
            method=method, segments=segments, query=query, body=body, hangup=self._conn.fileno()
        )
        upgrade = values(head, b"upgrade")
        wanted = [word.strip().lower() for value in values(head, b"connection") for word in value.split(",")]
        if "upgrade" not in wanted or not upgrade:
            return request
        return msgspec.structs.replace(
            request, upgrade=upgrade[-1], handshake=handshake(head), early=self._http.trailing_data[0]
        )

    def _head(self) -> h11.Request | None:
        deadline = time.monotonic() + READ_S
        while (event := self._http.next_event()) is h11.NEED_DATA:
            piece = self._receive(deadline, "head")
            if not piece and not self._http.trailing_data[0].strip():
                return None
            self._http.receive_data(piece)
        if not isinstance(event, h11.Request):
            return None
        # h11 limits a head that arrives in pieces; this one may have arrived at once.
        if (
            len(event.target) + sum(len(name) + len(value) for name, value in event.headers)
            > HEAD_LIMIT_BYTES
        ):
            raise too_large()
        return event

    def _body(self, head: h11.Request) -> bytes:
        if values(head, b"transfer-encoding"):
            raise RequestRefusedError(
                411, "LengthRequired", "send the body with a content-length, not in chunks"
            )
        length = (values(head, b"content-length") or ("0",))[-1]
        if int(length) > BODY_LIMIT_BYTES:
            raise RequestRefusedError(
                413, "BodyTooLarge", f"the request's body is over {BODY_LIMIT_BYTES} bytes"
            )
        if self._http.they_are_waiting_for_100_continue:
            self._send(self._http.send(h11.InformationalResponse(status_code=100, headers=[])), WRITE_S)
        deadline = time.monotonic() + READ_S
        parts = []
        while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                parts.append(bytes(event.data))
            elif event is h11.NEED_DATA:
                self._http.receive_data(self._receive(deadline, "body"))
        return b"".join(parts)

    def _receive(self, deadline: float, what: str) -> bytes:
        left = deadline - time.monotonic()
        if left > 0:
            self._conn.settimeout(left)
            try:
                return self._conn.recv(16 << 10)
            except TimeoutError:
                pass
            except OSError:
                return b""
        raise RequestRefusedError(
            408, "RequestTimeout", f"the request's {what} did not arrive within {READ_S:g} s"
        )

    def write(self, response: Response) -> None:
        """Send an answer; a body is left out where the request was a HEAD."""
        headers = [
            ("Content-Type", response.content_type),
            ("Connection", "close"),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        if response.allow:
            headers.append(("Allow", response.allow))
        if response.pieces is None:
            headers.append(("Content-Length", str(len(response.body))))
        head = self._http.send(
            h11.Response(status_code=response.status, reason=PHRASES[response.status], headers=headers)
        )
        if self._asked_by == "HEAD":
            self._send(head, WRITE_S)
            return
        if response.pieces is None:
            self._send(head + response.body, WRITE_S)
            return
        # The head is sent first: the reader of a quiet log sees at once that it works.
        self._send(head, WRITE_S)
        for piece in response.pieces:
            if piece:
                self._send(self._http.send(h11.Data(data=piece)), STREAM_WRITE_S)
        self._send(self._http.send(h11.EndOfMessage()), WRITE_S)

    def grant(self, tunnel: Tunnel) -> None:
        """Send the answer that grants a tunnel; the connection is the tunnel's from then on."""
        headers = [(name.encode(), value.encode("latin-1")) for name, value in tunnel.headers]
        self._send(
            self._http.send(
                h11.InformationalResponse(
                    status_code=SWITCHING, reason=b"Switching Protocols", headers=headers
                )
            ),
            WRITE_S,
        )

    def _send(self, data: bytes | None, patience_s: float) -> None:
        """Send all of `data`; the deadline counts from the last progress, not from the start of a long answer."""
        view = memoryview(data or b"")
        self._conn.settimeout(patience_s)
        while view:
            view = view[self._conn.send(view) :]


def refusal(error: h11.RemoteProtocolError) -> RequestRefusedError:
    """Return what answers bytes that are no request."""
    if error.error_status_hint == HEAD_TOO_LARGE:
        return too_large()
    return RequestRefusedError(400, "BadRequest", f"not an HTTP request: {shortened(str(error))}")


def too_large() -> RequestRefusedError:
    """Return what answers a head that is too large."""
    return RequestRefusedError(
        HEAD_TOO_LARGE, "HeadTooLarge", f"the request's head is over {HEAD_LIMIT_BYTES} bytes"
    )


def request_line(head: h11.Request) -> tuple[str, str]:
    """Return method and target. Raises `RequestRefusedError`."""
    if head.http_version not in {b"1.1", b"1.0"}:
        raise RequestRefusedError(505, "VersionNotSupported", "only HTTP/1.1 and HTTP/1.0 are supported")
    method, target = head.method.decode(), head.target.decode("latin-1")
    if method not in METHODS:
        raise RequestRefusedError(501, "NotImplemented", "the request's method is not supported")
    if not target.startswith("/"):
        raise RequestRefusedError(400, "BadRequest", "the request's target is not a path")
    return method, target


def values(head: h11.Request, name: bytes) -> tuple[str, ...]:
    """Return all values of a header, by its name in lower case."""
    return tuple(value.decode("latin-1") for key, value in head.headers if key == name)


def handshake(head: h11.Request) -> Headers:
    """Return the upgrade fields of a request."""
    pairs = ((name.decode(), value.decode("latin-1")) for name, value in head.headers)
    return tuple((name, value) for name, value in pairs if name in HANDSHAKE)


def split(target: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the parts of the path and of the query, decoded. Raises `RequestRefusedError`."""
    path, _, query = target.partition("?")
    segments = []
    for part in path[1:].split("/") if path != "/" else ():
        try:
            segment = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise RequestRefusedError(400, "BadPath", "the path is not UTF-8") from None
        # What is routed must be what was written: no second spelling of a path.
        if segment in {"", ".", ".."} or "/" in segment or any(ord(c) < 32 or ord(c) == 127 for c in segment):
            raise RequestRefusedError(
                400, "BadPath", "the path has an empty part, a dot part, an encoded slash or a control byte"
            )
        segments.append(segment)
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_LIMIT, errors="strict")
    except ValueError:
        raise RequestRefusedError(400, "BadQuery", "the query cannot be decoded") from None
    return tuple(segments), tuple(pairs)


def linger(conn: socket.socket, limit_s: float = 0.5) -> None:
    """Let the client read a refusal before the connection is torn down under what it is still sending."""
    deadline = time.monotonic() + limit_s
    taken = 0
    conn.shutdown(socket.SHUT_WR)
    while taken < 1 << 20 and (left := deadline - time.monotonic()) > 0:
        if not select.select([conn], [], [], left)[0]:
            return
        piece = conn.recv(64 << 10)
        if not piece:
            return
        taken += len(piece)
