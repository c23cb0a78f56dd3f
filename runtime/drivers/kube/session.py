"""One connection to the API server: dialled, TLS agreed on, then the exchanges of `Http2` or `Http1` until it ends.

Everything happens on the loop's thread. Each reception takes in at most `CHUNK_BYTES`, so that no server keeps the thread.
"""

import contextlib
import errno
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from api.errors import Failure, FailureKind
from runtime.drivers.kube.exchange import ApiExchange
from runtime.drivers.kube.http1 import Http1
from runtime.drivers.kube.http2 import BrokenError, Http2
from runtime.drivers.kube.tls import client_tls, why_not
from runtime.net.kubeaccess import Access
from runtime.net.loop import Loop
from runtime.net.resolver import Address, Resolver, literal

CHUNK_BYTES = 64 << 10
CONNECT_S = 10.0
ADDRESS_S = 2.5
"""So long one address of several may take to accept a connection: a way that swallows packets must not cost them all."""
OUT_LIMIT_BYTES = 16 << 20
"""A server that reads nothing gets no more than that: what it asks us to answer would fill our memory."""
QUIET_S, PONG_S = 30.0, 15.0
"""Without a byte for so long the server is asked whether it is there; so long it may take to say so."""
HTTPS_PORT = 443
AGENT = "nodeagent"


