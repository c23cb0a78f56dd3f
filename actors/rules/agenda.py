"""Which entries are due when, so that a decision touches only those that are due.

Entries are kept in sorted rows of one second each. A decision takes the rows up to now and adds to a few later ones; it
does not read the others. Entries are never removed early: the owner of an agenda also keeps the due time of each UID, and
an entry with another time is stale. It is dropped when its time has come.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from math import floor

import msgspec

from api.ids import Instant, Uid

Entry = tuple[Instant, Uid]
MANY = 8
"""So many new entries of one row are sorted together; fewer are each put in their place."""
LAST = Uid(chr(0x10FFFF))
"""Sorts after every UID."""


class Agenda(msgspec.Struct, frozen=True):
    """Instants and the UIDs that are due then."""

    rows: Mapping[int, tuple[Entry, ...]] = {}
    """By whole second, entries ascending."""

    def plus(self, entries: Iterable[Entry]) -> "Agenda":
        """Return the agenda with more entries; one that is there already is not added again."""
        fresh: dict[int, list[Entry]] = {}
        for entry in entries:
            fresh.setdefault(floor(entry[0]), []).append(entry)
        if not fresh:
            return self
        rows = dict(self.rows)
        for second, more in fresh.items():
            rows[second] = joined(rows.get(second, ()), more)
        return Agenda(rows)

    def due(self, now: Instant) -> tuple[tuple[Entry, ...], "Agenda"]:
        """Return what is due by `now`, ascending, and the agenda without it."""
        seconds = sorted(second for second in self.rows if second <= now)
        if not seconds:
            return (), self
        rows = dict(self.rows)
        found: list[Entry] = []
        for second in seconds:
            row = rows.pop(second)
            count = bisect_right(row, (now, LAST))
            found += row[:count]
            if row[count:]:
                rows[second] = row[count:]
        return tuple(found), Agenda(rows) if found else self

    def first(self, stands: Callable[[Entry], bool]) -> tuple[Instant | None, "Agenda"]:
        """Return when the first entry that still stands is due, None when none does, and the agenda from there on."""
        rows: dict[int, tuple[Entry, ...]] | None = None
        kept = self.rows
        while kept:
            second = min(kept)
            row = kept[second]
            count = next((index for index, entry in enumerate(row) if stands(entry)), len(row))
            if count == 0:
                return row[0][0], Agenda(kept) if rows is not None else self
            if rows is None:
                kept = rows = dict(self.rows)
            if row[count:]:
                rows[second] = row[count:]
            else:
                del rows[second]
        return None, self if rows is None else Agenda()


def joined(row: tuple[Entry, ...], more: list[Entry]) -> tuple[Entry, ...]:
    """Return a sorted row with more entries, each once."""
    if len(more) > MANY:
        return tuple(sorted({*row, *more}))
    for entry in more:
        at = bisect_left(row, entry)
        if row[at : at + 1] != (entry,):
            row = (*row[:at], entry, *row[at:])
    return row
