"""Serves requests on a bounded number of daemon threads, one per connection, none while idle.

```text
accept thread (blocked in the kernel while idle) --connection--> thread: read, answer, close
                                 too many at once --------------> the slowest request that is still arriving is dropped,
                                                                  with none such: 503 that says which requests hold the places
```

A view that hangs holds its own thread only. Long requests (a followed log, a command) may use three quarters of the
places, so that there is always one left to ask what is going on.
"""

import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable

import msgspec

from runtime.server.wire import Exchange, Request, RequestRefusedError, Response, linger

Answer = Callable[[Request], Response]
"""Answers one request; raises `RequestRefusedError` for one that is answered with an error."""

OnBug = Callable[[str, BaseException], None]
"""Called for a request (``GET /explain/default/web``) whose answer failed with an unexpected exception."""

ACCEPT_PAUSE_S = 0.2
"""Pause after a failed accept (no file descriptors left), so that the loop does not spin."""


class _Visit(msgspec.Struct):
    """One connection being served; the accept thread reads it, its own thread writes it."""

    since: float
    what: str = "a request that is still arriving"
    arriving: bool = True
    long: bool = False


class Server:
    """One listening socket and the connections it brought."""

    def __init__(
        self,
        sock: socket.socket,
        answer: Answer,
        *,
        name: str,
        limit: int = 32,
        is_long: Callable[[Request], bool] = lambda _request: False,
        on_bug: OnBug = lambda _what, _error: None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.sock = sock
        self._answer, self._is_long, self._on_bug = answer, is_long, on_bug
        self._name, self._limit, self._long_limit = name, limit, limit * 3 // 4
        self._close = close or sock.close
        self._lock = threading.Lock()
        self._visits: dict[socket.socket, _Visit] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._accept, name=f"{name}-accept", daemon=True)

    def start(self) -> None:
        """Begin to serve; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and end every connection; returns soon, whatever a view is doing."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive():
            self._thread.join(2.0)
        self._close()
        with self._lock:
            open_ = list(self._visits)
        for conn in open_:
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)

    def busy(self) -> tuple[str, ...]:
        """Return what is being answered right now and for how long, oldest first."""
        now = time.monotonic()
        with self._lock:
            visits = sorted(self._visits.values(), key=lambda visit: visit.since)
            return tuple(f"{visit.what} for {now - visit.since:.0f} s" for visit in visits)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                conn, _ = self.sock.accept()
            except OSError as error:
                if self._stopping.is_set() or error.errno in {errno.EBADF, errno.EINVAL}:
                    return
                self._stopping.wait(ACCEPT_PAUSE_S)
                continue
            if not self._let_in(conn):
                self._reject(conn)
                continue
            try:
                threading.Thread(target=self._serve, args=(conn,), name=self._name, daemon=True).start()
            except RuntimeError:  # no more threads on this machine
                self._reject(conn)
                self._forget(conn)

    def _let_in(self, conn: socket.socket) -> bool:
        """Give a connection a place; when all are taken, the place of the request that has been arriving longest.

        So no client keeps others out by sending nothing. A completely read request is never dropped.
        """
        dropped = None
        with self._lock:
            if len(self._visits) >= self._limit:
                dropped = next((one for one, visit in self._visits.items() if visit.arriving), None)
                if dropped is None:
                    return False
                del self._visits[dropped]
            self._visits[conn] = _Visit(since=time.monotonic())
        if dropped is not None:
            # Its thread, which may be closing it this moment, wakes with nothing more to read.
            with contextlib.suppress(OSError):
                dropped.shutdown(socket.SHUT_RDWR)
        return True

    def _reject(self, conn: socket.socket) -> None:
        # One small write into an empty socket buffer: it fits or the client is gone, the accept thread never waits.
        with contextlib.suppress(OSError), conn:
            with contextlib.suppress(BlockingIOError):
                conn.recv(16 << 10, socket.MSG_DONTWAIT)  # unread bytes would turn our answer into a reset
            Exchange(conn).write(_too_busy(self._limit, self.busy()).response)

    def _forget(self, conn: socket.socket) -> None:
        with self._lock:
            self._visits.pop(conn, None)

    def _serve(self, conn: socket.socket) -> None:
        try:
            with conn:
                self._visit(conn)
        except OSError:
            pass  # The client closed the connection or stopped reading.
        finally:
            self._forget(conn)

    def _visit(self, conn: socket.socket) -> None:
        exchange = Exchange(conn)
        try:
            request = exchange.read()
        except RequestRefusedError as refused:
            exchange.write(refused.response)
            linger(conn)
            return
        if request is None or not self._arrived(conn):
            return
        response = self._respond(conn, request)
        try:
            if response.tunnel is not None:
                exchange.grant(response.tunnel)
                response.tunnel.run(conn)
                return
            exchange.write(response)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - a log that fails half-way must not print a traceback
            self._on_bug(f"{request.method} {request.path}", error)
        finally:
            for held in (response.pieces, response.tunnel):
                if held is not None:
                    held.close()

    def _arrived(self, conn: socket.socket) -> bool:
        """Note that a request was read whole; return False where its place was given away meanwhile."""
        with self._lock:
            visit = self._visits.get(conn)
            if visit is not None:
                visit.arriving = False
            return visit is not None

    def _respond(self, conn: socket.socket, request: Request) -> Response:
        what = f"{request.method} {request.path}"
        try:
            self._admit(conn, request, what)
            return self._answer(request)
        except RequestRefusedError as refused:
            return refused.response
        except Exception as error:  # noqa: BLE001 - the HTTP view is where bugs must not reach a person as a traceback
            self._on_bug(what, error)
            # The text of an unexpected exception may contain secrets.
            return RequestRefusedError(
                500,
                "InternalError",
                f"the agent failed to answer {what}: {type(error).__name__}",
                "this is a bug; see the agent's log",
            ).response

    def _admit(self, conn: socket.socket, request: Request, what: str) -> None:
        long = self._is_long(request)
        with self._lock:
            taken = sum(visit.long for visit in self._visits.values())
            if not (full := long and taken >= self._long_limit):
                visit = self._visits[conn]
                visit.what, visit.long = what, long
        if full:
            raise _too_busy(self._long_limit, self.busy())


def _too_busy(limit: int, busy: tuple[str, ...]) -> RequestRefusedError:
    shown = "; ".join(busy[:8]) + ("; ..." if len(busy) > 8 else "")
    return RequestRefusedError(
        503,
        "TooBusy",
        f"all {limit} connections of this socket are in use; retry soon",
        f"busy with: {shown}",
    )
