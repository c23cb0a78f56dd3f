"""The driver's side of the keeper server: starts it on demand, requests keepers, restarts it when it died."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from api.decoding import ready
from api.errors import Failure, FailureKind
from runtime.drivers.embedded.descriptor import leave_spare
from runtime.net.loop import Loop

KEEPER_PACKAGE = Path(__file__).parent / "keeper"
RETRY_S = 0.005
MAX_FAILED_STARTS = 2
"""Consecutive starts without an answer; then waiting callers get an error."""


class Permitted(msgspec.Struct, frozen=True):
    """The permissions that the keeper server found on this machine."""

    protocol: int
    pid: int
    cgroups: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class _ForkRequest(msgspec.Struct):
    request: bytes
    end: socket.socket
    """The keeper's end of its first connection."""
    failed: Callable[[Failure], None]


class KeeperServer:
    """Owner of the keeper server process. All methods on the loop's thread."""

    def __init__(self, loop: Loop, folder: Path, cgroup_name: str, open_files: int = 0) -> None:
        self._loop = loop
        self._folder = folder
        self._cgroup_name = cgroup_name
        self._open_files = open_files
        self._link: socket.socket | None = None
        self._starter: subprocess.Popen[bytes] | None = None
        self._requests: deque[_ForkRequest] = deque()
        self._waiting: list[Callable[[Failure | None], None]] = []
        self._failed_starts = 0
        self.permitted: Permitted | None = None
        """The first message of the last keeper server, None before."""

    def places(self) -> tuple[str, ...]:
        """Return our folder in each hierarchy of cgroups that the machine permits."""
        return self.permitted.cgroups if self.permitted is not None else ()

    def when_ready(self, then: Callable[[Failure | None], None]) -> None:
        """Call `then` once the keeper server has answered, or with the error of its start."""
        if self._link is not None and self.permitted is not None and self._starter is None:
            then(None)
            return
        self._waiting.append(then)
        self._ensure()

    def fork_keeper(self, sandbox: str, directory: Path, failed: Callable[[Failure], None]) -> socket.socket:
        """Fork a keeper; return our end of its first connection, usable at once. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            leave_spare(ours.fileno())
        except OSError:
            ours.close()
            theirs.close()
            raise
        request = json.dumps({"sandbox": sandbox, "directory": os.fspath(directory)}).encode()
        self._requests.append(_ForkRequest(request, theirs, failed))
        self._ensure()
        self._send_requests()
        return ours

    def close(self) -> None:
        """Disconnect from the keeper server, which ends; the keepers stay."""
        if self._link is not None:
            self._loop.forget(self._link)
            self._link.close()
            self._link = None
        self._reap()
        for request in self._requests:
            request.end.close()
        self._requests.clear()

    def _ensure(self) -> None:
        if self._link is not None:
            return
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            self._fail(f"it cannot be started: {error.strerror}")
            return
        ours.setblocking(False)
        try:
            with theirs, open(self._folder / "nursery.err", "wb", opener=_private) as errors:
                self._starter = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        "-X",
                        "utf8",
                        KEEPER_PACKAGE,
                        str(theirs.fileno()),
                        self._cgroup_name,
                        str(self._open_files),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    cwd="/",
                    # The agent's own environment may contain secrets: it is not passed to keepers or pods.
                    env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                )
        except OSError as error:
            ours.close()
            self._fail(f"it cannot be started: {error.strerror}")
            return
        self._link = ours
        self._loop.watch(ours, self._receive)

    def _receive(self, _: int) -> None:
        link = self._link
        if link is None:
            return
        try:
            data = link.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost(link)
            return
        self.permitted = msgspec.json.decode(data, type=ready(Permitted))
        self._failed_starts = 0
        self._reap()
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(None)
        self._send_requests()

    def _lost(self, link: socket.socket) -> None:
        spoke = self._starter is None
        self._loop.forget(link)
        link.close()
        self._link = None
        self._reap()
        if not spoke:
            self._failed_starts += 1
        if self._failed_starts >= MAX_FAILED_STARTS:
            self._fail(f"it exited at once: {self._last_error()}")
        elif self._requests or self._waiting:
            self._ensure()

    def _fail(self, why: str) -> None:
        self._failed_starts = 0
        failure = Failure(
            kind=FailureKind.UNAVAILABLE,
            message=f"the embedded runtime's keeper server does not run: {why}; see {self._folder}/nursery.err",
        )
        requests, self._requests = self._requests, deque()
        for request in requests:
            request.end.close()
            request.failed(failure)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(failure)

    def _last_error(self) -> str:
        try:
            lines = (self._folder / "nursery.err").read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "no message"

    def _reap(self) -> None:
        if self._starter is not None:
            # It has forked the keeper server and is ending, or has ended: this never waits long.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._starter.wait(5.0)
            self._starter = None

    def _send_requests(self) -> None:
        while self._requests and self._link is not None and self._starter is None:
            request = self._requests[0]
            try:
                socket.send_fds(self._link, [request.request], [request.end.fileno()])
            except BlockingIOError:
                self._loop.after(RETRY_S, self._send_requests)
                return
            except ConnectionError:
                # It died just now; the loop reports it next, and a new one gets the request.
                return
            except OSError as error:
                # The kernel passes on no more descriptors now.
                self._requests.popleft()
                request.end.close()
                request.failed(
                    Failure(
                        kind=FailureKind.UNAVAILABLE,
                        message=f"the embedded runtime's keeper server cannot fork a keeper: {error.strerror}",
                    )
                )
                continue
            self._requests.popleft()
            request.end.close()


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, 0o600)
