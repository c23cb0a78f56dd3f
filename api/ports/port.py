"""Ports: how the pure world asks the impure one for something.

A call is frozen data (`api.ports.runtime`, `api.ports` ...); a port takes any call of its union. That makes every use of
the world one kind of event at one seam, which can be traced, broken on purpose and replayed.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from api.errors import Failure
from api.ids import Instant, WallNs
from api.messages import Message

Done = Callable[[msgspec.Struct | None, Failure | None], None]
"""Completes a call: the result or the failure. May be called on any thread; only the first call counts."""

Undo = Callable[[], None]
"""Cancels, closes or takes back what returned it. May be called at any time, more than once, from any thread."""


class Port(Protocol):
    """A driver that completes calls by callback."""

    name: str

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start `call` and return at once; `done` follows on any thread, also possibly before this returns."""
        ...


class BlockingPort(Protocol):
    """A driver whose calls hold their thread; the executor finds it one (or, in simulation, a virtual instant).

    A driver may name classes of its calls: `bounds` says how many of each run at once at most, `short` which are a few
    files read or written and are made one after the other.
    """

    name: str

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:
        """Carry out `call` and return its result; raise an `api.errors.OperatingError` on failure."""
        ...


class Stream(Protocol):
    """A driver that never ends: inotify, runtime events, exits."""

    name: str

    def open(self, push: Callable[[Message], None], ended: Callable[[Failure | None], None]) -> Undo:
        """Begin to feed `push`, on any thread; call `ended` once when the stream dies by itself."""
        ...


class Timers(Protocol):
    """A clock with alarms: the real one, or the simulation's virtual one."""

    def now(self) -> Instant:
        """Return monotonic seconds."""
        ...

    def wall(self) -> WallNs:
        """Return the wall clock in nanoseconds."""
        ...

    def call_at(self, at: Instant, then: Callable[[], None]) -> Undo:
        """Call `then` at or soon after `at`, on any thread."""
        ...
