"""TLS of one request over a socket that the caller reads and writes.

Received bytes are handed in piece by piece. So one step costs what one reception holds, whatever a server sends:
OpenSSL, reading the socket itself, continues for as long as there are records without data.
"""

import ssl
from functools import cache

CHUNK_BYTES = 16 << 10


class Tls:
    """The client's end of one connection: shakes hands, sends `request`, and reads what comes back."""

    def __init__(self, name: str | None, request: bytes) -> None:
        """Begin; `name` is the server's, None for an address. Raises OSError or ValueError for an invalid one."""
        self._received, self._unsent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = trusting().wrap_bio(self._received, self._unsent, server_hostname=name)
        self._request = request
        self._greeted = False
        self.ended = False
        """The server sent end of file."""
        self.receive(b"")

    def unsent(self) -> bytes:
        """Return the bytes to send now, once."""
        return self._unsent.read()

    def receive(self, data: bytes) -> bytes:
        """Take in what was received; return the plain text in it. Raises `ssl.SSLError`."""
        self._received.write(data)
        parts = []
        try:
            if not self._greeted:
                self._tls.do_handshake()
                self._greeted = True
                self._tls.write(self._request)
            while part := self._tls.read(CHUNK_BYTES):
                parts.append(part)
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        return b"".join(parts)

    def end(self) -> bytes:
        """Take in that the connection ended; nothing was in that. Raises `ssl.SSLEOFError` amid a handshake.

        Later it is the end of the answer, as for a kubelet: many servers send no close_notify.
        """
        if not self._greeted:
            self._received.write_eof()
            self._tls.do_handshake()
        return b""


@cache
def trusting() -> ssl.SSLContext:
    """Return the TLS settings of probes: as a kubelet's, without certificate verification."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
