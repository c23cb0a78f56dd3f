"""Memory notifiers of the kernel: an eventfd on cgroup version 1, PSI and ``memory.events`` on version 2.

A notifier only means "read again". It fires in both directions, too often and, on version 2, for any cgroup's shortage; the
receiver reads the memory itself.
"""

import contextlib
import os
import select
from collections.abc import Iterator
from typing import Protocol

USAGE, CONTROL = "memory.usage_in_bytes", "cgroup.event_control"
PRESSURE, EVENTS = "memory.pressure", "memory.events"
TRIGGER = b"some 100000 2000000\0"
"""A tenth of a second of stalls in two seconds: the window that is allowed without CAP_SYS_RESOURCE."""


class MemoryNotifier(Protocol):
    """A descriptor that becomes readable when memory should be read again."""

    def fileno(self) -> int:
        """Return its descriptor."""
        ...

    def reset(self) -> None:
        """Take back that it rang."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class LevelNotifier:
    """Rings whenever the usage of a version 1 cgroup passes a level, in bytes, up or down. Raises OSError."""

    def __init__(self, folder: str, level_bytes: int) -> None:
        self.level_bytes = level_bytes
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            with (
                _opened(f"{folder}/{USAGE}", os.O_RDONLY) as usage,
                _opened(f"{folder}/{CONTROL}", os.O_WRONLY) as control,
            ):
                os.write(control, f"{self._event} {usage} {level_bytes}".encode())
        except OSError:
            os.close(self._event)
            raise

    def fileno(self) -> int:
        """Return the eventfd."""
        return self._event

    def reset(self) -> None:
        """Set its count to 0."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)

    def close(self) -> None:
        """Close it, by which the kernel forgets the level."""
        os.close(self._event)


class StallNotifier:
    """Rings when tasks wait for memory (`pressure`), or a cgroup's `events` change. Raises OSError without the former."""

    def __init__(self, pressure: str, events: str = "") -> None:
        self._poll = select.epoll()
        self._files: list[int] = []
        try:
            stalls = os.open(pressure, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._files.append(stalls)
            os.write(stalls, TRIGGER)
            self._poll.register(stalls, select.EPOLLPRI)
            if events:
                self._files.append(os.open(events, os.O_RDONLY | os.O_CLOEXEC))
                os.read(self._files[-1], 1 << 12)
                self._poll.register(self._files[-1], select.EPOLLPRI)
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        """Return an epoll's descriptor, which is readable when one of the files has something urgent."""
        return self._poll.fileno()

    def reset(self) -> None:
        """Take the PSI event by polling, a change of the events by reading them."""
        self._poll.poll(0)
        for file in self._files[1:]:
            with contextlib.suppress(OSError):
                os.pread(file, 1 << 12, 0)

    def close(self) -> None:
        """Close everything."""
        self._poll.close()
        for file in self._files:
            os.close(file)
        self._files = []


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    file = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)
