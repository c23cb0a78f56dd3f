"""Asks a running agent over its admin socket: as much HTTP as its answers need, without a client library's start-up time."""

import contextlib
import os
import re
import socket
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import OperatingError
from runtime.net.endpoint import connect_unix, peer_of

T = TypeVar("T")
ANSWER_S = 15.0
"""How long an answer may take: views read what is in memory, so this long means that something is wrong."""
UPGRADE_S = 40.0
"""The same for an upgrade, for which the agent asks the container runtime twice."""
BODY_LIMIT_BYTES = 256 << 20
HEAD_LIMIT_BYTES = 64 << 10
STATUS = re.compile("[1-5][0-9][0-9]")
SIZE = re.compile("[0-9a-fA-F]{1,16}")
SWITCHING = 101


class VerbError(Exception):
    """Why a verb cannot do what was asked, in one line for the user."""


class AgentError(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the agent words it."""

    error: str = ""
    reason: str = ""
    detail: str = ""


class AgentResponse:
    """The agent's answer: status and body, read as it comes."""

    def __init__(self, sock: socket.socket, wait_s: float, tick: Callable[[], None] | None = None) -> None:
        self._sock, self._wait_s, self._tick = sock, wait_s, tick
        self._data = b""
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = head[0].split(" ")
        if len(status) < 2 or not status[0].startswith("HTTP/") or not STATUS.fullmatch(status[1]):
            raise VerbError("what answers on the socket is not an agent")
        self.status = int(status[1])
        pairs = (line.partition(":") for line in head[1:])
        self._headers = {name.lower(): value.strip() for name, _, value in pairs}

    def header(self, name: str) -> str:
        """Return a header of the answer, empty when it has none of this lower-case name."""
        return self._headers.get(name, "")

    def pieces(self) -> Iterator[bytes]:
        """Return the body piece by piece. Raises `VerbError` when it ends before its time."""
        if self._headers.get("transfer-encoding") == "chunked":
            while size := _size(self._until(b"\r\n").decode("latin-1"), 16):
                yield self._take(size)
                self._take(2)
        else:
            yield self._take(_size(self._headers.get("content-length", "0"), 10))

    def body(self) -> bytes:
        """Return the whole body. Raises `VerbError` for one that is longer than any view."""
        parts, have = [], 0
        for piece in self.pieces():
            have += len(piece)
            if have > BODY_LIMIT_BYTES:
                raise _too_long()
            parts.append(piece)
        return b"".join(parts)

    def rest(self) -> bytes:
        """Return what came behind the head so far, which is another protocol's after an upgrade."""
        data, self._data = self._data, b""
        return data

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._data:
            if len(self._data) > HEAD_LIMIT_BYTES:
                raise _too_long()
            self._more()
        found, _, self._data = self._data.partition(mark)
        return found

    def _take(self, size: int) -> bytes:
        parts, have = [self._data], len(self._data)
        while have < size:
            self._data = b""
            self._more()
            parts.append(self._data)
            have += len(self._data)
        whole = b"".join(parts)
        self._data = whole[size:]
        return whole[:size]

    def _more(self) -> None:
        try:
            piece = self._receive()
        except TimeoutError:
            raise VerbError(
                f"the agent does not answer: nothing came within {self._wait_s:g} s; its log may say why"
            ) from None
        except OSError:
            piece = b""
        if not piece:
            raise VerbError("the agent ended the connection in the middle of its answer")
        self._data += piece

    def _receive(self) -> bytes:
        while True:
            try:
                return self._sock.recv(64 << 10)
            except TimeoutError:
                if self._tick is None:
                    raise
                self._tick()


class Client:
    """Speaks to the agent behind one socket; each request is one connection."""

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
        target = _target(parts, query)
        head = f"{method} {target} HTTP/1.1\r\nHost: nodeagent\r\nContent-Length: {len(body)}\r\n\r\n"
        with self._connect() as sock:
            answer = self._ask(sock, head.encode() + body, wait_s, tick)
            yield answer

    @contextlib.contextmanager
    def upgrade(
        self, parts: tuple[str, ...], query: tuple[tuple[str, str], ...], *, protocol: str, subprotocol: str
    ) -> Iterator[tuple[socket.socket, bytes]]:
        """Ask for a connection in another protocol; give it, and what came on it already.

        Raises `VerbError` when no agent answers, or it refuses.
        """
        head = (
            f"POST {_target(parts, query)} HTTP/1.1\r\nHost: nodeagent\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
            f"X-Stream-Protocol-Version: {subprotocol}\r\nContent-Length: 0\r\n\r\n"
        )
        with self._connect() as sock:
            answer = self._ask(sock, head.encode(), UPGRADE_S)
            if answer.status != SWITCHING or answer.header("x-stream-protocol-version") != subprotocol:
                raise VerbError(
                    f"the agent cannot switch to {protocol} with {subprotocol}; is it of another version?"
                )
            yield sock, answer.rest()

    @staticmethod
    def _ask(
        sock: socket.socket, request: bytes, wait_s: float | None, tick: Callable[[], None] | None = None
    ) -> AgentResponse:
        # A refusal may come before all was sent; then reading it says more than the broken pipe.
        with contextlib.suppress(OSError):
            sock.sendall(request)
        sock.settimeout(wait_s)
        answer = AgentResponse(sock, wait_s or 0.0, tick)
        if answer.status >= 400:
            raise VerbError(_sentence(answer))
        return answer

    def get(
        self, kind: type[T], parts: tuple[str, ...], query: tuple[tuple[str, str], ...] = ()
    ) -> tuple[T, bytes]:
        """Ask for something and return it decoded and as it came."""
        with self.ask("GET", parts, query) as answer:
            body = answer.body()
        return decoded(body, kind), body

    def _connect(self) -> socket.socket:
        try:
            sock = connect_unix(self.path, ANSWER_S)
        except OperatingError as failure:
            raise VerbError(
                f"no agent to talk to: {failure}; start one with 'nodeagent run', or say where it is with --root-dir"
            ) from None
        pid, uid = peer_of(sock)
        if uid not in (0, os.geteuid()):
            sock.close()
            raise VerbError(
                f"what listens on {self.path} (process {pid}) runs as user {uid}, neither root nor you: it is not believed;"
                " say where the agent is with --root-dir"
            )
        return sock


def decoded(body: bytes, kind: type[T]) -> T:
    """Return an answer as data. Raises `VerbError` for one that is not of this kind."""
    try:
        return from_json(body, kind)
    except UndecodableError as error:
        raise VerbError(f"cannot read the agent's answer ({error}); is it of another version?") from None


def _size(text: str, base: int) -> int:
    """Return a size that an answer names. Raises `VerbError` for what is none."""
    digits = text.partition(";")[0].strip() if base == 16 else text
    if not SIZE.fullmatch(digits) or (base == 10 and not digits.isdecimal()):
        raise VerbError(
            "cannot read the agent's answer: a length in it is no number; is it of another version?"
        )
    size = int(digits, base)
    if size > BODY_LIMIT_BYTES:
        raise _too_long()
    return size


def _too_long() -> VerbError:
    return VerbError("cannot read the agent's answer: it is too long; is it of another version?")


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
