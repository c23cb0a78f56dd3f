"""GET over HTTP or HTTPS on the loop: certificates are not verified, redirects are followed on the same host."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from api.errors import Failure, FailureKind
from api.ports.net import (
    PLAIN_HTTP,
    REDIRECT_LIMIT,
    UNREACHED,
    UNREADABLE,
    HttpAnswer,
    HttpGet,
)
from api.ports.port import Done
from api.shortening import shortened
from runtime.drivers.net.conversation import Conversation, OnBug
from runtime.drivers.net.httptext import (
    FOLLOWED,
    GetExchange,
    MalformedError,
    Target,
    following,
)
from runtime.net.loop import Loop
from runtime.net.resolver import Resolver, literal

if TYPE_CHECKING:
    from runtime.drivers.net.tls import Tls

CHUNK_BYTES = 16 << 10
SHOWN_LIMIT = 1024
"""Characters of a URL that a text repeats: a redirect may have brought it."""


class HttpConversation(Conversation):
    """One GET and what it leads to."""

    def __init__(
        self, loop: Loop, resolver: Resolver, call: HttpGet, timeout_s: float, done: Done, on_bug: OnBug
    ) -> None:
        super().__init__(loop, resolver, timeout_s, done, on_bug)
        self._call = call
        path = call.path if call.path.startswith("/") else f"/{call.path}"
        self._target = Target(scheme=call.scheme, host=call.host, port=call.port, path=path)
        self._asked = self._target.url
        self._hops = 0
        self._exchange: GetExchange | None = None
        self._unsent = b""
        self._tls: Tls | None = None

    @property
    def _status(self) -> int:
        return self._exchange.status if self._exchange is not None else 0

    def begin(self) -> None:
        """Begin."""
        self.start(self._target.host, self._target.port)

    def late(self) -> str:
        """Return a kubelet's text for an answer that did not come in time."""
        if self._status:
            return self._text(
                "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
            )
        return self._text("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")

    def unreached(self, why: str) -> str:
        """Return a kubelet's text for a server that is not there."""
        return self._text(why)

    def _text(self, why: str) -> str:
        return f'Get "{shortened(self._asked, SHOWN_LIMIT)}": {why}'

    # ------------------------------------------------------------ asking and being answered

    def reached(self, sock: socket.socket) -> None:
        """Send the request, after the TLS handshake for https."""
        try:
            self._exchange = GetExchange(self._target, self._call.headers, self._call.limit_bytes)
        except ValueError as error:
            self.fail(FailureKind.REJECTED, self._text(f"invalid value of header {shortened(str(error))!r}"))
            return
        try:
            request = self._exchange.request
            self._tls = self._greeting(request) if self._target.scheme == "https" else None
            self._unsent = self._tls.unsent() if self._tls is not None else request
            self._send(sock)
        except (OSError, ValueError) as error:
            self._broken(error)
            return
        self._wait(sock)

    def _greeting(self, request: bytes) -> Tls:
        from runtime.drivers.net.tls import Tls  # noqa: PLC0415  # it costs memory that only those spend who ask over HTTPS

        host = self._target.host
        return Tls(None if literal(host, 0) is not None else host, request)

    def _wait(self, sock: socket.socket) -> None:
        self.watch(sock, lambda: self._talk(sock), writable=bool(self._unsent))

    def _talk(self, sock: socket.socket) -> None:
        """Make one step: send what can be sent, receive once. Other conversations run in between."""
        if self.over:
            return
        had_unsent = bool(self._unsent)
        try:
            self._send(sock)
            self._receive(sock)
        except MalformedError as error:
            self._spoilt(str(error))
        except OSError as error:
            self._broken(error)
        else:
            if self.is_on(sock) and bool(self._unsent) != had_unsent:
                self._wait(sock)

    def _send(self, sock: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                self._unsent = self._unsent[sock.send(self._unsent) :]

    def _receive(self, sock: socket.socket) -> None:
        exchange = self._exchange
        assert exchange is not None
        try:
            data = sock.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        ended = not data
        if self._tls is not None:
            data = self._tls.receive(data) if data else self._tls.end()
            self._unsent += self._tls.unsent()
            ended = ended or self._tls.ended
        if data:
            exchange.feed(data)
        if ended and not exchange.end():
            self._cut_off()
            return
        if exchange.complete:
            self._answered(exchange)

    def _answered(self, answer: GetExchange) -> None:
        onward = following(self._target, answer.headers.get("location", ""))
        if answer.status in FOLLOWED and "location" in answer.headers and onward is not None:
            self._hops += 1
            if self._hops >= REDIRECT_LIMIT:
                self.fail(FailureKind.UNAVAILABLE, self._text(f"stopped after {REDIRECT_LIMIT} redirects"))
                return
            self._target, self._exchange = onward, None
            self._asked = onward.url
            self.go(onward.host, onward.port)
            return
        self.succeed(HttpAnswer(status=answer.status, body=answer.body, truncated=answer.truncated))

    # ------------------------------------------------------------ being disappointed

    def _cut_off(self) -> None:
        if self._status:
            self.fail(FailureKind.UNAVAILABLE, self._text("unexpected EOF"), UNREADABLE)
        else:
            self.fail(FailureKind.UNAVAILABLE, self._text("EOF"))

    def _spoilt(self, why: str) -> None:
        reason = UNREADABLE if self._status else ""
        prefix = "" if self._status else "net/http: HTTP/1.x transport connection broken: "
        self.fail(FailureKind.UNAVAILABLE, self._text(prefix + why), reason)

    def _broken(self, error: Exception) -> None:
        failure = self._failure(error)
        self.fail(failure.kind, failure.message, failure.reason)

    def _failure(self, error: Exception) -> Failure:
        unavailable = FailureKind.UNAVAILABLE
        if self._tls is not None and is_plain_answer(error):
            text = self._text("http: server gave HTTP response to HTTPS client")
            return Failure(kind=unavailable, message=text, reason=PLAIN_HTTP)
        if self._status:
            return Failure(kind=unavailable, message=self._text(said(error)), reason=UNREADABLE)
        reason = UNREACHED if isinstance(error, ConnectionRefusedError) else ""
        return Failure(kind=unavailable, message=self._text(said(error)), reason=reason)


def is_plain_answer(error: Exception) -> bool:
    """Return whether a handshake failed because the other side answered in plain text."""
    return getattr(error, "reason", "") in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


def said(error: Exception) -> str:
    """Return what became of a connection, in a few words."""
    match error:
        case ConnectionResetError():
            return "read: connection reset by peer"
        case BrokenPipeError():
            return "write: broken pipe"
        case _:
            reason = getattr(error, "reason", "") or getattr(error, "strerror", "") or type(error).__name__
            word = "tls: " if hasattr(error, "reason") else ""
            return f"{word}{str(reason).lower().replace('_', ' ')}"
