"""Resolves hosts: addresses at once, names on a few threads, since the system's resolver blocks its thread."""

import socket
import threading
from collections import deque
from collections.abc import Callable

import msgspec

THREADS = 4
"""Names resolved at the same time; a hanging resolver delays other names, never addresses."""


class Address(msgspec.Struct, frozen=True):
    """One address of a host, as a socket takes it."""

    family: int
    target: tuple[str, int] | tuple[str, int, int, int]


Found = Callable[[tuple[Address, ...], str], None]
"""Receives the addresses, in the order in which to try them, or none and why."""


def literal(host: str, port: int) -> Address | None:
    """Return the address that `host` already is, None when it is a name."""
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, ValueError):
        pass
    else:
        return Address(socket.AF_INET, (host, port))
    if ":" not in host:
        return None
    try:
        # Unlike inet_pton this accepts a link-local address with its zone, and never resolves.
        found = socket.getaddrinfo(host, port, socket.AF_INET6, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    except (OSError, ValueError):
        return None
    return Address(socket.AF_INET6, found[0][4])  # type: ignore[arg-type]  # of this family it has four parts


class Resolver:
    """Resolves names."""

    def __init__(self) -> None:
        self._ready = threading.Condition(threading.Lock())
        self._asked: deque[tuple[str, int, Found]] = deque()
        self._threads = self._idle = 0

    def ask(self, host: str, port: int, found: Found) -> None:
        """Resolve `host`; `found` is called on a thread of the resolver."""
        with self._ready:
            self._asked.append((host, port, found))
            if self._idle >= len(self._asked) or self._threads >= THREADS:
                self._ready.notify()
                return
            self._threads += 1
        threading.Thread(target=self._work, name="net.resolver", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._asked:
                    self._idle += 1
                    self._ready.wait()
                    self._idle -= 1
                host, port, found = self._asked.popleft()
            try:
                rows = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
            except (OSError, ValueError, OverflowError) as error:
                why = error.strerror if isinstance(error, OSError) else ""
                found((), f"lookup {host}: {why or 'no such host'}")
            else:
                found(tuple(Address(row[0], row[4]) for row in rows), "")  # type: ignore[arg-type]
