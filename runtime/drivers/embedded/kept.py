"""One sandbox in the driver: its last record, the connection to its keeper, requests in flight."""

import contextlib
import os
import selectors
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from api.decoding import ready
from api.errors import Failure, FailureKind
from runtime.drivers.embedded import record as records
from runtime.drivers.embedded.descriptor import leave_spare
from runtime.drivers.embedded.keeper import frame, process, store
from runtime.net.loop import Loop

RECONNECT_S = 0.5
NOBODY = (ConnectionRefusedError, FileNotFoundError, NotADirectoryError)
"""Errors of a connection without a keeper; any other is not about the keeper."""

Answer = Callable[[dict[str, Any] | None, Failure | None], None]


class Hello(msgspec.Struct, frozen=True):
    """The first message of a keeper: its identity and the protocol versions it supports."""

    pid: int
    start: int
    oldest: int
    newest: int


class Kept:
    """A sandbox. With `is_joining` the keeper has not spoken yet; without a link the record is the driver's own."""

    def __init__(
        self,
        loop: Loop,
        identity: str,
        folder: Path,
        changed: Callable[["Kept"], None],
        lost: Callable[["Kept"], None],
    ) -> None:
        self.id = identity
        self.folder = folder
        self.record: records.SandboxRecord | None = None
        self.keeper: records.KeeperRow | None = None
        self.is_joining = False
        self.is_settling = False
        """The keeper died; its remaining processes are being killed."""
        self.trouble = ""
        """Why the keeper cannot be reached now, empty when it can or none is there; retried meanwhile."""
        self.fatal = ""
        """The keeper server's error when it could not fork this keeper."""
        self._loop = loop
        self._changed = changed
        self._lost = lost
        self._sock: socket.socket | None = None
        self._inbox = frame.FrameReader()
        self._unsent = bytearray()
        self._is_waiting_to_send = False
        self._number = 0
        self._asked: dict[int, Answer] = {}
        self._held: list[bytes] = []
        self._version: int | None = None
        self._mismatch = ""

    @property
    def is_live(self) -> bool:
        """Whether a keeper is connected, or about to be."""
        return self._sock is not None or self.is_joining

    @property
    def is_ready(self) -> bool:
        """Whether containers can be made in it."""
        return self.is_live and self.record is not None and self.record.sandbox.state == "ready"

    def connect(self) -> bool:
        """Connect to the keeper's socket; return False when no process listens there.

        Where that is unknown, as without descriptors, it is retried, and calls fail with the `trouble`.
        """
        self.trouble = ""
        try:
            sock = self._open_connection()
        except NOBODY:
            return False
        except BlockingIOError:
            # A process listens and does not accept: a hanging keeper is still a keeper.
            self._connect_later()
            return True
        except OSError as error:
            self.trouble = f"the keeper of sandbox {self.id} cannot be reached now: {error.strerror}"
            self._held.clear()
            self.fail_all(Failure(kind=FailureKind.UNAVAILABLE, message=self.trouble))
            self._connect_later()
            return True
        if frame.peer_uid(sock) not in (0, os.geteuid()):
            sock.close()
            return False
        self.attach(sock)
        return True

    def _open_connection(self) -> socket.socket:
        """Return a connection to the keeper's socket. Raises OSError."""
        # A socket's address has at most 108 bytes: a descriptor stands for the folder, however long its path.
        place = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
        try:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                leave_spare(sock.fileno())
                sock.setblocking(False)
                sock.connect(f"/proc/self/fd/{place}/{store.SOCKET}")
            except OSError:
                sock.close()
                raise
        finally:
            os.close(place)
        return sock

    def _connect_later(self) -> None:
        self.is_joining = True
        self._loop.after(RECONNECT_S, self._reconnect)

    def _reconnect(self) -> None:
        if self._sock is None and self.is_joining and not self.connect():
            self._drop()

    def attach(self, sock: socket.socket) -> None:
        """Use a connection to the keeper; its first words are awaited."""
        sock.setblocking(False)
        self._sock = sock
        self.is_joining = True
        self._loop.watch(sock, self._ready)

    def request(self, op: str, answer: Answer, **fields: Any) -> int:
        """Ask the keeper; `answer` follows once, also when the keeper dies. Returns the request's number."""
        self._number += 1
        number = self._number
        if self._mismatch or self.trouble:
            answer(None, Failure(kind=FailureKind.UNAVAILABLE, message=self._mismatch or self.trouble))
            return number
        data = frame.pack({"id": number, "op": op} | fields)
        if len(data) > frame.MAX_REQUEST_BYTES:
            text = f"a keeper takes requests of {frame.MAX_REQUEST_BYTES} bytes, and this one ({op}) has {len(data)}; reduce the request"
            answer(None, Failure(kind=FailureKind.REJECTED, message=text))
            return number
        self._asked[number] = answer
        if self._version is None:
            self._held.append(data)
        else:
            self._send(data)
        return number

    def waits_for(self, number: int) -> bool:
        """Return whether the keeper has not answered a request yet."""
        return number in self._asked

    def speaks(self, version: int) -> bool:
        """Return whether the keeper supports this version of the protocol; one that has not sent its hello may."""
        return self._version is None or self._version >= version

    def disconnect(self) -> None:
        """Disconnect from the keeper; waiting calls are not answered."""
        if self._sock is not None:
            self._loop.forget(self._sock)
            self._sock.close()
            self._sock = None

    def fail_all(self, failure: Failure) -> None:
        """Answer everything that was asked with `failure`."""
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            answer(None, failure)

    def kill_keeper(self) -> None:
        """SIGKILL a keeper that does not answer; never another process of its number."""
        row = self._keeper_row()
        seen = process.look(row.pid) if row else None
        if row and seen and seen.start == row.start:
            process.kill_exactly(seen)

    def keeper_is_alive(self) -> bool:
        """Return whether the keeper's process still exists. Raises OSError where that cannot be determined."""
        row = self._keeper_row()
        return row is not None and process.is_alive(row.pid, row.start)

    def _keeper_row(self) -> records.KeeperRow | None:
        """Return which process the keeper is, None when it cannot be one of this run of the machine."""
        if self.keeper is not None:
            return self.keeper
        return self.record.keeper if self.record and self.record.boot == process.boot_id() else None

    def load(self) -> None:
        """Take the record from disk. Raises store.DamagedError, and OSError where this process lacks what it takes to read."""
        body = store.read(os.fspath(self.folder))
        if body is None:
            self.record = None
            return
        try:
            self.record = records.decode(body)
        except msgspec.ValidationError as error:
            raise store.DamagedRecordError(f"{self.folder}/{store.NAME}: {error}") from None

    def is_stored(self) -> bool:
        """Return whether the record on disk is the one that is known. Raises OSError."""
        try:
            body = store.read(os.fspath(self.folder))
            return body is not None and records.decode(body) == self.record
        except (store.DamagedRecordError, msgspec.ValidationError):
            return False

    def save(self, record: records.SandboxRecord) -> None:
        """Replace the record of a sandbox that has no keeper any more. Raises OSError."""
        self.record = record
        store.write(os.fspath(self.folder), records.encode(record), durable=True)

    def _ready(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._send(b"")
        if not mask & selectors.EVENT_READ or self._sock is None:
            return
        bodies = self._inbox.receive(self._sock)
        if bodies is None:
            self._drop()
            return
        for body in bodies:
            self._take(body)

    def _drop(self) -> None:
        self.disconnect()
        self.is_joining = False
        self._lost(self)

    def _take(self, body: dict[str, Any]) -> None:
        if "fatal" in body:
            self.fatal = str(body["fatal"])
            return
        number = body.get("id")
        try:
            hello = msgspec.convert(body["hello"], ready(Hello)) if "hello" in body else None
            # Fields that a newer keeper has and we do not know are passed over.
            record = records.decode(body["record"]) if body.get("record") is not None else None
            answer = self._asked.get(number) if isinstance(number, int) else None
            result, failure = _outcome(body) if answer is not None else (None, None)
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            # An invalid answer fails the call that it belongs to, where that is known.
            text = f"the keeper of sandbox {self.id} sent an invalid message: {type(error).__name__}: {error}"
            hello = record = result = None
            body = {}
            failure = Failure(kind=FailureKind.UNAVAILABLE, message=text)
            answer = self._asked.get(number) if isinstance(number, int) else None
        if hello is not None:
            self._meet(hello)
        if record is not None:
            self.record = record
        if "record" in body:
            self._changed(self)
        if answer is not None and number in self._asked:
            del self._asked[number]
            answer(result, failure)

    def _meet(self, hello: Hello) -> None:
        self.keeper = records.KeeperRow(pid=hello.pid, start=hello.start)
        self.is_joining = False
        self._version = frame.agreed_version(hello.oldest, hello.newest)
        if self._version is None:
            self._mismatch = (
                f"the keeper of sandbox {self.id} (process {hello.pid}) speaks protocol {hello.oldest} to "
                f"{hello.newest}, this agent {frame.OLDEST} to {frame.NEWEST}: its pod runs on and cannot be changed; "
                "run the agent's other version to stop it"
            )
            self.fail_all(Failure(kind=FailureKind.UNAVAILABLE, message=self._mismatch))
            return
        self._send(frame.pack({"speak": self._version}) + b"".join(self._held))
        self._held.clear()

    def _send(self, data: bytes) -> None:
        self._unsent += data
        if self._sock is None:
            return
        try:
            while self._unsent:
                del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            # The reading side notices the same and fails all calls.
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            self._unsent.clear()
        if bool(self._unsent) != self._is_waiting_to_send:
            self._is_waiting_to_send = bool(self._unsent)
            self._loop.watch(self._sock, self._ready, writable=self._is_waiting_to_send)


def _outcome(body: dict[str, Any]) -> tuple[dict[str, Any] | None, Failure | None]:
    """Return the result of a call, or why it failed. Raises what data of another shape raises."""
    error = body.get("error")
    if error is None:
        return body["ok"], None
    return None, Failure(kind=FailureKind(error["kind"]), message=error["message"], reason=error["reason"])
