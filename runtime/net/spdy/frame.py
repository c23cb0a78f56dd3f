"""Frames of SPDY/3.1 as data, and how they are written.

```text
control  1 | version 3 (15 bits) | kind (16) | flags (8) | length (24) | payload
data     0 | stream (31)                     | flags (8) | length (24) | bytes
```

Header blocks are compressed over a connection's life, so one `Encoder` and one `Decoder` serve one connection, and no
frame may be left out.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum

import msgspec

from runtime.net.spdy.header import Headers, Packer, SpdyError, Unpacker

VERSION = 3
FRAME_LIMIT_BYTES = 1 << 20
"""Most bytes of a frame that is accepted; peers send what one read brought, some 32 KiB."""
FINISH = 0x01
UNIDIRECTIONAL = 0x02
STREAM_MASK = 0x7FFF_FFFF
INITIAL_WINDOW_SIZE = 7
"""The id of the setting with the initial window: how much each stream may send before a window update."""


class FrameKind(IntEnum):
    """Kinds of control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class Status(IntEnum):
    """Why a stream is reset."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    CANCEL = 5
    FLOW_CONTROL_ERROR = 7
    STREAM_ALREADY_CLOSED = 9


class SynStream(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Opens a stream; odd ids are the client's."""

    stream: int
    headers: Headers = ()
    associated: int = 0
    priority: int = 0
    """0 is the highest, 7 the lowest."""
    finish: bool = False
    unidirectional: bool = False


