"""A container's log file in the format of the CRI: ``<RFC3339Nano> <stdout|stderr> <P|F> <content>``.

Nothing here blocks or fails its caller on a full disk: lines that cannot be written are dropped and
counted, and one line in the log says so as soon as there is space again.
"""

import errno
import os
import time

MAX_CONTENT_BYTES = 16 << 10
"""A longer line is written as parts tagged P, the last one F."""
LOOK_AGAIN_S = 1.0
"""How often the path is compared with the open file, to reopen a rotated log."""


class LogWriter:
    """Writes one container's output; owner of the open file and of half lines."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._half: dict[str, bytes] = {}
        self._second = -1
        self._prefix = b""
        self._look_at = 0.0
        self._unsaid = 0
        self.dropped = 0
        """Lines dropped so far."""
        self.trouble = ""
        """Why lines are being dropped now, empty when all is well."""
        self._open()

    def write(self, stream: str, data: bytes) -> None:
        """Take output of one stream and write the lines that are complete."""
        data = self._half.pop(stream, b"") + data
        *lines, rest = data.split(b"\n")
        if not lines and len(rest) <= MAX_CONTENT_BYTES:
            self._half[stream] = rest
            return
        records = []
        head = self._head(stream)
        for line in lines:
            last = line
            while len(last) > MAX_CONTENT_BYTES:
                records.append(head + b"P " + last[:MAX_CONTENT_BYTES] + b"\n")
                last = last[MAX_CONTENT_BYTES:]
            records.append(head + b"F " + last + b"\n")
        while len(rest) > MAX_CONTENT_BYTES:
            records.append(head + b"P " + rest[:MAX_CONTENT_BYTES] + b"\n")
            rest = rest[MAX_CONTENT_BYTES:]
        if rest:
            self._half[stream] = rest
        self._append(records)

    def reopen(self) -> str:
        """Close the file and open what has its name now, a new one when nothing has; return why not, or an empty text."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._look_at = time.monotonic() + LOOK_AGAIN_S
        self._open()
        return "" if self._fd >= 0 else self.trouble

    def close(self) -> None:
        """Write the half lines that are left, tagged P since no line end ever came, and close the file."""
        records = [self._head(stream) + b"P " + half + b"\n" for stream, half in self._half.items() if half]
        self._half.clear()
        if records or self._unsaid:
            self._append(records)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _head(self, stream: str) -> bytes:
        now = time.time_ns()
        second, nanos = divmod(now, 1_000_000_000)
        if second != self._second:
            self._second = second
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()
        return b"%s.%09dZ %s " % (self._prefix, nanos, stream.encode())

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            os.makedirs(os.path.dirname(self._path), 0o755, exist_ok=True)  # noqa: PTH103, PTH120
            self._fd = os.open(self._path, flags, 0o640)
            os.fchmod(self._fd, 0o640)
        except OSError as error:
            self.trouble = f"{os.strerror(error.errno or 0)} ({self._path})"

    def _follow_rotation(self) -> None:
        now = time.monotonic()
        if self._fd >= 0:
            if now < self._look_at:
                return
            mine = os.fstat(self._fd)
            try:
                there = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116
                if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
                    self._look_at = now + LOOK_AGAIN_S
                    return
            except OSError:
                # Renamed or removed: below a new file takes its place, or the trouble is noted.
                pass
            os.close(self._fd)
            self._fd = -1
        self._look_at = now + LOOK_AGAIN_S
        self._open()

    def _append(self, records: list[bytes]) -> None:
        self._follow_rotation()
        if self._unsaid:
            said = f"F nodeagent: {self._unsaid} log lines were dropped here: {self.trouble}\n".encode()
            records = [self._head("stderr") + said, *records]
        whole = self._append_whole(records) if self._fd >= 0 else 0
        if self._unsaid:
            if whole == 0:
                records = records[1:]
            else:
                records = records[1:]
                whole -= 1
                self._unsaid = 0
        lost = len(records) - whole
        self.dropped += lost
        self._unsaid += lost
        if not self._unsaid:
            self.trouble = ""

    def _append_whole(self, records: list[bytes]) -> int:
        """Return how many records are in the file as a whole; a torn one is taken back."""
        data = b"".join(records)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:] if written else data)
        except OSError as error:
            self.trouble = f"{os.strerror(error.errno or errno.EIO)} ({self._path})"
        else:
            return len(records)
        whole = kept = 0
        for record in records:
            if kept + len(record) > written:
                break
            kept += len(record)
            whole += 1
        if written > kept:
            size = os.fstat(self._fd).st_size
            os.ftruncate(self._fd, size - (written - kept))
        return whole
