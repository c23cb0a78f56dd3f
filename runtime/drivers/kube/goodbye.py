"""Finds the GOAWAY frames of an HTTP/2 server among its bytes (RFC 9113, 4.1 and 6.8).

After a GOAWAY the server still answers the streams that it took on. h2 takes no frame any more then, so it is not shown any.
"""

FRAME_HEAD_BYTES = 9
GOAWAY = 7
LAST_STREAM_BYTES = 4
LEAST_BYTES = 8
"""The last stream and a code."""


class GoodbyeError(Exception):
    """A GOAWAY without its parts."""


class Goodbyes:
    """Splits the bytes of one connection."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        """Bytes of the frame under way that are still to come."""
        self._is_goodbye = False
        self._last = bytearray()

    def split(self, data: bytes) -> tuple[bytes, list[int]]:
        """Return all but GOAWAYs, and the last stream that each of them names. Raises `GoodbyeError`."""
        rest, found = bytearray(), list[int]()
        view = memoryview(data)
        while view:
            if self._left:
                part, view = view[: self._left], view[self._left :]
                self._left -= len(part)
                if self._is_goodbye:
                    self._last += part[: LAST_STREAM_BYTES - len(self._last)]
                else:
                    rest += part
            else:
                missing = FRAME_HEAD_BYTES - len(self._head)
                self._head += view[:missing]
                view = view[missing:]
                if len(self._head) == FRAME_HEAD_BYTES:
                    self._begin(rest)
            if self._is_goodbye and not self._left:
                # The first bit is reserved.
                found.append(int.from_bytes(self._last, "big") & 0x7FFF_FFFF)
                self._is_goodbye = False
        return bytes(rest), found

    def _begin(self, rest: bytearray) -> None:
        self._left = int.from_bytes(self._head[:3], "big")
        self._is_goodbye = self._head[3] == GOAWAY
        if not self._is_goodbye:
            rest += self._head
        elif self._left < LEAST_BYTES:
            raise GoodbyeError
        else:
            self._last.clear()
        self._head.clear()
