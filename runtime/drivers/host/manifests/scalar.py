"""What a plain YAML scalar means to Kubernetes: YAML 1.1 as its Go reader has it, which is neither PyYAML's nor 1.2's.

| written | means |
|---|---|
| ``yes no on off y n true false`` (three spellings of case) | true or false |
| ``0644`` ``0o644`` ``0x1f`` ``0b11`` ``1_000`` ``+5`` | whole numbers; a leading zero is octal |
| ``08`` ``1e3`` ``.5`` ``5.`` | numbers |
| ``22:22`` ``2024-01-01`` ``1.2.3`` ``1e999`` | texts: no base 60, no dates |
| ``~ null`` and nothing | nothing |
"""

import re

Scalar = str | int | float | bool | None

TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
NULL = ("", "~", "null", "Null", "NULL")
WORDS: dict[str, Scalar] = {
    **dict.fromkeys(TRUE, True),
    **dict.fromkeys(FALSE, False),
    **dict.fromkeys(NULL),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
FIRST = frozenset("+-.0123456789")
INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))",
    re.ASCII,
)
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
BASES = (("hex", 16), ("bin", 2), ("oct", 8), ("dec", 10))
DIGITS_LIMIT = 400
"""Texts with more digits than the largest float has are texts."""


def plain(text: str) -> Scalar:
    """Return what an unquoted scalar without a tag means."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in FIRST or len(text) > DIGITS_LIMIT:
        return text
    # Underscores part digits everywhere but in a number that begins with its point.
    digits = text if text[0] == "." else text.replace("_", "")
    match = INTEGER.fullmatch(digits)
    if match is not None:
        for group, base in BASES:
            if match[group] is not None:
                return int(match["sign"] + match[group], base)
    if FLOAT.fullmatch(digits):
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            return text
        # As JSON has it: 1e3 is 1000, which a field for whole numbers takes.
        return int(number) if number.is_integer() and abs(number) < 1e21 else number
    return text


def key_text(value: Scalar) -> str | None:
    """Return the JSON name of a key, None for an invalid one."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return ".nan" if value != value else f"{value:g}".replace("inf", ".inf")  # noqa: PLR0124
        case None:
            return None