class ApiConnection:
    """A connection. `moved` is called whenever there may be room for an exchange, `ended` once, with why it ended."""

    def __init__(
        self,
        loop: Loop,
        resolver: Resolver,
        access: Access,
        settings: ssl.SSLContext,
        moved: Callable[[], None],
        ended: Callable[[Failure], None],
    ) -> None:
        self._loop, self._resolver = loop, resolver
        self._moved, self._ended = moved, ended
        self.server = access.server
        parts = urlsplit(access.server)
        self._host, self._port = parts.hostname or "", parts.port or HTTPS_PORT
        self._authority, self._prefix = parts.netloc, parts.path
        identity = (("authorization", f"Bearer {access.token}"),) if access.token else ()
        self._headers = (("user-agent", AGENT), ("accept", "application/json"), *identity)
        self._received, self._unsent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = client_tls(settings, access, self._received, self._unsent)
        self._left: deque[Address] = deque()
        self._sock: socket.socket | None = None
        self._out = bytearray()
        self._protocol: Http1 | Http2 | None = None
        self._heard_at = time.monotonic()
        self._pinged = False
        self._connected = False
        self.is_over = False
        self.was_open = False
        """The server has said something on it: it accepts who we are."""
        self.is_distrusted = False
        """One side does not accept the other's certificate."""

    # ------------------------------------------------------------ what its user does

    def open(self) -> None:
        """Begin to connect."""
        self._loop.after(CONNECT_S, self._late)
        address = literal(self._host, self._port)
        if address is not None:
            self._dial(deque((address,)), "")
            return
        self._resolver.ask(self._host, self._port, self._resolved)

    def _resolved(self, found: tuple[Address, ...], why: str) -> None:
        self._loop.submit(lambda: self._dial(deque(found), why))

    @property
    def has_room(self) -> bool:
        """Return whether an exchange may begin now."""
        return not self.is_over and self._protocol is not None and self._protocol.has_room

    @property
    def takes_no_more(self) -> bool:
        """Return whether no further exchange may ever begin."""
        return self.is_over or (self._protocol is not None and self._protocol.draining)

    def begin(self, exchange: ApiExchange) -> None:
        """Send a request."""
        protocol = self._protocol
        assert protocol is not None
        exchange.prefix = self._prefix
        try:
            protocol.begin(exchange)
        except BrokenError as error:
            exchange.end(Failure(kind=FailureKind.UNAVAILABLE, message=f"{self.server}: {error}"))
            self._broken(str(error))
            return
        leave = exchange.leave

        def taken_back() -> None:
            if leave is not None:
                leave()
            self._flush()

        exchange.leave = taken_back
        self._flush()

    def retire(self, failure: Failure) -> None:
        """Take no more exchanges; end watches now, and the connection with its last exchange."""
        protocol = self._protocol
        if protocol is None:
            self.close(failure)
            return
        protocol.draining = True
        protocol.end_lasting(failure)
        self._flush()

    def close(self, failure: Failure) -> None:
        """End it, and every exchange on it."""
        if self.is_over:
            return
        self.is_over = True
        self._hang_up()
        if self._protocol is not None:
            self._protocol.close(failure)
        self._ended(failure)

    # ------------------------------------------------------------ connecting

    def _dial(self, left: deque[Address], why: str) -> None:
        if not self.is_over:
            self._left = left
            self._next(why)

    def _next(self, why: str) -> None:
        """Try the next address, or end with why the last one was not reached."""
        if not self._left:
            self._broken(f"cannot be reached: {why}")
            return
        address = self._left.popleft()
        kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        try:
            sock = self._sock = socket.socket(address.family, kind)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = sock.connect_ex(address.target)
        except (OSError, OverflowError) as error:
            code = (error.errno if isinstance(error, OSError) else None) or errno.EINVAL
        if code in (0, errno.EINPROGRESS):
            assert self._sock is not None
            self._loop.watch(self._sock, self._connecting, writable=True)
            if self._left:
                self._loop.after(ADDRESS_S, partial(self._pass_over, sock))
        else:
            self._hang_up()
            self._next(os.strerror(code).lower())

    def _pass_over(self, sock: socket.socket) -> None:
        """Try the next address, unless this one has accepted."""
        if self._sock is sock and not self._connected:
            self._hang_up()
            self._next("connection timed out")

    def _connecting(self, _: int) -> None:
        sock = self._sock
        if sock is None:
            return
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._hang_up()
            self._next(os.strerror(code).lower())
            return
        try:
            sock.getpeername()
        except OSError:
            return
        self._connected = True
        self._loop.watch(sock, self._ready)
        self._step(b"")

    def _late(self) -> None:
        if self._protocol is None:
            self._broken(f"did not accept a connection within {CONNECT_S:g} s")

    # ------------------------------------------------------------ bytes

    def _ready(self, mask: int) -> None:
        del mask
        sock = self._sock
        if sock is None:
            return
        self._write()
        try:
            data = sock.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._broken(f"the connection broke: {(error.strerror or 'unknown').lower()}")
            return
        if not data:
            self._finished()
            return
        self._heard_at, self._pinged = time.monotonic(), False
        self._step(data)

    def _finished(self) -> None:
        """Take in the end of the server's bytes: for HTTP/1 it may be the end of an answer."""
        if isinstance(self._protocol, Http1):
            with contextlib.suppress(BrokenError):
                self._protocol.receive(b"")
        self._broken("the server closed the connection")

    def _step(self, data: bytes) -> None:
        """Take in bytes from the network."""
        self._received.write(data)
        try:
            if self._protocol is None and not self._greet():
                self._flush()
                return
            while not self.is_over and (plain := self._tls.read(CHUNK_BYTES)):
                assert self._protocol is not None
                self.was_open = True
                self._protocol.receive(plain)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._flush()
            self.is_distrusted = True
            self.close(Failure(kind=FailureKind.UNAVAILABLE, message=why_not(error, self.server)))
            return
        except BrokenError as error:
            self._broken(str(error))
            return
        else:
            # Whatever the network may still carry, TLS has ended.
            self._finished()
            return
        self._flush()

    def _greet(self) -> bool:
        """Go on with the handshake; return whether it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        if self._tls.selected_alpn_protocol() == "h2":
            self._protocol = Http2(self._authority, self._headers, self._ponged)
            self._loop.after(QUIET_S, self._check)
        else:
            self._protocol = Http1(self._authority, self._headers)
        return True

    def _flush(self) -> None:
        """Send what is to be sent, and end a connection that is of no more use."""
        if self.is_over:
            return
        protocol = self._protocol
        if protocol is not None:
            plain = protocol.unsent()
            if plain:
                self._tls.write(plain)
        self._out += self._unsent.read()
        self._write()
        if len(self._out) > OUT_LIMIT_BYTES:
            self._broken(f"it reads nothing, and {len(self._out) >> 10} KiB wait for it")
            return
        if protocol is not None and protocol.draining and protocol.is_idle and not self._out:
            self._broken("the connection is no longer used")
            return
        if protocol is not None:
            self._moved()

    def _write(self) -> None:
        sock = self._sock
        if sock is None or not self._out:
            return
        try:
            count = sock.send(self._out)
        except BlockingIOError:
            count = 0
        except OSError:
            # The next reception says so.
            count = len(self._out)
        del self._out[:count]
        self._loop.watch(sock, self._ready, writable=bool(self._out))

    # ------------------------------------------------------------ is it there?

    def _ponged(self) -> None:
        self._pinged = False

    def _check(self) -> None:
        """Ask a server that is quiet whether it is there; give it up when it does not say so."""
        if self.is_over:
            return
        quiet_s = time.monotonic() - self._heard_at
        if self._pinged:
            self._broken(f"did not answer for {quiet_s:.0f} s")
            return
        if quiet_s >= QUIET_S and self._protocol is not None:
            self._protocol.ping()
            self._pinged = True
            self._flush()
            self._loop.after(PONG_S, self._check)
        else:
            self._loop.after(max(1.0, QUIET_S - quiet_s), self._check)

    # ------------------------------------------------------------ end

    def _broken(self, why: str) -> None:
        self.close(Failure(kind=FailureKind.UNAVAILABLE, message=f"{self.server}: {why}"))

    def _hang_up(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            self._loop.forget(sock)
            with contextlib.suppress(OSError):
                sock.close()
