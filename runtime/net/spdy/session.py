"""One SPDY/3.1 connection, either end: streams, half-closes, windows. No sockets: bytes in, events and bytes out.

```text
            open / SynStream          reply / SynReply
  (none) ----------------------> waiting -----------> open --finish--> half closed --peer's finish--> (gone)
                                                       +------------reset, either side--------------> (gone)
```

What is sent on a stream that the peer has not accepted yet waits here: the peers that there are (Go's spdystream, in
containerd, CRI-O and kubelets) lose data that comes before their reply.

Windows: what we have consumed is given back to the peer (`consumed`), which may rely on it. The other way round those
peers never send window updates, so waiting for one after 64 KiB would wait for ever. Hence the rule: a window of
the peer counts from its first word about windows of that scope (streams, or the connection), and until then the
transport's own back-pressure is the bound. What was sent before is counted, so that nothing is lost by the late start.
For the same reason a peer that sends more than our windows allow is not reset; who reads bounds it by not reading.

Towards a peer that is known to keep no windows, nothing is given back (`windows` False), and that is more than a
saving: it closes the connection right behind a command's last output, and a frame of ours that reaches a closed
connection makes the kernel throw away what it has not delivered yet.
"""

from collections import deque
from typing import assert_never

import msgspec

from runtime.net.spdy.frame import (
    INITIAL_WINDOW_SIZE,
    Data,
    Decoder,
    Encoder,
    Frame,
    GoAway,
    HeadersFrame,
    Ping,
    RstStream,
    SettingsFrame,
    Status,
    SynReply,
    SynStream,
    WindowUpdate,
)
from runtime.net.spdy.header import Headers, SpdyError

WINDOW_BYTES = 64 << 10
WINDOW_LIMIT = (1 << 31) - 1
PIECE_BYTES = 16 << 10
"""Most bytes of one data frame of ours, so that a small stream never waits long behind a large one."""
STREAM_LIMIT = 64
"""Streams that a peer may have open at once."""


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The peer opened a stream; answer with `Session.reply` or `Session.reset`."""

    stream: int
    headers: Headers


class Replied(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The peer accepted a stream of ours."""

    stream: int
    headers: Headers


