"""HTTP/1.1 as far as the agent needs it: one request per connection, every size and time bounded.

A connection carries one request and is closed after the answer: no pipelining, no chunked request bodies, so none of
their mistakes. A head that does not arrive within its deadline ends the connection, however slowly it drips. A request
may ask to go on in another protocol; a view that grants it answers with a `Tunnel`, which has the connection from then
on, and all others answer as if it had not been asked.
"""

import select
import socket
import time
from collections.abc import Iterator
from typing import Protocol
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

HEAD_LIMIT_BYTES = 16 << 10
BODY_LIMIT_BYTES = 256 << 10
QUERY_LIMIT = 1024
"""Most parameters of a query: a command in a container is one per word. Their bytes are the head's."""
READ_S = 10.0
"""How long a client may take for its head, and again for its body."""
WRITE_S = 10.0
"""How long an answer may find no room in the client's socket."""
STREAM_WRITE_S = 600.0
"""The same for a followed log: its reader may be somebody who scrolls."""

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
    """The connection's file descriptor, for answers that go on until the client leaves."""
    upgrade: str = ""
    """The protocol that the client wants to go on with, as it wrote it; empty for none."""
    handshake: Headers = ()
    """What it said about that protocol, in its order; a name may come more than once."""
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
        """Give back what it holds."""
        ...


class Tunnel(Protocol):
    """Another protocol that a connection goes on with."""

    @property
    def head(self) -> bytes:
        """Return the answer that grants it."""
        ...

    def run(self, client: socket.socket) -> None:
        """Have the connection until it is over."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
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


def read_request(conn: socket.socket) -> Request | None:
    """Read one request; None when the client left without one. Raises `RequestRefusedError` for what is not one."""
    head, rest = _read_head(conn)
    if not head:
        return None
    lines = head.decode("latin-1").split("\r\n" if b"\r\n" in head else "\n")
    method, target = _request_line(lines[0])
    headers = _headers(lines[1:])
    body, early = _read_body(conn, headers, rest)
    segments, query = _split(target)
    request = Request(method=method, segments=segments, query=query, body=body, hangup=conn.fileno())
    wanted = [word.strip().lower() for word in headers.get("connection", "").split(",")]
    if "upgrade" not in wanted or not headers.get("upgrade"):
        return request
    return msgspec.structs.replace(
        request, upgrade=headers["upgrade"], handshake=_handshake(lines[1:]), early=early
    )


def _receive(conn: socket.socket, deadline: float, what: str) -> bytes:
    left = deadline - time.monotonic()
    if left > 0:
        conn.settimeout(left)
        try:
            return conn.recv(16 << 10)
        except TimeoutError:
            pass
        except OSError:
            return b""
    raise RequestRefusedError(
        408, "RequestTimeout", f"the request's {what} did not arrive within {READ_S:g} s"
    )


def _read_head(conn: socket.socket) -> tuple[bytes, bytes]:
    deadline = time.monotonic() + READ_S
    data = b""
    while True:
        for end in (b"\r\n\r\n", b"\n\n"):
            at = data.find(end)
            if 0 <= at <= HEAD_LIMIT_BYTES:
                return data[:at], data[at + len(end) :]
        if len(data) > HEAD_LIMIT_BYTES:
            raise RequestRefusedError(
                431, "HeadTooLarge", f"the request's head is over {HEAD_LIMIT_BYTES} bytes"
            )
        piece = _receive(conn, deadline, "head")
        if not piece:
            if data.strip():
                raise RequestRefusedError(400, "BadRequest", "the request ended in the middle of its head")
            return b"", b""
        data += piece


def _request_line(line: str) -> tuple[str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/"):
        raise RequestRefusedError(400, "BadRequest", "the first line is not an HTTP request")
    method, target, version = parts
    if version not in {"HTTP/1.1", "HTTP/1.0"}:
        raise RequestRefusedError(505, "VersionNotSupported", "only HTTP/1.1 and HTTP/1.0 are spoken here")
    if method not in METHODS:
        raise RequestRefusedError(501, "NotImplemented", "the request's method is not known here")
    if not target.startswith("/"):
        raise RequestRefusedError(400, "BadRequest", "the request's target is not a path")
    return method, target


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not key or key != key.strip() or "\0" in value:
            raise RequestRefusedError(400, "BadRequest", "a header line is not of the form 'name: value'")
        if key == "content-length" and headers.get(key, value.strip()) != value.strip():
            raise RequestRefusedError(400, "BadRequest", "two different content-length headers")
        headers[key] = value.strip()
    return headers


def _handshake(lines: list[str]) -> Headers:
    pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    found = tuple((name, value) for name, value in pairs if name in HANDSHAKE)
    for name, value in found:
        # They are passed on: what could end a line there must not pass here.
        if any(ord(c) < 32 or ord(c) == 127 for c in value):
            raise RequestRefusedError(400, "BadRequest", f"the header {name} holds a control byte")
    return found


def _read_body(conn: socket.socket, headers: dict[str, str], rest: bytes) -> tuple[bytes, bytes]:
    """Return the body, and what came behind it."""
    if "transfer-encoding" in headers:
        raise RequestRefusedError(411, "LengthRequired", "send the body with a content-length, not in chunks")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise RequestRefusedError(400, "BadRequest", "content-length is not a number")
    if len(text) > 12 or int(text) > BODY_LIMIT_BYTES:
        raise RequestRefusedError(413, "BodyTooLarge", f"the request's body is over {BODY_LIMIT_BYTES} bytes")
    length = int(text)
    if headers.get("expect", "").lower() == "100-continue" and len(rest) < length:
        _send(conn, b"HTTP/1.1 100 Continue\r\n\r\n", WRITE_S)
    deadline = time.monotonic() + READ_S
    while len(rest) < length:
        piece = _receive(conn, deadline, "body")
        if not piece:
            raise RequestRefusedError(400, "BadRequest", "the request ended in the middle of its body")
        rest += piece
    return rest[:length], rest[length:]


def _split(target: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
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


def write_response(conn: socket.socket, response: Response, *, head_only: bool = False) -> None:
    """Send an answer. Raises OSError when the client is gone or takes longer than its deadline."""
    lines = [
        f"HTTP/1.1 {response.status} {PHRASES[response.status]}",
        f"Content-Type: {response.content_type}",
        "Connection: close",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
    ]
    if response.allow:
        lines.append(f"Allow: {response.allow}")
    if response.pieces is None:
        lines.append(f"Content-Length: {len(response.body)}")
    else:
        lines.append("Transfer-Encoding: chunked")
    head = "\r\n".join([*lines, "", ""]).encode()
    if response.pieces is None or head_only:
        _send(conn, head if head_only else head + response.body, WRITE_S)
        return
    # The head goes out first: whoever follows a quiet log is to see at once that it works.
    _send(conn, head, WRITE_S)
    for piece in response.pieces:
        if piece:
            _send(conn, b"%x\r\n%b\r\n" % (len(piece), piece), STREAM_WRITE_S)
    _send(conn, b"0\r\n\r\n", WRITE_S)


def send_head(conn: socket.socket, head: bytes) -> None:
    """Send the answer that grants a tunnel. Raises OSError when the client is gone or does not take it in time."""
    _send(conn, head, WRITE_S)


def _send(conn: socket.socket, data: bytes, patience_s: float) -> None:
    """Send all of `data`; the deadline counts from the last progress, not from the start of a long answer."""
    view = memoryview(data)
    conn.settimeout(patience_s)
    while view:
        view = view[conn.send(view) :]


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
