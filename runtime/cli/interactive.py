"""A command in a container whose streams are this process's: ``exec -i``, ``-t``, ``-it``.

```text
stdin, window size --> session --> connection --> agent --> container runtime --> the command
stdout, stderr     <-- session <-- connection <-----------------------------------
exit code          <-- the error stream's Status
```

One thread and one loop. Standard input is read only while the connection takes what it brings, and the connection
only while standard output takes what it brought. The streams are those of Kubernetes' ``v4.channel.k8s.io``.
"""

import contextlib
import errno
import os
import re
import select
import socket
import sys
import time

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import OperatingError
from runtime.cli.client import VerbError
from runtime.cli.terminal import (
    EndedBySignalError,
    Size,
    drain,
    ending_signals,
    raw,
    size_of,
    window_changes,
)
from runtime.net.spdy.session import Broken, Event, HalfClosed, Opened, Received, Session

PROTOCOL = "SPDY/3.1"
SUBPROTOCOL = "v4.channel.k8s.io"
READ_BYTES = 32 << 10
BACKLOG_BYTES = 64 << 10
"""Most bytes that wait for the connection before standard input is left unread."""
EXIT_CODE = re.compile(r"[0-9]{1,9}", re.ASCII)
STATUS_LIMIT_BYTES = 64 << 10
PIPE_BYTES = 64 << 10
"""Input that a runtime buffers when the command does not read; with more, containerd 1.6 may never report its end."""
LAST_WORD_S = 30.0
"""How long the status may take after a command got that much and its outputs were closed."""
STDIN, STDOUT, STDERR = 0, 1, 2


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which streams a command gets."""

    stdin: bool
    tty: bool


class StatusCause(msgspec.Struct, frozen=True, kw_only=True):
    """One detail of a status."""

    reason: str = ""
    message: str = ""


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """The details of a status."""

    causes: tuple[StatusCause, ...] = ()


class CommandStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A ``metav1.Status``: how the command ended."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: Details | None = None


def exit_code(text: bytes) -> int:
    """Return the exit code of a status. Raises `VerbError` for another failure, or none."""
    try:
        outcome = from_json(text, CommandStatus)
    except UndecodableError:
        outcome = CommandStatus(message=text.decode("utf-8", "replace").strip())
    if outcome.status == "Success":
        return 0
    for cause in outcome.details.causes if outcome.details else ():
        if cause.reason == "ExitCode" and EXIT_CODE.fullmatch(cause.message):
            return int(cause.message)
    if not text:
        raise VerbError("the connection to the container ended before the command; the command may still run")
    raise VerbError(f"the command failed: {outcome.message or outcome.reason or 'unknown reason'}")


def wanted_streams(*, stdin: bool, tty: bool) -> Wanted:
    """Return which streams to request; a terminal only if standard input is one, as kubectl does."""
    if tty and not _is_terminal(STDIN):
        print("Unable to use a TTY - input is not a terminal or the right kind of file", file=sys.stderr)
        tty = False
    return Wanted(stdin=stdin, tty=tty)


def query_of(command: list[str], wanted: Wanted) -> tuple[tuple[str, str], ...]:
    """Return the query of the exec request."""
    flags = [("stdin", wanted.stdin), ("stdout", True), ("stderr", not wanted.tty), ("tty", wanted.tty)]
    return (
        *(("command", word) for word in command),
        *((name, "true") for name, given in flags if given),
    )


def run_streams(sock: socket.socket, early: bytes, wanted: Wanted) -> int:
    """Connect this process's streams with the command's until it ends, and return its exit code.

    `sock` is the upgraded connection and `early` what came on it already. 128 + n when signal n ended this verb.
    Raises `VerbError` when the command could not be run, or the connection ends before it.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(ending_signals())
            resized = stack.enter_context(window_changes()) if wanted.tty else -1
            if wanted.tty:
                # Without input, keys stay the user's own: ^C ends the verb.
                stack.enter_context(raw(STDIN, keys=wanted.stdin))
            return _Streams(sock, wanted, resized).run(early)
        except EndedBySignalError as ended:
            return 128 + ended.number
        except OperatingError as failure:
            raise VerbError(f"the connection to the container failed: {failure}") from None


