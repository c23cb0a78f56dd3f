"""Durations as Go writes them: ``1m30s``, ``300ms``, ``2h0m0s``. Whole nanoseconds inside."""

import re

from api.shortening import shortened

UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
"""Nanoseconds per unit. Both code points of the Greek mu are accepted."""

SECOND = UNITS["s"]
LIMIT = 2**63 - 1
PART = re.compile(r"(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
LONGEST = 256
"""Characters of the longest text that is looked at."""


class DurationError(ValueError):
    """The text is not a duration."""


def parse(text: str) -> int:
    """Read a duration and return nanoseconds. Raises `DurationError` that says what would do."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0
    total = 0
    at = 0
    while at < len(body) <= LONGEST:
        match = PART.match(body, at)
        if match is None:
            break
        whole, part, only, unit = match.groups()
        digits = part or only or ""
        total += int(whole or "0") * UNITS[unit] + int(digits or "0") * UNITS[unit] // 10 ** len(digits)
        at = match.end()
    if not body or at != len(body):
        raise DurationError(
            f"{shortened(text)!r} is not a duration: expected numbers with units, such as 300ms, 20s or 1m30s"
        )
    if total > LIMIT:
        raise DurationError(f"{shortened(text)!r} is longer than the longest duration, some 292 years")
    return -total if text[0] == "-" else total


def parse_seconds(text: str) -> float:
    """Read a duration and return seconds. Raises `DurationError`."""
    return parse(text) / SECOND


def write(nanoseconds: int) -> str:
    """Write nanoseconds as Go does: ``1m30s``, ``1.5s``, ``300ms``, ``0s``."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest < SECOND:
        unit = "ns" if rest < UNITS["us"] else "µs" if rest < UNITS["ms"] else "ms"
        return f"{sign}{decimal(rest, UNITS[unit])}{unit}"
    hours, rest = divmod(rest, UNITS["h"])
    minutes, rest = divmod(rest, UNITS["m"])
    text = f"{decimal(rest, SECOND)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def decimal(number: int, unit: int) -> str:
    """Write `number` counted in `unit` (a power of ten) without trailing zeros."""
    whole, part = divmod(number, unit)
    if not part:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{part:0{digits}d}".rstrip("0")
