r"""One conversation on the loop: it reaches its host, and is over once: done, failed, late or taken back.

```text
start --> [resolver] --> connect --> reached --(subclass: talk)--> succeed | fail
   \______________________ its time is up: fail, TimedOut ______________/
```

Everything here happens on the loop's thread, except `cancel`. An unexpected exception ends the conversation in
which it happened, and no other.
"""

import contextlib
import errno
import os
import socket
from collections import deque
from collections.abc import Callable

import msgspec

from api.errors import Failure, FailureKind
from api.ports.net import UNREACHED, host_port
from api.ports.port import Done
from runtime.net.loop import Loop
from runtime.net.resolver import Address, Resolver, literal

WORN_OUT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
"""Errors of this machine, which say nothing about the other side."""

OnBug = Callable[[str, BaseException], None]
"""Called for a conversation (``HttpConversation with 10.0.0.7:80``) that failed with an unexpected exception."""


class Conversation:
    """A conversation with one host; subclasses have the protocol and the texts of its failures."""

    def __init__(self, loop: Loop, resolver: Resolver, timeout_s: float, done: Done, on_bug: OnBug) -> None:
        self._loop, self._resolver, self.timeout_s = loop, resolver, timeout_s
        self._done: Done | None = done
        self._on_bug = on_bug
        self._sock: socket.socket | None = None
        self._left: deque[Address] = deque()
        self.place = ""
        """The address that is being reached, as it stands in texts."""
        self.is_reached = False

    # ------------------------------------------------------------ to be defined by a subclass

    def reached(self, sock: socket.socket) -> None:
        """Begin to talk."""
        raise NotImplementedError

    def late(self) -> str:
        """Return the text of a timeout."""
        raise NotImplementedError

    def unreached(self, why: str) -> str:
        """Return the text of a failure to connect."""
        return why

    # ------------------------------------------------------------ its life

    def start(self, host: str, port: int) -> None:
        """Begin."""
        if self._done is not None:
            self._loop.after(self.timeout_s, lambda: self._guard(self._expire))
            self._guard(lambda: self.go(host, port))

    def submit(self, step: Callable[[], None]) -> None:
        """Take a step on the loop's thread; may be called on any."""
        self._loop.submit(lambda: self._guard(step))

    def watch(self, sock: socket.socket, step: Callable[[], None], *, writable: bool = False) -> None:
        """Take a step whenever a socket is readable (or writable, if asked)."""
        self._loop.watch(sock, lambda _: self._guard(step), writable=writable)

    def _guard(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001  # the thread is everybody's
            place = f" with {self.place}" if self.place else ""
            self._on_bug(f"{type(self).__name__}{place}", error)
            # The text of an unexpected exception may contain secrets.
            why = f"{type(error).__name__} in the agent; this is a bug; see the agent's log"
            self.fail(FailureKind.UNAVAILABLE, self.unreached(why))

    def go(self, host: str, port: int) -> None:
        """Reach a host; one that was reached before is left."""
        self.leave()
        self.is_reached = False
        address = literal(host, port)
        if address is not None:
            self._left = deque((address,))
            self._next("")
            return
        self.place = host_port(host, port)
        self._resolver.ask(host, port, lambda found, why: self.submit(lambda: self._found(found, why)))

    def _found(self, found: tuple[Address, ...], why: str) -> None:
        if self._done is not None:
            self._left = deque(found)
            self._next(f"dial tcp: {why}")

    def _next(self, why: str) -> None:
        """Try the next address, or fail with why the last one was not reached."""
        if not self._left:
            self.fail(FailureKind.UNAVAILABLE, self.unreached(why), UNREACHED)
            return
        address = self._left.popleft()
        self.place = host_port(str(address.target[0]), address.target[1])
        try:
            sock = socket.socket(
                address.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            )
        except OSError as error:
            self._refused(error.errno or errno.EIO)
            return
        self._sock = sock
        try:
            code = sock.connect_ex(address.target)
        except (OSError, OverflowError) as error:
            self._refused((error.errno if isinstance(error, OSError) else None) or errno.EINVAL)
            return
        if code == errno.EINPROGRESS:
            # A peer on this machine has answered by now, which saves a pass of the loop.
            code = self._state()
        if code == errno.EINPROGRESS:
            self.watch(sock, self._connecting, writable=True)
        elif code:
            self._refused(code)
        else:
            self._connected()

    def _state(self) -> int:
        """Return how the connecting stands: an error, 0 for made, EINPROGRESS."""
        assert self._sock is not None
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            return code
        try:
            self._sock.getpeername()
        except OSError:
            return errno.EINPROGRESS
        return 0

    def _connecting(self) -> None:
        if self._sock is None:
            return
        code = self._state()
        if code == errno.EINPROGRESS:
            return
        if code:
            self._refused(code)
        else:
            self._connected()

    def _connected(self) -> None:
        assert self._sock is not None
        self.is_reached = True
        self.reached(self._sock)

    def _refused(self, code: int) -> None:
        self.leave()
        why = f"dial tcp {self.place}: connect: {os.strerror(code).lower()}"
        if code in WORN_OUT:
            self.fail(FailureKind.EXHAUSTED, self.unreached(why))
        else:
            self._next(why)

    def leave(self) -> None:
        """Close the connection, if there is one."""
        sock, self._sock = self._sock, None
        if sock is not None:
            self._loop.forget(sock)
            # A failure to close does not matter: the conversation is over.
            with contextlib.suppress(OSError):
                sock.close()

    # ------------------------------------------------------------ its end

    def succeed(self, result: msgspec.Struct) -> None:
        """End with a result."""
        self._end(result, None)

    def fail(self, kind: FailureKind, message: str, reason: str = "") -> None:
        """End with a failure."""
        self._end(None, Failure(kind=kind, message=message, reason=reason))

    def cancel(self) -> None:
        """Take it back; may be called on any thread."""
        self.submit(lambda: self.fail(FailureKind.CANCELLED, "cancelled"))

    def _expire(self) -> None:
        if self._done is not None:
            self.fail(FailureKind.TIMED_OUT, self.late(), "" if self.is_reached else UNREACHED)

    def _end(self, result: msgspec.Struct | None, failure: Failure | None) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        self.leave()
        done(result, failure)

    @property
    def over(self) -> bool:
        """Return whether it is over."""
        return self._done is None

    def is_on(self, sock: socket.socket) -> bool:
        """Return whether it still uses this socket."""
        return self._sock is sock
