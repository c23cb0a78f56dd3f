"""Amounts as Kubernetes writes them: ``250m``, ``64Mi``, ``1e3``. Exact integers inside, never floats.

```text
text = sign? digits [. digits] suffix
suffix = n u m (none) k M G T P E   decimal      Ki Mi Gi Ti Pi Ei   binary      e3 E-2   exponent
```

A part below one nano is rounded away from zero; what exceeds 2**63 - 1 is that limit, as in Kubernetes.
"""

import re
from enum import StrEnum
from functools import lru_cache

import msgspec

from api.shortening import shortened

NANO = 10**9
LIMIT = (2**63 - 1) * NANO

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
PATTERN = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only>[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]|)|[eE](?P<exponent>[+-]?[0-9]+))",
    re.ASCII,
)
EXPONENT_LIMIT = 400
"""No amount between the nano and the limit needs a larger exponent; ten to a billion is never computed."""
LONGEST = 512
"""Characters of the longest text that is looked at."""


class Notation(StrEnum):
    """How an amount was written, and is written again."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """The text is not an amount."""


def ceil_div(number: int, divisor: int) -> int:
    """Divide and round towards positive infinity."""
    return -(-number // divisor)


class Amount(msgspec.Struct, frozen=True, order=False, eq=False):
    """An exact amount. Compared by value: ``1`` equals ``1000m``; `str` gives the canonical text."""

    nanos: int
    notation: Notation = Notation.DECIMAL

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amount) and self.nanos == other.nanos

    def __ne__(self, other: object) -> bool:
        # msgspec's own comparison would be asked otherwise, and compare the notation too.
        return not self == other

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: "Amount") -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: "Amount") -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: "Amount") -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: "Amount") -> bool:
        return self.nanos >= other.nanos

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.nanos + other.nanos, self.notation)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.nanos - other.nanos, self.notation)

    def value(self) -> int:
        """Return whole units (bytes, cores), rounded up."""
        return ceil_div(self.nanos, NANO)

    def milli_value(self) -> int:
        """Return thousandths (millicores), rounded up."""
        return ceil_div(self.nanos, NANO // 1000)

    def __str__(self) -> str:
        return canonical(self)


ZERO = Amount(0)


@lru_cache(maxsize=1024)
def parse(text: str) -> Amount:
    """Read an amount. Raises `QuantityError` that says what was found and what would do."""
    match = PATTERN.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise QuantityError(
            f"{shortened(text)!r} is not a quantity: expected a number with an optional suffix, such as 250m, 1.5, 64Mi or 1e3"
        )
    part = match["part"] or match["only"] or ""
    mantissa = int((match["whole"] or "") + part)
    scale = 9 - len(part)
    suffix = match["suffix"]
    notation = Notation.DECIMAL
    factor = 1
    if match["exponent"] is not None:
        notation = Notation.EXPONENT
        # An exponent with more digits than that is out of range whatever they say.
        digits = match["exponent"]
        sign = -1 if digits[0] == "-" else 1
        exponent = min(int(digits.lstrip("+-")[-18:]), LONGEST + EXPONENT_LIMIT)
        if len(digits.lstrip("+-").lstrip("0")) > 4:
            exponent = LONGEST + EXPONENT_LIMIT
        scale += sign * exponent
    elif suffix in BINARY:
        notation = Notation.BINARY
        factor = 1 << BINARY[suffix]
    else:
        scale += DECIMAL[suffix or ""]
    scaled = mantissa * factor
    nanos = scaled * 10**scale if scale >= 0 else ceil_div(scaled, 10**-scale)
    nanos = min(nanos, LIMIT)
    return Amount(-nanos if match["sign"] == "-" else nanos, notation)


def canonical(amount: Amount) -> str:
    """Write an amount as Kubernetes does: no fraction digits, the largest suffix that allows it."""
    if amount.nanos == 0:
        return "0"
    sign, nanos = ("-" if amount.nanos < 0 else ""), abs(amount.nanos)
    if amount.notation is Notation.BINARY and nanos % NANO == 0 and nanos >= 1024 * NANO:
        return sign + binary_text(nanos // NANO)
    exponent = -9
    while nanos % 1000 == 0 and exponent < 18:
        nanos //= 1000
        exponent += 3
    if amount.notation is Notation.EXPONENT:
        return f"{sign}{nanos}" + (f"e{exponent}" if exponent else "")
    suffix = next(name for name, power in DECIMAL.items() if power == exponent)
    return f"{sign}{nanos}{suffix}"


def binary_text(units: int) -> str:
    """Write whole units with the largest binary suffix that divides them."""
    suffix = ""
    for name in BINARY:
        if units % 1024:
            break
        units //= 1024
        suffix = name
    return f"{units}{suffix}"
