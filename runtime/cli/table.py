"""Tables for people: aligned, as wide as the terminal and no wider, safe to print.

On a terminal, columns that may shrink do so, widest first, and cut their text with ``…``; piped, nothing is cut, so that
grep and cut find everything. Control characters never reach a terminal from here: a container's message could move the
cursor or change the title.
"""

import os
import sys
import unicodedata
from collections.abc import Iterator
from typing import TextIO

import msgspec

GAP = "  "
_SPANS = (
    (3600, 60, "m", 1, "s", 600),
    (86400, 3600, "h", 60, "m", 8 * 3600),
    (100_000_000_000, 86400, "d", 3600, "h", 8 * 86400),
)
"""Up to which age, in which unit, with which smaller one, and until when the smaller one is of interest."""
RESET = "\x1b[0m"
STYLES = {
    "good": "\x1b[32m",
    "warn": "\x1b[33m",
    "bad": "\x1b[31m",
    "faint": "\x1b[2m",
    "strong": "\x1b[1m",
}


class Column(msgspec.Struct, frozen=True):
    """One column: its head, how it is aligned, and the width it may be cut to (0: never cut)."""

    head: str
    right: bool = False
    least: int = 0
    optional: bool = False
    """Left out when even cutting does not make the table fit."""


class TableCell(msgspec.Struct, frozen=True):
    """One text in a table, with an optional style of `STYLES`."""

    text: str
    style: str = ""


class Screen(msgspec.Struct, frozen=True):
    """Where output goes: how wide it is (None: as wide as it needs) and whether it takes colour."""

    width: int | None = None
    colour: bool = False

    def paint(self, text: str, style: str) -> str:
        """Return `text` in a style, when there is colour."""
        return f"{STYLES[style]}{text}{RESET}" if self.colour and style and text else text


def screen_of(stream: TextIO | None = None) -> Screen:
    """Detect the terminal behind `stream` (default: standard output); respects ``NO_COLOR`` and ``TERM=dumb``."""
    target = sys.stdout if stream is None else stream
    try:
        if not target.isatty():
            return Screen()
        width = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(target.fileno()).columns
    except (OSError, ValueError):
        width = 80
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(width=width or 80, colour=colour)


def clean(text: str) -> str:
    """Return `text` on one line and without anything that a terminal would obey."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else (" " if c in "\n\r\t" else "\N{REPLACEMENT CHARACTER}") for c in text
    )


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_width(c) for c in text)


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def cut(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, with ``…`` where something is missing."""
    if columns_of(text) <= width:
        return text
    if width <= 0:
        return ""
    kept, used = [], 0
    for char in text:
        used += _width(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"


def wrapped(label: str, text: str, screen: Screen, style: str = "", *, indent: int = 12) -> Iterator[str]:
    """Return labelled lines, wrapped at words to the terminal; piped, one line."""
    lead = f"{label + ':' if label else '':<{indent}}"
    room = max(30, (screen.width or 1 << 30) - len(lead))
    shown = clean(text)
    while len(shown) > room:
        at = shown.rfind(" ", 1, room + 1)
        at = room if at <= 0 else at
        yield screen.paint(lead, "faint") + screen.paint(shown[:at].rstrip(), style)
        shown, lead = shown[at:].lstrip(), " " * len(lead)
    yield (screen.paint(lead, "faint") + screen.paint(shown, style)).rstrip()


def table(columns: tuple[Column, ...], rows: list[tuple[TableCell | str, ...]], screen: Screen) -> str:
    """Return a table with a head, one line for each row; no line ends in blanks."""
    cells = [
        [
            TableCell(clean(cell)) if isinstance(cell, str) else TableCell(clean(cell.text), cell.style)
            for cell in row
        ]
        for row in rows
    ]
    widths = [
        max([len(column.head), *(columns_of(row[at].text) for row in cells)])
        for at, column in enumerate(columns)
    ]
    if screen.width is not None:
        shown = _shown(columns, widths, screen.width)
        columns = tuple(columns[at] for at in shown)
        cells = [[row[at] for at in shown] for row in cells]
        widths = _fit(columns, [widths[at] for at in shown], screen.width)
    head = [TableCell(column.head, "strong") for column in columns]
    return "".join(_line(columns, widths, row, screen) for row in [head, *cells])


def _shown(columns: tuple[Column, ...], widths: list[int], width: int) -> list[int]:
    """Leave out optional columns, the last first, as long as the table could not fit."""
    shown = list(range(len(columns)))
    for at in reversed(range(len(columns))):
        least = [
            min(widths[at], max(c.least, len(c.head))) if (c := columns[at]).least else widths[at]
            for at in shown
        ]
        if sum(least) + len(GAP) * (len(shown) - 1) <= width:
            break
        if columns[at].optional:
            shown.remove(at)
    return shown


def _fit(columns: tuple[Column, ...], widths: list[int], width: int) -> list[int]:
    """Take columns away from the widest of those that may shrink, until the table fits or none may."""
    fitted = list(widths)
    over = sum(fitted) + len(GAP) * (len(fitted) - 1) - width
    while over > 0:
        may = [
            at
            for at, column in enumerate(columns)
            if column.least and fitted[at] > max(column.least, len(column.head))
        ]
        if not may:
            break
        widest = max(may, key=lambda at: fitted[at])
        fitted[widest] -= 1
        over -= 1
    return fitted


def _line(columns: tuple[Column, ...], widths: list[int], row: list[TableCell], screen: Screen) -> str:
    parts: list[str] = []
    left = screen.width
    for at, (column, width, cell) in enumerate(zip(columns, widths, row, strict=True)):
        gap = GAP if at else ""
        room = width if left is None else min(width, left - len(gap))
        if room <= 0:
            break  # A terminal too narrow for all columns shows the first ones, and never wraps.
        text = cut(cell.text, room)
        pad = " " * (room - columns_of(text))
        shown = screen.paint(text, cell.style)
        parts.append(gap + (pad + shown if column.right else shown + pad))
        if left is not None:
            left -= len(gap) + room
    return "".join(parts).rstrip() + "\n"


def age(seconds: float | None) -> str:
    """Return a duration for people: ``3ms``, ``45s``, ``5m12s``, ``3h4m``, ``2d5h``, ``40d``; ``-`` for None."""
    if seconds is None:
        return "-"
    if 0 < seconds < 1:
        return f"{max(1, round(seconds * 1000))}ms"
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    for limit, big, unit, small, below, exact in _SPANS:
        if whole < limit:
            rest = whole % big // small
            return f"{whole // big}{unit}" + (f"{rest}{below}" if rest and whole < exact else "")
    return f"{whole // 86400}d"


def size(count: int) -> str:
    """Return a size for people: ``912B``, ``1.4KiB``, ``23MiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f}{unit}" if unit == "B" or value >= 10 else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.1f}TiB"
