"""HTTP/1.1 for a server, or a proxy before it, that does not offer HTTP/2: one exchange for each connection."""

import h11

from api.errors import Failure
from runtime.drivers.kube.exchange import ApiExchange
from runtime.drivers.kube.http2 import BrokenError


class Http1:
    """The one exchange of a connection."""

    def __init__(self, authority: str, headers: tuple[tuple[str, str], ...]) -> None:
        self._headers = [("host", authority), *headers, ("connection", "close")]
        self._h11 = h11.Connection(our_role=h11.CLIENT)
        self._exchange: ApiExchange | None = None
        self._unsent = b""
        self.draining = False

    @property
    def is_idle(self) -> bool:
        """Return whether no exchange is under way."""
        return self._exchange is None

    @property
    def has_room(self) -> bool:
        """Return whether an exchange may begin: only one may."""
        return not self.draining

    def begin(self, exchange: ApiExchange) -> None:
        """Send the request."""
        self.draining = True
        self._exchange = exchange
        exchange.sent = True
        exchange.leave = self._left
        headers = list(self._headers)
        if exchange.content_type:
            headers += [
                ("content-type", exchange.content_type),
                ("content-length", str(len(exchange.body))),
            ]
        target = exchange.prefix + exchange.target
        request = h11.Request(method=exchange.method, target=target, headers=headers)
        parts = [self._h11.send(request)]
        if exchange.body:
            parts.append(self._h11.send(h11.Data(data=exchange.body)))
        parts.append(self._h11.send(h11.EndOfMessage()))
        self._unsent = b"".join(part for part in parts if part)

    def receive(self, data: bytes) -> None:
        """Take in bytes of the server; none is its end. Raises `BrokenError`."""
        try:
            self._h11.receive_data(data)
            while True:
                event = self._h11.next_event()
                exchange = self._exchange
                if event in (h11.NEED_DATA, h11.PAUSED) or exchange is None:
                    return
                if isinstance(event, h11.Response):
                    fields = {
                        name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers
                    }
                    exchange.head(event.status_code, fields)
                elif isinstance(event, h11.Data):
                    exchange.data(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    self._exchange = None
                    exchange.end(None)
                    raise BrokenError("the answer is complete")
        except h11.RemoteProtocolError:
            raise BrokenError("the server does not keep to HTTP/1.1") from None

    def ping(self) -> None:
        """Do nothing: HTTP/1.1 has no ping."""

    def unsent(self) -> bytes:
        """Return the bytes to send now, once."""
        unsent, self._unsent = self._unsent, b""
        return unsent

    def close(self, failure: Failure) -> None:
        """End the exchange, since the connection has ended."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end(failure)

    def end_lasting(self, failure: Failure) -> None:
        """End a watch: the connection is about to be replaced."""
        if self._exchange is not None and self._exchange.lasting:
            self.close(failure)

    def _left(self) -> None:
        self._exchange = None
