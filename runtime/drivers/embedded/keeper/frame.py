"""Frames between driver and keeper: four bytes of length, then one JSON object.

A keeper speaks first: ``{"hello": {"oldest": n, "newest": n, "sandbox": id, "pid": n, "start": ticks}, "record": ...}``.
The driver answers ``{"speak": n}`` with a version both know, then sends ``{"id": n, "op": name, ...}``. For each the
keeper sends one ``{"id": n, "ok": ...}`` or ``{"id": n, "error": {"kind", "message", "reason"}}``, and before it
``{"record": ...}`` whenever the record changed. The record is whole each time: a level, not a difference.
"""

from __future__ import annotations

import errno
import json
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWEST = 4
"""The protocol version that this code speaks: 2 adds the operation ``reopen_log``, 3 mounts of containers, 4 containers
without new privileges."""
OLDEST = 1
"""The oldest version that this code still understands."""
MAX_FRAME_BYTES = 64 << 20
MAX_REQUEST_BYTES = 16 << 20
"""Limit of a frame to a keeper: several times what the kernel takes as arguments and environment, however it is escaped."""
RECEIVE_BYTES = 64 << 10
LATER = (errno.EAGAIN, errno.EINTR, errno.ENOBUFS, errno.ENOMEM)
"""Errors of a read that are not the other side's fault."""

Body = dict[str, "Any"]

encode = json.JSONEncoder(separators=(",", ":")).encode
"""The one JSON writer, made before the keepers are forked."""


def _refuse(word: str) -> None:
    """Take no NaN: as a time it would be neither due nor later than any other."""
    raise ValueError(word)


_decode = json.JSONDecoder(parse_constant=_refuse).decode
_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")


class FrameError(Exception):
    """The other side sent an invalid frame; the connection is unusable."""


def pack(body: Body) -> bytes:
    """Return the frame of one object."""
    data = encode(body).encode()
    return _LENGTH.pack(len(data)) + data


class FrameReader:
    """Bytes in, objects out."""

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._bytes = bytearray()
        self._limit = limit

    def receive(self, sock: socket.socket) -> list[Body] | None:
        """Read a socket once and return the complete objects; None: end of file or an invalid frame."""
        try:
            data = sock.recv(RECEIVE_BYTES)
            return self.feed(data) if data else None
        except OSError as error:
            # Where this process lacks memory the connection is as good as before.
            return [] if error.errno in LATER else None
        except FrameError:
            return None

    def feed(self, data: bytes) -> list[Body]:
        """Take what a socket gave and return the objects that are complete; raise FrameError on nonsense."""
        self._bytes += data
        found = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > self._limit:
                raise FrameError(f"a frame of {length} bytes is announced, the limit is {self._limit}")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            try:
                body = _decode(self._bytes[_LENGTH.size : end].decode())
            except (ValueError, RecursionError):
                # Also JSON that is nested deeper than the interpreter allows.
                raise FrameError("a frame is not JSON") from None
            if not isinstance(body, dict):
                raise FrameError("a frame is not a JSON object")
            found.append(body)
            del self._bytes[:end]
        return found


def agreed_version(oldest: int, newest: int) -> int | None:
    """Return the newest version that both this code and a peer with oldest..newest support, None without one."""
    version = min(NEWEST, newest)
    return version if version >= max(OLDEST, oldest) else None


def peer_uid(link: socket.socket) -> int:
    """Return the user id of the process at the other end of a unix socket."""
    raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return int(uid)
