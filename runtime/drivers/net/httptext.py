"""What goes over the wire in an HTTP GET: the request's bytes, and a reader of the answer that keeps only its beginning."""

from collections.abc import Iterator
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from api.ports.confinement import Pairs
from api.ports.net import host_port

HEAD_LIMIT_BYTES = 64 << 10
CHUNK_LINE_LIMIT_BYTES = 4 << 10
INTERIM_LIMIT = 5
"""Most interim answers (1xx) before the final one, as Go's client takes them."""
LENGTH_DIGITS = 18
"""Most digits of a length: what more bytes than these can count will never come."""
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


def request_bytes(target: Target, headers: Pairs) -> bytes:
    """Return a GET. Raises `ValueError` for a header that would not stay on its line."""
    host = host_port(target.host, target.port)
    lines = []
    for name, value in headers:
        if any(mark in name + value for mark in "\r\n\0"):
            raise ValueError(name)
        if name.lower() == "host":
            host = value or host
        elif name.lower() != "connection":
            lines.append(f"{name}: {value}\r\n")
    path = quote(target.path.partition("#")[0], safe="/?[]@!$&'()*+,;=:%~-._")
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{''.join(lines)}Connection: close\r\n\r\n"
    return head.encode()


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


class ResponseReader:
    """Reads an answer as it comes; of the body it keeps `limit_bytes`."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = b""
        self.status = 0
        """0 until the head is there."""
        self.headers: dict[str, str] = {}
        self._interim = 0
        self._length: int | None = None
        self.truncated = False
        self._parts: list[bytes] = []
        self._kept = 0
        self._steps: Iterator[None] | None = None
        self.complete = False

    @property
    def body(self) -> bytes:
        """Return what was kept of the body."""
        return b"".join(self._parts)

    def feed(self, data: bytes) -> None:
        """Take in what came. Raises `MalformedError`."""
        self._held += data
        if self._steps is None:
            self._read_head()
        if self._steps is not None and next(self._steps, self) is self:
            self.complete = True

    def end(self) -> bool:
        """Take in that nothing more comes; tell whether that is a whole answer."""
        if self.status and not self.complete and self._ends_with_connection:
            self.complete = True
        return self.complete

    @property
    def _ends_with_connection(self) -> bool:
        return self._length is None and not self._is_chunked

    @property
    def _is_chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower().endswith("chunked")

    def _read_head(self) -> None:
        while self._steps is None:
            head, mark, rest = self._held.partition(b"\r\n\r\n")
            if not mark:
                begins = self._held[:5]
                if begins != b"HTTP/"[: len(begins)]:
                    raise MalformedError(f"malformed HTTP response {shown(self._held)}")
                if len(self._held) > HEAD_LIMIT_BYTES:
                    raise MalformedError("server response headers exceeded 65536 bytes; aborted")
                return
            lines = head.decode("latin-1").split("\r\n")
            version, _, told = lines[0].partition(" ")
            code = told[:3]
            if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit()) or len(code) != 3:
                raise MalformedError(f"malformed HTTP response {shown(head.split(chr(13).encode())[0])}")
            self._held = rest
            if 100 <= int(code) < 200 and int(code) != 101:
                self._interim += 1
                if self._interim > INTERIM_LIMIT:
                    raise MalformedError("net/http: too many 1xx informational responses")
                continue
            self._read_headers(lines[1:])
            self.status = int(code)
            self._steps = self._body()

    def _read_headers(self, lines: list[str]) -> None:
        lengths = set()
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            self.headers.setdefault(name, value)
            if name == "content-length":
                lengths.add(value)
        if self._is_chunked or not lengths:
            return
        if len(lengths) > 1:
            raise MalformedError("http: message cannot contain multiple Content-Length headers")
        (length,) = lengths
        if not (length.isascii() and length.isdigit() and len(length) <= LENGTH_DIGITS):
            raise MalformedError(f"bad Content-Length {shown(length.encode())}")
        self._length = int(length)

    def _body(self) -> Iterator[None]:
        """Read the body step by step; each step waits for more bytes."""
        if self.status in (204, 304, 101):
            return
        if self._is_chunked:
            yield from self._chunks()
            return
        yield from self._take(self._length)

    def _chunks(self) -> Iterator[None]:
        while True:
            while b"\r\n" not in self._held:
                if len(self._held) > CHUNK_LINE_LIMIT_BYTES:
                    raise MalformedError("malformed chunked encoding")
                yield
            line, _, self._held = self._held.partition(b"\r\n")
            digits = line.partition(b";")[0].strip()
            try:
                size = int(digits, 16) if digits.isalnum() else -1
            except ValueError:
                size = -1
            if size < 0:
                raise MalformedError("malformed chunked encoding")
            if size == 0:
                return
            yield from self._take(size)
            if self.truncated:
                return
            while len(self._held) < 2:
                yield
            if self._held[:2] != b"\r\n":
                raise MalformedError("malformed chunked encoding")
            self._held = self._held[2:]

    def _take(self, size: int | None) -> Iterator[None]:
        """Take `size` bytes of body, None for all that comes; ends early once the limit is passed."""
        while True:
            part = self._held if size is None else self._held[:size]
            self._held = self._held[len(part) :]
            room = self._limit - self._kept
            self._parts.append(part[:room])
            self._kept += len(part[:room])
            if len(part) > room:
                self.truncated = True
                return
            if size is not None:
                size -= len(part)
                if not size:
                    return
            yield


def shown(data: bytes) -> str:
    """Return the beginning of what came in a form that can be printed."""
    text = data[:64].decode("latin-1")
    return '"' + text.encode("unicode_escape").decode().replace('"', '\\"') + '"'
