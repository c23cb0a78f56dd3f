"""Fetches manifests from a URL: the port ``urls``.

One deadline and one limit apply to a whole fetch: name resolution, connections, redirects, heads,
chunks and the bodies of errors (`Allowance`). Certificates are verified. The headers that the user configured are secrets: no text made here contains one, and a redirect
to another origin does not get them. How a body becomes JSON is the caller's choice (`Reader`), for drivers do not know
each other.
"""

import base64
import hashlib
import http.client
import queue
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from api.errors import (
    DeniedError,
    NotFoundError,
    OperatingError,
    RejectedError,
    TimedOutError,
    UnavailableError,
)
from api.ports.manifests import MANIFEST_LIMIT_BYTES, Problem
from api.ports.urls import FetchedManifests, FetchManifests, shown_url
from runtime.net.resolver import Address, Resolver, literal

LIMIT_BYTES = 10 * MANIFEST_LIMIT_BYTES + (1 << 20)
"""Most bytes that a fetch receives: the ten MiB of body that a kubelet reads, and one for everything else."""
CHUNK_BYTES = 1 << 16
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
PLAIN_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "nodeagent"}
DENIED = (401, 403, 407)
GONE = (404, 410)


class Read(Protocol):
    """A fetched document: compact JSON, or why there is none."""

    @property
    def json(self) -> bytes | None:
        """Return the document."""
        ...

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with it."""
        ...


Reader = Callable[[bytes, str], Read]
"""Reads one YAML or JSON document that came from a place with this name."""


class Allowance:
    """What is left to one fetch, over all of its connections: time until its deadline, and bytes to receive."""

    def __init__(self, where: str, deadline_s: float, resolver: Resolver) -> None:
        self._where, self._deadline_s, self._resolver = where, deadline_s, resolver
        self._ends_at = time.monotonic() + deadline_s
        self._left_bytes = LIMIT_BYTES

    def too_late(self) -> TimedOutError:
        """Return the failure of a fetch that has used up its time."""
        return TimedOutError(f"{self._where} did not answer in full within {self._deadline_s:g} s")

    def left_s(self) -> float:
        """Return how long it may still wait. Raises `TimedOutError`."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise self.too_late()
        return left

    def receive(self, sock: socket.socket, receive: Callable[[], int]) -> int:
        """Receive once. Raises OSError, `RejectedError`, `TimedOutError`."""
        sock.settimeout(self.left_s())
        received = receive()
        self._left_bytes -= received
        if self._left_bytes < 0:
            raise RejectedError(
                f"{self._where} sent more than {LIMIT_BYTES >> 20} MiB; that much is not read"
            )
        return received

    def connect(self, address: tuple[str, int], *_: object) -> socket.socket:
        """Return a connection to a host, over the first of its addresses that answers. Raises as `receive`."""
        failure = OSError("no address")
        for found in self._addresses(*address):
            sock = PlainSocket(found.family, socket.SOCK_STREAM)
            sock.allowance = self
            try:
                sock.settimeout(self.left_s())
                sock.connect(found.target)
                sock.settimeout(self.left_s())
            except (OSError, TimedOutError) as error:
                sock.close()
                if not isinstance(error, OSError):
                    raise
                failure = error
            else:
                return sock
        raise failure

    def _addresses(self, host: str, port: int) -> tuple[Address, ...]:
        address = literal(host, port)
        if address is not None:
            return (address,)
        answers: queue.SimpleQueue[tuple[tuple[Address, ...], str]] = queue.SimpleQueue()
        self._resolver.ask(host, port, lambda found, why: answers.put((found, why)))
        try:
            found, why = answers.get(timeout=self.left_s())
        except queue.Empty:
            raise self.too_late() from None
        if not found:
            # Not the host's name: a redirect may have put a password in front of it.
            raise UnavailableError(f"{self._where} cannot be reached: {why.removeprefix(f'lookup {host}: ')}")
        return found


class PlainSocket(socket.socket):
    """A connection within an allowance; what `makefile` returns receives by `recv_into`."""

    allowance: Allowance

    def recv_into(self, *args: Any) -> int:
        """Receive once."""
        return self.allowance.receive(self, partial(super().recv_into, *args))


class TlsSocket(ssl.SSLSocket):
    """The same over TLS."""

    allowance: Allowance

    def recv_into(self, *args: Any) -> int:
        """Receive once."""
        return self.allowance.receive(self, partial(super().recv_into, *args))


