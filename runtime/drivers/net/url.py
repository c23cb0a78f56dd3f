"""Fetches manifests from a URL: the port ``urls``.

Certificates are verified. The headers that the user configured are secrets: no text made here holds one, and a redirect
to another origin does not get them. How a body becomes JSON is the caller's choice (`Reader`), for drivers do not know
each other.
"""

import base64
import hashlib
import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import IO, Protocol
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
from api.host import MANIFEST_LIMIT_BYTES, FetchedManifests, FetchManifests, Problem, shown_url

BODY_LIMIT_BYTES = 10 * MANIFEST_LIMIT_BYTES
CHUNK_BYTES = 1 << 16
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
PLAIN_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "nodeagent"}
DENIED = (401, 403, 407)
GONE = (404, 410)


class Read(Protocol):
    """A document that was read: compact JSON, or why there is none."""

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
        self._opener = urllib.request.OpenerDirector()
        # No file:, ftp: or data: - a URL of manifests is HTTP, before and after redirects.
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=context or ssl.create_default_context()),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            SameOriginHeaders(),
        ):
            self._opener.add_handler(handler)

    def perform(self, call: msgspec.Struct, deadline_s: float) -> FetchedManifests:
        """GET the URL of a `FetchManifests`.

        Raises `DeniedError` (401, 403, an untrusted certificate), `NotFoundError` (404), `RejectedError` (a URL or
        body that can not be used), `TimedOutError` past the deadline, and `UnavailableError` for all else.
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
        ends_at = time.monotonic() + deadline_s
        try:
            with self._opener.open(request, timeout=deadline_s) as response:
                if response.status != http.client.OK:
                    raise status_error(where, response.status)
                return read_body(response, where, ends_at, deadline_s)
        except urllib.error.HTTPError as error:
            with error:
                raise status_error(where, error.code) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # The cause is dropped: its text may repeat the request.
            raise translated(where, error, deadline_s) from None


def request_for(call: FetchManifests, where: str) -> urllib.request.Request:
    """Build the request. Raises `RejectedError`, naming a bad header but never its value."""
    parts = urlsplit(call.url) if where != "<malformed URL>" else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc.rpartition("@")[2]:
        raise RejectedError(f"{where} is no manifest URL; it is http:// or https:// and names a host")
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


def read_body(response: http.client.HTTPResponse, where: str, ends_at: float, deadline_s: float) -> bytes:
    """Read the whole body within deadline and limit. Raises OSError, `RejectedError`, `TimedOutError`."""
    parts: list[bytes] = []
    size = 0
    # read1 returns what one reception brought, so that a server that drips is seen between drops.
    while part := response.read1(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > BODY_LIMIT_BYTES:
            raise RejectedError(f"{where} has more than {BODY_LIMIT_BYTES >> 20} MiB; that much is not read")
        if time.monotonic() > ends_at:
            raise TimedOutError(f"{where} did not answer in full within {deadline_s:g} s")
    if response.length:
        raise UnavailableError(f"{where} ended its answer {response.length} bytes early")
    return b"".join(parts)


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
        return DeniedError(f"{text}; give the right --manifest-url-header")
    if status in GONE:
        return NotFoundError(f"{text}; check the URL")
    return UnavailableError(text)


def translated(where: str, error: Exception, deadline_s: float) -> OperatingError:
    """Translate an error of the connection without repeating what was sent."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    match reason:
        case OperatingError():
            return reason
        case TimeoutError():
            return TimedOutError(f"{where} did not answer within {deadline_s:g} s")
        case ssl.SSLCertVerificationError():
            return DeniedError(
                f"the certificate of {where} is not trusted: {reason.verify_message}; "
                "add its authority to the system's certificates"
            )
        case ssl.SSLError():
            return UnavailableError(f"no TLS connection to {where}: {reason.reason or 'handshake failed'}")
        case OSError():
            return UnavailableError(f"{where} can not be reached: {reason.strerror or type(reason).__name__}")
        case _:
            return UnavailableError(f"{where} did not answer as HTTP does ({type(reason).__name__})")
