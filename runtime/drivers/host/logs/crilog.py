"""The CRI log format: bytes in, whole lines of text out, with bounded memory whatever a container writes.

```text
file bytes --split--> Record(stream, stamp, text, whole) --join--> output pieces
```

A record is ``<RFC3339Nano> <stdout|stderr> <P|F>[:tags] <text>``. A long line comes as several P records and one F; two
streams interleave, so the pieces of one line must be put together per stream: one stream at a time has the *open* line,
whose pieces go out at once, while records of the other wait until that line ends or their patience does.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

LINE_LIMIT_BYTES = 64 << 10
"""A record longer than this is passed on in parts."""
WAITING_LIMIT_BYTES = 256 << 10
"""How much of one stream may wait for the other's open line; beyond it that line is broken."""
HEADER_LIMIT_BYTES = 128


class LogRecord(msgspec.Struct, frozen=True):
    """One record of a log, or a part of a very long one."""

    stream: bytes
    """``stdout`` or ``stderr``; empty for a line that is not in the CRI format, which is shown unchanged."""
    stamp: bytes
    text: bytes
    whole: bool
    """The line ends here: an F record, or the last part of one."""


def parse(line: bytes, *, whole: bool = True) -> LogRecord:
    """Read one line, without its newline; `whole` False: its rest is still to come."""
    parts = line.split(b" ", 3)
    if len(parts) < 3 or parts[1] not in {b"stdout", b"stderr"} or not parts[0][:4].isdigit():
        return LogRecord(stream=b"", stamp=b"", text=line, whole=whole)
    tag = parts[2].split(b":", 1)[0]
    if tag not in {b"P", b"F"}:
        return LogRecord(stream=b"", stamp=b"", text=line, whole=whole)
    text = parts[3] if len(parts) == 4 else b""
    return LogRecord(stream=parts[1], stamp=parts[0], text=text, whole=whole and tag == b"F")


class Splitter:
    """Cuts bytes into records; buffers at most one unfinished line of `LINE_LIMIT_BYTES`."""

    def __init__(self) -> None:
        self._rest = b""
        self._long: LogRecord | None = None
        """Header of the very long line that we are in the middle of."""

    def feed(self, data: bytes) -> Iterator[LogRecord]:
        """Take the next bytes and return the records that they complete."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            yield self._line(line)
        if len(self._rest) > LINE_LIMIT_BYTES:
            part, self._rest = self._rest, b""
            yield self._part(part)

    def end(self) -> Iterator[LogRecord]:
        """Return what the file ends with when its last newline is missing: the writer was killed."""
        rest, self._rest = self._rest, b""
        if rest or self._long is not None:
            yield self._line(rest)

    def _line(self, line: bytes) -> LogRecord:
        if self._long is None:
            return parse(line)
        head, self._long = self._long, None
        return msgspec.structs.replace(head, text=line)

    def _part(self, part: bytes) -> LogRecord:
        if self._long is None:
            # Whether the long line ends with its newline is in its header: keep P or F for its last part.
            self._long = parse(part)
            return msgspec.structs.replace(self._long, whole=False)
        return LogRecord(stream=self._long.stream, stamp=self._long.stamp, text=part, whole=False)


class Joiner:
    """Puts the pieces of lines together, per stream."""

    def __init__(self, *, timestamps: bool) -> None:
        self._timestamps = timestamps
        self._open: bytes | None = None
        self._waiting: list[LogRecord] = []
        self._waiting_bytes = 0

    @property
    def waiting(self) -> bool:
        """Return whether another stream waits for the open line to end."""
        return bool(self._waiting)

    def feed(self, record: LogRecord) -> Iterator[bytes]:
        """Take one record and return the output that is now in order."""
        if self._open is not None and record.stream != self._open:
            self._waiting.append(record)
            self._waiting_bytes += len(record.text) + HEADER_LIMIT_BYTES
            if self._waiting_bytes > WAITING_LIMIT_BYTES:
                yield from self.give_up()
            return
        yield self._piece(record)
        if record.whole:
            yield from self._drain()

    def give_up(self) -> Iterator[bytes]:
        """End the open line with a newline of our own, so that the other stream can continue."""
        if self._open is not None:
            self._open = None
            yield b"\n"
            yield from self._drain()

    def end(self) -> Iterator[bytes]:
        """Return everything that is still held; a line that never ended keeps no newline, as it was written."""
        while self._waiting:
            yield from self.give_up()

    def _drain(self) -> Iterator[bytes]:
        # The waiting part may itself open a line; then the rest waits for that one.
        while self._open is None and self._waiting:
            held, self._waiting, self._waiting_bytes = self._waiting, [], 0
            for record in held:
                if self._open is not None and record.stream != self._open:
                    self._waiting.append(record)
                    self._waiting_bytes += len(record.text) + HEADER_LIMIT_BYTES
                else:
                    yield self._piece(record)

    def _piece(self, record: LogRecord) -> bytes:
        begins = self._open is None
        self._open = None if record.whole else record.stream
        piece = record.text + b"\n" if record.whole else record.text
        if begins and self._timestamps and record.stamp:
            return nine_digits(record.stamp) + b" " + piece
        return piece


class LineStarts:
    """Finds, reading backwards, where the last `wanted` lines begin.

    Feed it line starts from the end of the file to its beginning. A line is an F record with the P records of its
    stream before it; so the place where reading must begin may lie before records of lines that are not wanted, and
    `skip`: how many whole lines of each stream to drop from there.
    """

    def __init__(self, wanted: int, end: int) -> None:
        self.left = wanted
        self.start = end
        self.skip: dict[bytes, int] = {}
        self._unfinished: set[bytes] = set()
        """Streams whose earliest wanted line may have pieces further up."""
        self._unwanted: dict[bytes, int] = {}
        """Whole lines passed by after the last wanted one, per stream."""

    @property
    def done(self) -> bool:
        """Return whether reading further back cannot change the answer."""
        return not self.left and not self._unfinished

    def feed(self, offset: int, header: bytes) -> None:
        """Take the line that starts at `offset` with the bytes `header` (`HEADER_LIMIT_BYTES` of it are enough)."""
        record = parse(header)
        if self.left:
            self.start = offset
            self.left -= record.whole
            if record.stream:
                self._unfinished.add(record.stream)
        elif record.whole:
            self._unfinished.discard(record.stream)
            self._unwanted[record.stream] = self._unwanted.get(record.stream, 0) + 1
        elif record.stream in self._unfinished:
            self.start = offset
            self.skip = dict(self._unwanted)


def nine_digits(stamp: bytes) -> bytes:
    """Return an RFC 3339 time with exactly nine digits after the point."""
    at = len(stamp)
    for mark in (b"Z", b"+", b"-"):
        found = stamp.find(mark, 19)
        if found >= 0:
            at = min(at, found)
    seconds, _, fraction = stamp[:at].partition(b".")
    return seconds + b"." + fraction[:9].ljust(9, b"0") + stamp[at:]


def nanoseconds(stamp: bytes) -> int | None:
    """Return an RFC 3339 time as nanoseconds since the epoch, None when it is not one."""
    full = nine_digits(stamp)
    try:
        whole = datetime.fromisoformat((full[:19] + full[29:]).decode())
        fraction = int(full[20:29])
    except ValueError:
        return None
    if whole.tzinfo is None:
        whole = whole.replace(tzinfo=UTC)
    return int(whole.timestamp()) * 1_000_000_000 + fraction