class SynReply(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Accepts a stream."""

    stream: int
    headers: Headers = ()
    finish: bool = False


class RstStream(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Ends a stream in both directions at once."""

    stream: int
    status: int


class SettingsFrame(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Settings of the sender for the connection: pairs of id and value."""

    entries: tuple[tuple[int, int], ...] = ()


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Requests the same frame in return; odd ids are the client's."""

    id: int


class GoAway(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Announces that no stream after `last` will be served."""

    last: int
    status: int = 0


class HeadersFrame(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Adds headers to a stream."""

    stream: int
    headers: Headers = ()
    finish: bool = False


class WindowUpdate(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Allows `delta` bytes more on a stream, or on the connection (stream 0)."""

    stream: int
    delta: int


class Data(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Bytes of a stream."""

    stream: int
    data: bytes = b""
    finish: bool = False

    def __repr__(self) -> str:
        # What people type may be a password.
        return f"Data(stream={self.stream}, {len(self.data)} bytes, finish={self.finish})"


Frame = SynStream | SynReply | RstStream | SettingsFrame | Ping | GoAway | HeadersFrame | WindowUpdate | Data


class Encoder:
    """Writes the frames of one direction."""

    def __init__(self) -> None:
        self._packer = Packer()

    def encode(self, frame: Frame) -> bytes:
        """Return a frame's bytes."""
        match frame:
            case Data():
                word = struct.pack(">II", frame.stream, _flags(frame.finish) << 24 | len(frame.data))
                return word + frame.data
            case SynStream():
                flags = _flags(frame.finish) | (UNIDIRECTIONAL if frame.unidirectional else 0)
                start = struct.pack(">IIBB", frame.stream, frame.associated, frame.priority << 5, 0)
                return _control(FrameKind.SYN_STREAM, start + self._packer.pack(frame.headers), flags)
            case SynReply() | HeadersFrame():
                kind = FrameKind.SYN_REPLY if isinstance(frame, SynReply) else FrameKind.HEADERS
                block = struct.pack(">I", frame.stream) + self._packer.pack(frame.headers)
                return _control(kind, block, _flags(frame.finish))
            case RstStream():
                return _control(FrameKind.RST_STREAM, struct.pack(">II", frame.stream, frame.status))
            case SettingsFrame():
                entries = b"".join(struct.pack(">II", id_, value) for id_, value in frame.entries)
                return _control(FrameKind.SETTINGS, struct.pack(">I", len(frame.entries)) + entries)
            case Ping():
                return _control(FrameKind.PING, struct.pack(">I", frame.id))
            case GoAway():
                return _control(FrameKind.GOAWAY, struct.pack(">II", frame.last, frame.status))
            case WindowUpdate():
                return _control(FrameKind.WINDOW_UPDATE, struct.pack(">II", frame.stream, frame.delta))


class Decoder:
    """Reads the frames of one direction from bytes that come in any pieces."""

    def __init__(self) -> None:
        self._unpacker = Unpacker()
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now. Raises `SpdyError` for an invalid one."""
        self._data += data
        while len(self._data) >= 8:
            first, second = struct.unpack_from(">II", self._data)
            length = second & 0xFF_FFFF
            if length > FRAME_LIMIT_BYTES:
                raise SpdyError(
                    f"the peer sent a frame of {length} bytes; {FRAME_LIMIT_BYTES} are the most accepted"
                )
            if len(self._data) < 8 + length:
                return
            payload = bytes(self._data[8 : 8 + length])
            del self._data[: 8 + length]
            frame = self._frame(first, second >> 24, payload)
            if frame is not None:
                yield frame

    def _frame(self, first: int, flags: int, payload: bytes) -> Frame | None:
        if not first >> 31:
            if not first:
                raise SpdyError("the peer sent data of no stream")
            return Data(stream=first, data=payload, finish=bool(flags & FINISH))
        if first >> 16 & 0x7FFF != VERSION:
            raise SpdyError(f"the peer speaks SPDY/{first >> 16 & 0x7FFF}, not SPDY/{VERSION}")
        try:
            return self._control(first & 0xFFFF, flags, payload)
        except struct.error:
            raise SpdyError("the peer sent a frame that is too short for its kind") from None

    def _control(self, kind: int, flags: int, payload: bytes) -> Frame | None:
        finish = bool(flags & FINISH)
        match kind:
            case FrameKind.SYN_STREAM:
                stream, associated, priority, _slot = struct.unpack_from(">IIBB", payload)
                return SynStream(
                    stream=stream & STREAM_MASK,
                    headers=self._unpacker.unpack(payload[10:]),
                    associated=associated & STREAM_MASK,
                    priority=priority >> 5,
                    finish=finish,
                    unidirectional=bool(flags & UNIDIRECTIONAL),
                )
            case FrameKind.SYN_REPLY | FrameKind.HEADERS:
                made = SynReply if kind == FrameKind.SYN_REPLY else HeadersFrame
                (stream,) = struct.unpack_from(">I", payload)
                headers = self._unpacker.unpack(payload[4:])
                return made(stream=stream & STREAM_MASK, headers=headers, finish=finish)
            case FrameKind.RST_STREAM:
                stream, status = struct.unpack(">II", payload)
                return RstStream(stream=stream & STREAM_MASK, status=status)
            case FrameKind.SETTINGS:
                (count,) = struct.unpack_from(">I", payload)
                if len(payload) != 4 + 8 * count:
                    raise SpdyError("the peer sent settings whose number is not the one that it says")
                # The upper byte of an id has flags about caching, which are not used.
                entries = tuple(
                    (id_ & 0xFF_FFFF, value) for id_, value in struct.iter_unpack(">II", payload[4:])
                )
                return SettingsFrame(entries=entries)
            case FrameKind.PING:
                return Ping(id=struct.unpack(">I", payload)[0])
            case FrameKind.GOAWAY:
                last, status = struct.unpack(">II", payload)
                return GoAway(last=last & STREAM_MASK, status=status)
            case FrameKind.WINDOW_UPDATE:
                stream, delta = struct.unpack(">II", payload)
                return WindowUpdate(stream=stream & STREAM_MASK, delta=delta & STREAM_MASK)
            case _:
                return None  # The draft requires to ignore unknown kinds.


def _flags(finish: bool) -> int:
    return FINISH if finish else 0


def _control(kind: FrameKind, payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8000 | VERSION, kind, flags << 24 | len(payload)) + payload