class Received(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Received bytes; call `Session.consumed` when they have been delivered."""

    stream: int
    data: bytes

    def __repr__(self) -> str:
        return f"Received(stream={self.stream}, {len(self.data)} bytes)"


class HalfClosed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The peer will send nothing more on a stream; we may."""

    stream: int


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The peer reset a stream: it is over in both directions."""

    stream: int
    status: int


class Ponged(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A ping of ours came back."""

    id: int


class GoneAway(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The peer takes no new streams."""

    status: int


Event = Opened | Replied | Received | HalfClosed | Broken | Ponged | GoneAway


class _Window(msgspec.Struct):
    """How much we may send (`room`), and how much we have not given back yet (`owed`)."""

    room: int = WINDOW_BYTES
    owed: int = 0


class _Stream(msgspec.Struct):
    id: int
    window: _Window
    accepted: bool
    """Both ends know it: data may flow."""
    waiting: bytearray = msgspec.field(default_factory=bytearray)
    closing: bool = False
    """`finish` was requested; the frame is sent after the queued data."""
    closed: bool = False
    """Our finish went out."""
    peer_closed: bool = False


class Session:
    """One end of a connection; the client's unless `server`. `windows` False: the peer is known to keep none."""

    def __init__(self, *, server: bool = False, windows: bool = True) -> None:
        self._windows = windows
        self._encoder, self._decoder = Encoder(), Decoder()
        self._next = 2 if server else 1
        self._next_ping = self._next
        self._peer_parity = 1 if server else 0
        self._peer_last = 0
        self._streams: dict[int, _Stream] = {}
        self._window = _Window()
        self._initial = WINDOW_BYTES
        self._counts_streams = self._counts_connection = False
        self._out: deque[bytes] = deque()

    # what the owner does

    def open(self, headers: Headers, *, finish: bool = False) -> int:
        """Open a stream and return its id; `finish` when we will send nothing on it."""
        stream = _Stream(id=self._next, window=_Window(room=self._initial), accepted=False)
        self._next += 2
        self._streams[stream.id] = stream
        stream.closing = stream.closed = finish
        self._put(SynStream(stream=stream.id, headers=headers, finish=finish))
        return stream.id

    def reply(self, stream: int, headers: Headers = ()) -> None:
        """Accept a stream that the peer opened."""
        found = self._streams.get(stream)
        if found is not None:
            found.accepted = True
            self._put(SynReply(stream=stream, headers=headers))

    def send(self, stream: int, data: bytes) -> None:
        """Send bytes on a stream, as soon as the peer allows; on one that is over they go nowhere."""
        found = self._streams.get(stream)
        if found is not None and not found.closing:
            found.waiting += data

    def finish(self, stream: int) -> None:
        """Send nothing more on a stream (half-close), after all that was given to `send`."""
        found = self._streams.get(stream)
        if found is not None:
            found.closing = True

    def reset(self, stream: int, status: Status = Status.CANCEL) -> None:
        """End a stream in both directions at once."""
        if self._streams.pop(stream, None) is not None:
            self._put(RstStream(stream=stream, status=status))

    def ping(self) -> int:
        """Send a ping and return its id; `Ponged` reports the answer."""
        id_, self._next_ping = self._next_ping, self._next_ping + 2
        self._put(Ping(id=id_))
        return id_

    def consumed(self, stream: int, size: int) -> None:
        """Give back `size` received bytes of a stream to the peer's windows, some at a time."""
        found = self._streams.get(stream)
        if found is not None and not found.peer_closed:
            self._give_back(stream, found.window, size)
        self._give_back(0, self._window, size)

    def waiting(self, stream: int) -> int:
        """Return how many bytes given to `send` could not go out yet."""
        found = self._streams.get(stream)
        return len(found.waiting) if found is not None else 0

    def is_open(self, stream: int) -> bool:
        """Return whether bytes can still be sent on a stream."""
        found = self._streams.get(stream)
        return found is not None and not found.closing

    # what the connection does

    def outgoing(self) -> bytes:
        """Return the bytes to write to the peer now; the caller must write all of them, in order."""
        for stream in list(self._streams.values()):
            self._flush(stream)
        data = b"".join(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> list[Event]:
        """Take bytes from the peer and return what they mean. Raises `SpdyError` when the connection is past use."""
        events: list[Event] = []
        for frame in self._decoder.feed(data):
            self._take(frame, events)
        return events

    def _take(self, frame: Frame, events: list[Event]) -> None:
        match frame:
            case Data():
                self._take_data(frame, events)
            case SynStream():
                self._take_stream(frame, events)
            case SynReply() | HeadersFrame():
                self._take_headers(frame, events)
            case RstStream():
                self._take_reset(frame, events)
            case WindowUpdate():
                self._take_window(frame, events)
            case SettingsFrame():
                self._take_settings(frame)
            case Ping():
                self._take_ping(frame, events)
            case GoAway():
                events.append(GoneAway(status=frame.status))
            case _:
                assert_never(frame)

    def _take_headers(self, frame: SynReply | HeadersFrame, events: list[Event]) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None:
            return
        if isinstance(frame, SynReply):
            stream.accepted = True
            events.append(Replied(stream=frame.stream, headers=frame.headers))
        self._finish_peer(stream, frame.finish, events)

    def _take_reset(self, frame: RstStream, events: list[Event]) -> None:
        if self._streams.pop(frame.stream, None) is not None:
            events.append(Broken(stream=frame.stream, status=frame.status))

    def _take_ping(self, frame: Ping, events: list[Event]) -> None:
        if frame.id % 2 == self._peer_parity:
            self._put(frame)
        else:
            events.append(Ponged(id=frame.id))

    def _take_settings(self, frame: SettingsFrame) -> None:
        for id_, value in frame.entries:
            if id_ == INITIAL_WINDOW_SIZE:
                self._resize(value)

    def _take_data(self, frame: Data, events: list[Event]) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None:
            # It may be one that we ended a moment ago; one that never existed is refused.
            self._give_back(0, self._window, len(frame.data))
            if not self._was_there(frame.stream):
                self._put(RstStream(stream=frame.stream, status=Status.INVALID_STREAM))
            return
        if stream.peer_closed:
            self._give_back(0, self._window, len(frame.data))
            self._streams.pop(stream.id)
            self._put(RstStream(stream=stream.id, status=Status.STREAM_ALREADY_CLOSED))
            events.append(Broken(stream=stream.id, status=Status.STREAM_ALREADY_CLOSED))
            return
        if frame.data:
            events.append(Received(stream=stream.id, data=frame.data))
        self._finish_peer(stream, frame.finish, events)

    def _take_stream(self, frame: SynStream, events: list[Event]) -> None:
        if frame.stream % 2 != self._peer_parity or frame.stream <= self._peer_last:
            self._put(RstStream(stream=frame.stream, status=Status.PROTOCOL_ERROR))
            return
        self._peer_last = frame.stream
        theirs = sum(id_ % 2 == self._peer_parity for id_ in self._streams)
        if theirs >= STREAM_LIMIT:
            self._put(RstStream(stream=frame.stream, status=Status.REFUSED_STREAM))
            return
        stream = _Stream(id=frame.stream, window=_Window(room=self._initial), accepted=False)
        stream.closing = stream.closed = frame.unidirectional
        self._streams[stream.id] = stream
        events.append(Opened(stream=stream.id, headers=frame.headers))
        self._finish_peer(stream, frame.finish, events)

    def _take_window(self, frame: WindowUpdate, events: list[Event]) -> None:
        if not frame.delta:
            raise SpdyError("the peer sent a window update of no bytes")
        if not frame.stream:
            self._counts_connection = True
            self._window.room += frame.delta
            if self._window.room > WINDOW_LIMIT:
                raise SpdyError("the peer opened the connection's window beyond its limit")
            return
        self._counts_streams = True
        stream = self._streams.get(frame.stream)
        if stream is None:
            return
        stream.window.room += frame.delta
        if stream.window.room > WINDOW_LIMIT:
            self.reset(stream.id, Status.FLOW_CONTROL_ERROR)
            events.append(Broken(stream=stream.id, status=Status.FLOW_CONTROL_ERROR))

    def _resize(self, initial: int) -> None:
        if initial > WINDOW_LIMIT:
            raise SpdyError("the peer set a window beyond its limit")
        self._counts_streams = True
        for stream in self._streams.values():
            stream.window.room += (
                initial - self._initial
            )  # It may fall below nothing; then it must first be earned.
        self._initial = initial

    def _finish_peer(self, stream: _Stream, finish: bool, events: list[Event]) -> None:
        if finish and not stream.peer_closed:
            stream.peer_closed = True
            events.append(HalfClosed(stream=stream.id))
            self._forget_if_over(stream)

    def _forget_if_over(self, stream: _Stream) -> None:
        if stream.closed and stream.peer_closed:
            self._streams.pop(stream.id, None)

    def _was_there(self, stream: int) -> bool:
        return stream <= self._peer_last if stream % 2 == self._peer_parity else stream < self._next

    def _room(self, stream: _Stream) -> int:
        rooms = [PIECE_BYTES]
        if self._counts_streams:
            rooms.append(stream.window.room)
        if self._counts_connection:
            rooms.append(self._window.room)
        return min(rooms)

    def _flush(self, stream: _Stream) -> None:
        if not stream.accepted or stream.closed:
            return
        while stream.waiting and (room := self._room(stream)) > 0:
            piece = bytes(stream.waiting[:room])
            del stream.waiting[:room]
            stream.window.room -= len(piece)
            self._window.room -= len(piece)
            last = stream.closing and not stream.waiting
            self._put(Data(stream=stream.id, data=piece, finish=last))
            stream.closed = stream.closed or last
        if stream.closing and not stream.waiting and not stream.closed:
            self._put(Data(stream=stream.id, finish=True))
            stream.closed = True
        self._forget_if_over(stream)

    def _give_back(self, stream: int, window: _Window, size: int) -> None:
        window.owed += size
        if self._windows and window.owed >= WINDOW_BYTES // 2:
            self._put(WindowUpdate(stream=stream, delta=window.owed))
            window.owed = 0

    def _put(self, frame: Frame) -> None:
        self._out.append(self._encoder.encode(frame))
