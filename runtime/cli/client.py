"""Asks a running agent over its admin socket."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import quote, urlencode

import h11
import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import OperatingError
from api.shortening import shortened
from runtime.net.endpoint import connect_unix, peer_of

T = TypeVar("T")
ANSWER_S = 15.0
"""How long an answer may take: views read what is in memory, so this long means that something is wrong."""
UPGRADE_S = 40.0
"""The same for an upgrade, for which the agent asks the container runtime twice."""
BODY_LIMIT_BYTES = 256 << 20
HEAD_LIMIT_BYTES = 64 << 10
SHOWN = 120
"""Characters of an error in an answer that are shown."""
SWITCHING = 101


class VerbError(Exception):
    """Why a verb cannot do what was asked, in one line for the user."""


class AgentError(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the agent words it."""

    error: str = ""
    reason: str = ""
    detail: str = ""


class AgentResponse:
    """The agent's answer to a request, which is sent first: status and body, read as it comes.

    Raises `VerbError` when none comes or what comes is no answer.
    """

    def __init__(
        self,
        sock: socket.socket,
        request: h11.Request,
        body: bytes,
        wait_s: float | None,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self._sock, self._wait_s, self._tick = sock, wait_s, tick
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        head = (
            self._http.send(request)
            + self._http.send(h11.Data(data=body))
            + self._http.send(h11.EndOfMessage())
        )
        # An error may arrive before the whole request is sent; it explains more than the broken pipe.
        with contextlib.suppress(OSError):
            sock.sendall(head)
        sock.settimeout(wait_s)
        event = self._next()
        if not isinstance(event, h11.InformationalResponse | h11.Response):
            raise VerbError("the server on the socket is not an agent")
        self.status = event.status_code
        self._headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}

    def header(self, name: str) -> str:
        """Return a header of the answer, empty when it has none of this lower-case name."""
        return self._headers.get(name, "")

    def pieces(self) -> Iterator[bytes]:
        """Return the body piece by piece. Raises `VerbError` when it ends before its time."""
        while isinstance(event := self._next(), h11.Data):
            yield bytes(event.data)

    def body(self) -> bytes:
        """Return the whole body. Raises `VerbError` for one that is longer than any view."""
        parts, have = [], 0
        for piece in self.pieces():
            have += len(piece)
            if have > BODY_LIMIT_BYTES:
                raise unreadable("it is too long")
            parts.append(piece)
        return b"".join(parts)

    def rest(self) -> bytes:
        """Return what came behind the head so far, which is another protocol's after an upgrade."""
        return self._http.trailing_data[0]

    def _next(self) -> object:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(self._more())
        except h11.RemoteProtocolError as error:
            raise unreadable(shortened(str(error), SHOWN)) from None
        return event

    def _more(self) -> bytes:
        try:
            piece = self._receive()
        except TimeoutError:
            raise VerbError(f"the agent did not answer within {self._wait_s or 0:g} s; see its log") from None
        except OSError:
            piece = b""
        if not piece:
            raise VerbError("the agent ended the connection in the middle of its answer")
        return piece

    def _receive(self) -> bytes:
        while True:
            try:
                return self._sock.recv(64 << 10)
            except TimeoutError:
                if self._tick is None:
                    raise
                self._tick()


class Client:
    """A client of the agent behind one socket; each request has its own connection."""

    def __init__(self, path: str) -> None:
        self.path = path

    @contextlib.contextmanager
    def ask(
        self,
        method: str,
        parts: tuple[str, ...],
        query: tuple[tuple[str, str], ...] = (),
        *,
        body: bytes = b"",
        wait_s: float | None = ANSWER_S,
        tick: Callable[[], None] | None = None,
    ) -> Iterator[AgentResponse]:
        """Send one request and give its answer; `wait_s` None waits as long as it takes.

        With a `tick`, it waits as long as it takes and calls it every `wait_s` seconds meanwhile.

        Raises `VerbError` when no agent answers, and for an answer that is an error.
        """
        with self._connect() as sock:
            yield self._accepted(
                AgentResponse(sock, request(method, parts, query, len(body)), body, wait_s, tick)
            )

    @contextlib.contextmanager
    def upgrade(
        self, parts: tuple[str, ...], query: tuple[tuple[str, str], ...], *, protocol: str, subprotocol: str
    ) -> Iterator[tuple[socket.socket, bytes]]:
        """Request a protocol upgrade; return the connection and the bytes already received on it.

        Raises `VerbError` when no agent answers, or it refuses.
        """
        headers = (
            ("Connection", "Upgrade"),
            ("Upgrade", protocol),
            ("X-Stream-Protocol-Version", subprotocol),
        )
        asked = request("POST", parts, query, 0, headers)
        with self._connect() as sock:
            answer = self._accepted(AgentResponse(sock, asked, b"", UPGRADE_S))
            if answer.status != SWITCHING or answer.header("x-stream-protocol-version") != subprotocol:
                raise VerbError(
                    f"the agent cannot switch to {protocol} with {subprotocol}; is its version different?"
                )
            yield sock, answer.rest()

    @staticmethod
    def _accepted(answer: AgentResponse) -> AgentResponse:
        if answer.status >= 400:
            raise VerbError(_sentence(answer))
        return answer

    def get(
        self, kind: type[T], parts: tuple[str, ...], query: tuple[tuple[str, str], ...] = ()
    ) -> tuple[T, bytes]:
        """Request something and return it decoded and raw."""
        with self.ask("GET", parts, query) as answer:
            body = answer.body()
        return decoded(body, kind), body

    def _connect(self) -> socket.socket:
        try:
            sock = connect_unix(self.path, ANSWER_S)
        except OperatingError as failure:
            raise VerbError(
                f"cannot connect to the agent: {failure}; start it with 'nodeagent run', or set --root-dir"
            ) from None
        pid, uid = peer_of(sock)
        if uid not in (0, os.geteuid()):
            sock.close()
            raise VerbError(
                f"the server on {self.path} (process {pid}) runs as user {uid}, neither root nor you: not trusted;"
                " set --root-dir to the agent's root directory"
            )
        return sock


def decoded(body: bytes, kind: type[T]) -> T:
    """Return an answer as data. Raises `VerbError` for one that is not of this kind."""
    try:
        return from_json(body, kind)
    except UndecodableError as error:
        raise unreadable(str(error)) from None


def unreadable(why: str) -> VerbError:
    """Return the error for an answer that cannot be read."""
    return VerbError(f"cannot read the agent's answer ({why}); is its version different?")


def request(
    method: str,
    parts: tuple[str, ...],
    query: tuple[tuple[str, str], ...],
    length: int,
    headers: tuple[tuple[str, str], ...] = (),
) -> h11.Request:
    """Return what is asked, with a body of `length` bytes to follow."""
    lines = [("Host", "nodeagent"), *headers, ("Content-Length", str(length))]
    return h11.Request(method=method, target=_target(parts, query), headers=lines)


def _target(parts: tuple[str, ...], query: tuple[tuple[str, str], ...]) -> str:
    target = "/" + "/".join(quote(part, safe=":@", errors="surrogateescape") for part in parts)
    return f"{target}?{urlencode(query, errors='surrogateescape')}" if query else target


def _sentence(answer: AgentResponse) -> str:
    body = answer.body()
    try:
        found = from_json(body, AgentError)
    except UndecodableError:
        return f"the agent answered with status {answer.status}"
    detail = f" ({found.detail})" if found.detail else ""
    return (found.error or f"the agent answered with status {answer.status}") + detail
