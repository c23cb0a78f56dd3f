"""Header blocks of SPDY/3: pairs of names and values, compressed over the whole life of a connection.

Both ends start their zlib streams from the same dictionary, which the protocol's draft fixes byte by byte; each block
ends on a byte's boundary (a sync flush), so that it can be read before the next one comes.
"""

import struct
import zlib

from api.errors import UnavailableError

HEADER_LIMIT_BYTES = 64 << 10
"""Most bytes of one header block, unpacked."""

NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow"
    " authorization cache-control connection content-base content-encoding content-language content-length"
    " content-location content-md5 content-range content-type date etag expect expires from host if-match"
    " if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma"
    " proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status 200~OK version HTTP/1.1 url public set-cookie"
    " keep-alive origin"
)
"""Words of the dictionary that stand behind their length, in the draft's order; a tilde is a space."""

STATUSES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
)
DATES = "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
TYPES = (
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)

Headers = tuple[tuple[str, str], ...]
"""Lower-case names and their values, sorted; several values of one name are joined by NUL."""


class SpdyError(UnavailableError):
    """The peer broke the protocol: the connection cannot be used any more."""


def dictionary() -> bytes:
    """Return the 1,423 bytes that both ends start from."""
    words = [word.replace("~", " ").encode() for word in NAMES.split(" ")]
    counted = b"".join(struct.pack(">I", len(word)) + word for word in words)
    return counted + (STATUSES + DATES + TYPES).encode()


class Packer:
    """Compresses the header blocks of one direction, in the order in which they are sent."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(zdict=dictionary())

    def pack(self, headers: Headers) -> bytes:
        """Return one block."""
        parts = [struct.pack(">I", len(headers))]
        for name, value in headers:
            for text in (name.lower().encode(), value.encode()):
                parts += [struct.pack(">I", len(text)), text]
        return self._zlib.compress(b"".join(parts)) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


class Unpacker:
    """Reads the header blocks of one direction, in the order in which they came."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zdict=dictionary())

    def unpack(self, block: bytes) -> Headers:
        """Return the headers of a block. Raises `SpdyError` for an invalid or too large one."""
        try:
            text = self._zlib.decompress(block, HEADER_LIMIT_BYTES + 1)
        except zlib.error:
            raise SpdyError("the peer sent a header block that cannot be unpacked") from None
        if len(text) > HEADER_LIMIT_BYTES or self._zlib.unconsumed_tail:
            raise SpdyError(f"the peer sent a header block of more than {HEADER_LIMIT_BYTES} bytes")
        count, at = _number(text, 0)
        pairs = []
        for _ in range(count):
            name, at = _text(text, at)
            value, at = _text(text, at)
            pairs.append((name.lower(), value))
        if at != len(text):
            raise SpdyError("the peer sent a header block that is longer than it says")
        return tuple(sorted(pairs))


def _number(text: bytes, at: int) -> tuple[int, int]:
    if len(text) < at + 4:
        raise SpdyError("the peer sent a header block that ends too early")
    return int.from_bytes(text[at : at + 4], "big"), at + 4


def _text(text: bytes, at: int) -> tuple[str, int]:
    size, at = _number(text, at)
    if len(text) < at + size:
        raise SpdyError("the peer sent a header block that ends too early")
    # Go writes a header's bytes unchanged, so they may not be UTF-8.
    return text[at : at + size].decode("utf-8", "replace"), at + size
