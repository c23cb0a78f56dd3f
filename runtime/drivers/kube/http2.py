"""HTTP/2 of one connection (RFC 9113): exchanges become streams, and bytes become answers. The bytes are the session's."""

import contextlib
from collections.abc import Callable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings

from api.errors import Failure, FailureKind
from runtime.drivers.kube.exchange import NOT_TAKEN, ApiExchange
from runtime.drivers.kube.goodbye import GoodbyeError, Goodbyes

STREAM_WINDOW_BYTES = 1 << 20
CONNECTION_WINDOW_BYTES = 16 << 20
AT_ONCE = 100
"""Exchanges of one connection, where the server allows more."""
HEADERS_LIMIT_BYTES = 64 << 10


class BrokenError(Exception):
    """The connection is of no more use."""


class Http2:
    """The exchanges of one connection."""

    def __init__(
        self, authority: str, headers: tuple[tuple[str, str], ...], pong: Callable[[], None]
    ) -> None:
        self._authority, self._headers, self._pong = authority, headers, pong
        self._exchanges: dict[int, ApiExchange] = {}
        self._bodies: dict[int, memoryview] = {}
        self._goodbyes = Goodbyes()
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: HEADERS_LIMIT_BYTES,
            },
        )
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES)
        self.draining = False
        """The server takes no more exchanges on it."""

    @property
    def is_idle(self) -> bool:
        """Return whether no exchange is under way."""
        return not self._exchanges

    @property
    def has_room(self) -> bool:
        """Return whether one more exchange may begin."""
        limit = min(AT_ONCE, self._h2.remote_settings.max_concurrent_streams)
        return not self.draining and len(self._exchanges) < limit

    def begin(self, exchange: ApiExchange) -> None:
        """Send a request. Raises `BrokenError`."""
        headers = [
            (":method", exchange.method),
            (":scheme", "https"),
            (":authority", self._authority),
            (":path", exchange.prefix + exchange.target),
            *self._headers,
        ]
        if exchange.content_type:
            headers += [
                ("content-type", exchange.content_type),
                ("content-length", str(len(exchange.body))),
            ]
        try:
            stream = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream, headers, end_stream=not exchange.body)
        except H2Error as error:
            raise BrokenError(f"HTTP/2: {error}") from None
        exchange.sent = True
        exchange.leave = lambda: self._reset(stream)
        self._exchanges[stream] = exchange
        if exchange.body:
            self._bodies[stream] = memoryview(exchange.body)
            self._send_bodies()

    def receive(self, data: bytes) -> None:
        """Take in bytes of the server. Raises `BrokenError`."""
        try:
            rest, last_streams = self._goodbyes.split(data)
            events = self._h2.receive_data(rest)
        except (H2Error, GoodbyeError, ValueError) as error:
            # A header that is no UTF-8 is a ValueError.
            raise BrokenError(f"the server does not keep to HTTP/2: {type(error).__name__}") from None
        for event in events:
            self._take(event)
        for last in last_streams:
            self._leave(last)
        self._send_bodies()

    def ping(self) -> None:
        """Ask whether the server is there."""
        self._h2.ping(b"nodeagnt")

    def unsent(self) -> bytes:
        """Return the bytes to send now, once."""
        return self._h2.data_to_send()

    def close(self, failure: Failure) -> None:
        """End all exchanges, since the connection has ended."""
        exchanges, self._exchanges = self._exchanges, {}
        self._bodies.clear()
        for exchange in exchanges.values():
            exchange.end(failure)

    def end_lasting(self, failure: Failure) -> None:
        """End the watches: the connection is about to be replaced."""
        for stream, exchange in list(self._exchanges.items()):
            if exchange.lasting:
                self._reset(stream)
                exchange.end(failure)

    def _take(self, event: Event) -> None:
        match event:
            case ResponseReceived(stream_id=stream, headers=fields) if stream in self._exchanges:
                headers = {_text(name): _text(value) for name, value in fields or ()}
                status = headers.get(":status", "")
                self._exchanges[stream].head(int(status) if status.isdecimal() else 0, headers)
            case DataReceived(stream_id=stream, data=data):
                # At once: who receives it takes it in at once, and bounds it.
                self._acknowledge(stream, event.flow_controlled_length or 0)
                if stream in self._exchanges and data:
                    self._exchanges[stream].data(bytes(data))
            case StreamEnded(stream_id=stream):
                if stream in self._bodies:
                    # The server has answered without the rest of the request, which would keep the stream open.
                    self._stop(stream)
                self._end(stream, None)
            case StreamReset(stream_id=stream, error_code=code):
                exchange = self._exchanges.get(stream or 0)
                if exchange is not None and code == ErrorCodes.REFUSED_STREAM:
                    exchange.sent = False
                    self._end(stream, NOT_TAKEN)
                    return
                why = "the server took the answer back"
                self._end(stream, Failure(kind=FailureKind.UNAVAILABLE, message=why))
            case PingAckReceived():
                self._pong()
            case _:
                return

    def _leave(self, last: int) -> None:
        """Begin nothing more, and end what the server did not take on: streams after the `last`."""
        self.draining = True
        for stream, exchange in list(self._exchanges.items()):
            if stream > last:
                exchange.sent = False
                self._end(stream, NOT_TAKEN)

    def _acknowledge(self, stream: int | None, count: int) -> None:
        if count and stream:
            try:
                self._h2.acknowledge_received_data(count, stream)
            except H2Error as error:
                raise BrokenError(f"HTTP/2: {error}") from None

    def _end(self, stream: int | None, failure: Failure | None) -> None:
        self._bodies.pop(stream or 0, None)
        exchange = self._exchanges.pop(stream or 0, None)
        if exchange is not None:
            exchange.end(failure)

    def _reset(self, stream: int) -> None:
        self._bodies.pop(stream, None)
        if self._exchanges.pop(stream, None) is not None:
            self._stop(stream)

    def _stop(self, stream: int) -> None:
        # It may have ended at the same moment.
        with contextlib.suppress(H2Error):
            self._h2.reset_stream(stream, ErrorCodes.CANCEL)

    def _send_bodies(self) -> None:
        """Send as much of each request's body as the server's windows allow."""
        for stream, body in list(self._bodies.items()):
            left = body
            try:
                while left:
                    size = min(
                        len(left),
                        self._h2.local_flow_control_window(stream),
                        self._h2.max_outbound_frame_size,
                    )
                    if size <= 0:
                        break
                    self._h2.send_data(stream, bytes(left[:size]), end_stream=size == len(left))
                    left = left[size:]
            except H2Error as error:
                raise BrokenError(f"HTTP/2: {error}") from None
            if left:
                self._bodies[stream] = left
            else:
                self._bodies.pop(stream, None)


def _text(word: str | bytes) -> str:
    return word if isinstance(word, str) else word.decode("latin-1")
