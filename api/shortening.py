"""Shortens values in messages: a manifest may contain values of any length."""

SHOWN = 60
"""Characters of a value that a message repeats."""
DIGITS_BITS = 1000
"""Bits of the largest number that is written out: more than any float needs, less than the interpreter refuses."""


def shortened(text: str, limit: int = SHOWN) -> str:
    """Return a string, or its beginning."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def shortened_number(value: float) -> str:
    """Return a number, or its beginning."""
    if isinstance(value, int) and value.bit_length() > DIGITS_BITS:
        return f"of {value.bit_length()} bits"
    return shortened(str(value))
