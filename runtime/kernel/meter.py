"""What the kernel counts of every hop: how long messages waited, how long they were handled, how long calls took.

One set of counters for each class of actor and one for each call of a port, so their number is bounded by the source code.
A message pays no lock: the interpreter changes threads between calls and not within an addition, so two threads that run
actors of one class lose nothing that matters.
"""

from bisect import bisect_left
from threading import Lock

from api.shown.introspection import HOP_BOUNDS_S as BOUNDS_S
from api.shown.introspection import Hop, HopRow

BUCKETS = len(BOUNDS_S) + 1
OK = "ok"


class ClassMeter:
    """Hops of all actors of one class: `waits` in the mailbox, `handlings`, `restarts` of incarnations."""

    __slots__ = ("handled_s", "handlings", "restarts", "waited_s", "waits")

    def __init__(self) -> None:
        self.waits = [0] * BUCKETS
        self.handlings = [0] * BUCKETS
        self.waited_s = self.handled_s = 0.0
        self.restarts = 0

    def count_wait(self, seconds: float) -> None:
        """Count how long a message waited."""
        self.waited_s += seconds
        self.waits[bisect_left(BOUNDS_S, seconds)] += 1

    def count_handling(self, seconds: float) -> None:
        """Count how long a message was handled."""
        self.handled_s += seconds
        self.handlings[bisect_left(BOUNDS_S, seconds)] += 1


class CallMeter:
    """One call of one port: how long until it was settled, and how."""

    __slots__ = ("counts", "endings", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.endings: dict[str, int] = {}
        self.sum_s = 0.0


class Meters:
    """All counters of one system."""

    def __init__(self) -> None:
        self._classes: dict[str, ClassMeter] = {}
        self._calls: dict[tuple[str, str], CallMeter] = {}
        self._lock = Lock()

    def of_class(self, name: str) -> ClassMeter:
        """Return the counters of a class of actors."""
        found = self._classes.get(name)
        if found is None:
            with self._lock:
                found = self._classes.setdefault(name, ClassMeter())
        return found

    def settled(self, port: str, call: str, ending: str, seconds: float) -> None:
        """Count a call that has its outcome: ``ok``, or the kind of its failure."""
        with self._lock:
            found = self._calls.get((port, call))
            if found is None:
                found = self._calls[port, call] = CallMeter()
            found.counts[bisect_left(BOUNDS_S, seconds)] += 1
            found.sum_s += seconds
            found.endings[ending] = found.endings.get(ending, 0) + 1

    def rows(self) -> tuple[HopRow, ...]:
        """Return all hops: by class of actors, then by port and call."""
        with self._lock:
            classes, calls = sorted(self._classes.items()), sorted(self._calls.items())
            rows = [
                HopRow(
                    hop=Hop.OPERATION,
                    name=port,
                    call=call,
                    counts=tuple(meter.counts),
                    sum_s=meter.sum_s,
                    endings=tuple(sorted(meter.endings.items())),
                )
                for (port, call), meter in calls
            ]
        for name, meter in classes:
            waits, handlings = tuple(meter.waits), tuple(meter.handlings)
            restarts = (("restarted", meter.restarts),) if meter.restarts else ()
            rows.append(HopRow(hop=Hop.MAILBOX, name=name, counts=waits, sum_s=meter.waited_s))
            rows.append(
                HopRow(hop=Hop.HANDLER, name=name, counts=handlings, sum_s=meter.handled_s, endings=restarts)
            )
        return tuple(sorted(rows, key=lambda row: (row.hop.value, row.name, row.call)))