class PlainConnection(http.client.HTTPConnection):
    """HTTP within an allowance."""

    def __init__(self, allowance: Allowance, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._create_connection = allowance.connect


class TlsConnection(http.client.HTTPSConnection):
    """HTTPS within an allowance."""

    def __init__(self, allowance: Allowance, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._allowance = allowance
        self._create_connection = allowance.connect

    def connect(self) -> None:
        """Connect and shake hands."""
        super().connect()
        assert isinstance(self.sock, TlsSocket)
        self.sock.allowance = self._allowance
        self.sock.settimeout(self._allowance.left_s())


class PlainHandler(urllib.request.HTTPHandler):
    """An HTTP connection within an allowance."""

    def __init__(self, allowance: Allowance) -> None:
        super().__init__()
        self._allowance = allowance

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Ask."""
        return self.do_open(partial(PlainConnection, self._allowance), req)


class TlsHandler(urllib.request.HTTPSHandler):
    """An HTTPS connection within an allowance."""

    def __init__(self, allowance: Allowance, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._allowance, self._trust = allowance, context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Ask."""
        return self.do_open(partial(TlsConnection, self._allowance), req, context=self._trust)


class SameOriginHeaders(urllib.request.HTTPRedirectHandler):
    """Follows redirects; what the user configured goes to the origin that it was configured for and nowhere else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request that follows a redirect, stripped when it leaves the origin."""
        if urlsplit(newurl).scheme not in ("http", "https"):
            fp.close()
            raise RejectedError(f"{shown_url(req.full_url)} redirects to something that is not HTTP")
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        # Closed, it has no body that would be read before the redirect is followed.
        fp.close()
        if following is not None and origin(newurl) != origin(req.full_url):
            following.headers.clear()
            for name, value in PLAIN_HEADERS.items():
                following.add_header(name, value)
        return following


class UrlManifests:
    """The port ``urls``. `context` trusts the system's certificates unless given."""

    name = "urls"

    def __init__(self, read: Reader, *, context: ssl.SSLContext | None = None) -> None:
        self._read = read
        self._trust = context or ssl.create_default_context()
        self._trust.sslsocket_class = TlsSocket
        self._resolver = Resolver()

    def _opener(self, allowance: Allowance) -> urllib.request.OpenerDirector:
        opener = urllib.request.OpenerDirector()
        # No file:, ftp: or data: - a URL of manifests is HTTP, before and after redirects.
        for handler in (
            urllib.request.ProxyHandler(),
            PlainHandler(allowance),
            TlsHandler(allowance, self._trust),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            SameOriginHeaders(),
        ):
            opener.add_handler(handler)
        return opener

    def perform(self, call: msgspec.Struct, deadline_s: float) -> FetchedManifests:
        """GET the URL of a `FetchManifests`.

        Raises `DeniedError` (401, 403, an untrusted certificate), `NotFoundError` (404), `RejectedError` (a URL or
        body that cannot be used), `TimedOutError` past the deadline, and `UnavailableError` for all else.
        """
        if not isinstance(call, FetchManifests):
            raise RejectedError(f"the manifest fetcher has no call {type(call).__name__}")
        body = self._fetch(call, deadline_s)
        digest = hashlib.sha256(body).hexdigest()
        if digest == call.known_digest:
            return FetchedManifests(digest=digest, unchanged=True)
        if not body:
            return FetchedManifests(digest=digest)
        document = self._read(body, shown_url(call.url))
        return FetchedManifests(digest=digest, document=document.json, problems=document.problems)

    def _fetch(self, call: FetchManifests, deadline_s: float) -> bytes:
        where = shown_url(call.url)
        request = request_for(call, where)
        allowance = Allowance(where, deadline_s, self._resolver)
        try:
            with self._opener(allowance).open(request) as response:
                if response.status != http.client.OK:
                    raise status_error(where, response.status)
                return read_body(response, where)
        except urllib.error.HTTPError as error:
            error.close()
            raise status_error(where, error.code) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # The cause is dropped: its text may repeat the request.
            raise translated(where, error, allowance) from None


def request_for(call: FetchManifests, where: str) -> urllib.request.Request:
    """Build the request. Raises `RejectedError`, naming a bad header but never its value."""
    parts = urlsplit(call.url) if where != "<malformed URL>" else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc.rpartition("@")[2]:
        raise RejectedError(f"{where} is not a manifest URL; give http:// or https:// and a host")
    user, _, host = parts.netloc.rpartition("@")
    bare = urlunsplit((parts.scheme, host, parts.path or "/", parts.query, ""))
    request = urllib.request.Request(  # noqa: S310  the scheme was checked just above
        bare, headers=PLAIN_HEADERS
    )
    if user:
        name, _, password = user.partition(":")
        secret = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
        request.add_header("Authorization", f"Basic {secret}")
    for name, value in call.headers:
        if not HEADER_NAME.fullmatch(name):
            raise RejectedError(f"a header for {where} has a name that HTTP does not allow")
        if any(mark in value for mark in "\r\n\0") or not value.isascii():
            raise RejectedError(f"the value of the header {name} for {where} is not plain text on one line")
        # urllib writes names in its own case, so that one name has one value; HTTP does not mind.
        request.add_header(name, value)
    return request


def read_body(response: http.client.HTTPResponse, where: str) -> bytes:
    """Read the whole body. Raises OSError, `RejectedError`, `TimedOutError`, `UnavailableError`."""
    # In pieces: no memory is reserved for a length that a server only claims.
    body = b"".join(iter(partial(response.read1, CHUNK_BYTES), b""))
    if response.length:
        raise UnavailableError(f"{where} ended its answer {response.length} bytes early")
    return body


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    standard = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or standard


def status_error(where: str, status: int) -> OperatingError:
    """Translate an HTTP status other than 200."""
    phrase = http.client.responses.get(status, "unknown status")
    text = f"{where} answered {status} {phrase}"
    if status in DENIED:
        return DeniedError(f"{text}; check --manifest-url-header")
    if status in GONE:
        return NotFoundError(f"{text}; check the URL")
    return UnavailableError(text)


def translated(where: str, error: Exception, allowance: Allowance) -> OperatingError:
    """Translate an error of the connection without repeating what was sent."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    match reason:
        case TimeoutError():
            return allowance.too_late()
        case ssl.SSLCertVerificationError():
            return DeniedError(
                f"the certificate of {where} is not trusted: {reason.verify_message}; "
                "add its authority to the system's certificates"
            )
        case ssl.SSLError():
            return UnavailableError(f"no TLS connection to {where}: {reason.reason or 'handshake failed'}")
        case OSError():
            return UnavailableError(f"{where} cannot be reached: {reason.strerror or type(reason).__name__}")
        case _:
            return UnavailableError(f"{where} sent an invalid HTTP answer ({type(reason).__name__})")
