"""An HTTP GET without sockets: the request's bytes, and a reader of the answer that keeps only its beginning."""

import contextlib
from urllib.parse import quote, urljoin, urlsplit

import h11
import msgspec

from api.ports.confinement import Pairs
from api.ports.net import host_port
from api.shortening import shortened

HEAD_LIMIT_BYTES = 64 << 10
INTERIM_LIMIT = 5
"""Most interim answers (1xx) before the final one, as Go's client takes them."""
VERSION = b"HTTP/"
LINE_END = b"\r\n"
BEGINNING_BYTES = 64
SHOWN_BYTES = 128
TOO_LARGE = 431
"""What h11 would answer to a head that is too large, were it a server."""
DEFAULT_PORT = {"http": 80, "https": 443}
FOLLOWED = (301, 302, 303, 307, 308)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a GET goes."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """Return it as people write it."""
        return f"{self.scheme}://{host_port(self.host, self.port)}{self.path}"


class MalformedError(Exception):
    """What came is not HTTP."""


def following(target: Target, location: str) -> Target | None:
    """Return where a redirect leads, None when that is not on the same host or not HTTP."""
    try:
        parts = urlsplit(urljoin(target.url, location))
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORT or host.lower() != target.host.lower():
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme=parts.scheme, host=target.host, port=port or DEFAULT_PORT[parts.scheme], path=path)


class GetExchange:
    """One GET and its answer, of whose body it keeps `limit_bytes`. `request` is what goes out.

    Raises `ValueError` for a header that would not stay on its line.
    """

    def __init__(self, target: Target, headers: Pairs, limit_bytes: int) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        self.request = self._http.send(request_of(target, headers)) + self._http.send(h11.EndOfMessage())
        self._room = limit_bytes
        self.status = 0
        """0 until the head is there."""
        self.headers: dict[str, str] = {}
        self._interim = 0
        self._begins = b""
        self._parts: list[bytes] = []
        self.truncated = False
        self.complete = False

    @property
    def body(self) -> bytes:
        """Return what was kept of the body."""
        return b"".join(self._parts)

    def feed(self, data: bytes) -> None:
        """Take in what came. Raises `MalformedError`."""
        self._check_beginning(data)
        try:
            self._http.receive_data(data)
            while not self.complete and (event := self._http.next_event()) is not h11.NEED_DATA:
                self._take(event)
        except h11.RemoteProtocolError as error:
            raise MalformedError(self._text(error)) from None

    def end(self) -> bool:
        """Absorb the end of the stream; return whether the answer is complete."""
        if self.status and not self.complete:
            with contextlib.suppress(h11.RemoteProtocolError):
                self._http.receive_data(b"")
                self.complete = isinstance(self._http.next_event(), h11.EndOfMessage)
        return self.complete

    def _check_beginning(self, data: bytes) -> None:
        """Know at once what can never become an answer, which may have no line at all."""
        if self.status or len(self._begins) >= BEGINNING_BYTES:
            return
        self._begins += data[: BEGINNING_BYTES - len(self._begins)]
        version = self._begins[: len(VERSION)]
        if version != VERSION[: len(version)]:
            raise MalformedError(f"malformed HTTP response {shown(self._begins)}")

    def _take(self, event: object) -> None:
        match event:
            case h11.InformationalResponse():
                self._interim += 1
                if self._interim > INTERIM_LIMIT:
                    raise MalformedError("net/http: too many 1xx informational responses")
            case h11.Response():
                for name, value in event.headers:
                    self.headers.setdefault(name.decode("latin-1"), value.decode("latin-1"))
                self.status = event.status_code
            case h11.Data():
                part = bytes(event.data[: self._room])
                self._parts.append(part)
                self._room -= len(part)
                self.complete = self.truncated = len(part) < len(event.data)
            case _:
                self.complete = True

    def _text(self, error: h11.RemoteProtocolError) -> str:
        if error.error_status_hint == TOO_LARGE and not self.status:
            return f"server response headers exceeded {HEAD_LIMIT_BYTES} bytes; aborted"
        if self.status:
            return f"malformed HTTP body: {shortened(str(error), SHOWN_BYTES)}"
        why = shortened(str(error), SHOWN_BYTES).partition(": bytearray")[0]
        return f"malformed HTTP response {shown(self._begins.partition(LINE_END)[0])}: {why}"


def request_of(target: Target, headers: Pairs) -> h11.Request:
    """Return a GET: its host first, and our own Connection header only. Raises `ValueError`."""
    host = host_port(target.host, target.port)
    others = []
    for name, value in headers:
        if name.lower() == "host":
            host = value or host
        elif name.lower() != "connection":
            others.append((name, value))
    path = quote(target.path.partition("#")[0], safe="/?[]@!$&'()*+,;=:%~-._")
    lines = [("Host", host), *others, ("Connection", "close")]
    for name, value in lines:
        if any(mark in name + value for mark in "\r\n\0"):
            raise ValueError(name)
    try:
        return h11.Request(
            method="GET",
            target=path,
            headers=[(name.encode(), value.strip().encode()) for name, value in lines],
        )
    except h11.LocalProtocolError as error:
        raise ValueError(str(error)) from None


def shown(data: bytes) -> str:
    """Return the beginning of what came in a form that can be printed."""
    text = data[:BEGINNING_BYTES].decode("latin-1")
    return '"' + text.encode("unicode_escape").decode().replace('"', '\\"') + '"'