class _Streams:
    def __init__(self, sock: socket.socket, wanted: Wanted, resized: int) -> None:
        self._sock, self._resized = sock, resized
        # Every endpoint of these streams is Go's spdystream, which has no windows.
        self._session = Session(windows=False)
        self._out = bytearray()
        self._status = bytearray()
        self._error = self._open("error")
        # Without standard input (closed by the parent) the command's standard input ends at once.
        self._stdin = self._open("stdin") if wanted.stdin else 0
        self._outputs = {self._open("stdout"): STDOUT}
        if wanted.tty:
            self._resize = self._open("resize")
        else:
            self._outputs[self._open("stderr")] = STDERR
        self._size: Size | None = None
        self._running = {self._error, *self._outputs}
        """Streams that the peer has not closed yet."""
        self._sent = 0
        """Bytes of input so far."""
        self._moved_at = time.monotonic()
        """When bytes last went either way."""
        self._reading = bool(self._stdin)
        if self._reading and sys.stdin is None:
            self._end_input()

    def run(self, early: bytes) -> int:
        self._sock.settimeout(None)
        self._sock.setblocking(False)
        if self._resized >= 0:
            self._send_size()
        self._absorb(self._session.receive(early))
        while self._running:
            if not self._step():
                break
        return exit_code(bytes(self._status))

    def _open(self, kind: str) -> int:
        # Nothing is half-closed from the start: some peers take the end of any stream for the end of the command.
        return self._session.open((("streamtype", kind),))

    def _step(self) -> bool:
        """Wait for something to do and do it; False when the connection has ended."""
        self._out += self._session.outgoing()
        poll = select.poll()
        poll.register(self._sock, select.POLLIN | (select.POLLOUT if self._out else 0))
        backlog = len(self._out) + (self._session.waiting(self._stdin) if self._stdin else 0)
        if self._reading and backlog < BACKLOG_BYTES:
            poll.register(STDIN, select.POLLIN)
        if self._resized >= 0:
            poll.register(self._resized, select.POLLIN)
        left_s = self._patience_s()
        found = dict(poll.poll(None if left_s is None else left_s * 1000))
        if not found and self._patience_s() == 0:
            raise VerbError(
                f"the command closed its outputs, but the container runtime did not report its exit within {LAST_WORD_S:g} s:"
                " containerd does not when a command ends without reading its input"
            )
        if self._resized in found:
            drain(self._resized)
            self._send_size()
        if self._reading and STDIN in found:
            self._read_input()
        if found.get(self._sock.fileno(), 0) & select.POLLOUT:
            self._write()
        if found.get(self._sock.fileno(), 0) & ~select.POLLOUT:
            return self._receive()
        return True

    def _patience_s(self) -> float | None:
        """Return how long nothing may happen any more, None where that may take as long as the command likes.

        containerd reads all input before it reports the end of a command, and sometimes the input is never
        read. The client only sees closed outputs, more input than a pipe holds, and silence.
        """
        if self._running != {self._error} or self._sent <= PIPE_BYTES:
            return None
        return max(0.0, self._moved_at + LAST_WORD_S - time.monotonic())

    def _receive(self) -> bool:
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._moved_at = time.monotonic()
        self._absorb(self._session.receive(data))
        return bool(data)

    def _write(self) -> None:
        # The next read reports a closed connection, after the data it still delivered.
        with contextlib.suppress(OSError):
            del self._out[: self._sock.send(self._out)]
            self._moved_at = time.monotonic()

    def _absorb(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Received(stream=stream, data=data):
                    if stream == self._error:
                        self._status += data[: STATUS_LIMIT_BYTES - len(self._status)]
                    elif stream in self._outputs:
                        _write_all(self._outputs[stream], data)
                    self._session.consumed(stream, len(data))
                case HalfClosed(stream=stream) | Broken(stream=stream):
                    self._running.discard(stream)
                    if stream == self._stdin and not self._session.is_open(stream):
                        self._reading = False
                case Opened(stream=stream):
                    self._session.reset(stream)
                case _:
                    pass

    def _read_input(self) -> None:
        try:
            data = os.read(STDIN, READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in {errno.EIO, errno.EBADF}:
                raise VerbError(f"cannot read standard input: {error.strerror}") from None
            data = b""
        if data:
            self._sent += len(data)
            self._session.send(self._stdin, data)
        else:
            self._end_input()

    def _end_input(self) -> None:
        self._reading = False
        self._session.finish(self._stdin)

    def _send_size(self) -> None:
        size = size_of(STDOUT) or size_of(STDIN)
        if size is not None and size != self._size:
            self._size = size
            self._session.send(self._resize, msgspec.json.encode(size) + b"\n")


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            # Another process that shares our terminal made it non-blocking.
            select.select([], [fd], [])
        except BrokenPipeError:
            raise  # The reader has closed the pipe: no failure.
        except OSError as error:
            raise VerbError(f"cannot write the command's output: {error.strerror}") from None


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False
