"""Renders the table of what is honoured as ``docs/support.md``: ``python -m tests.tidy.support`` writes it."""

from pathlib import Path

from actors.pod.support import HONOURED

PAGE = Path(__file__).parents[2] / "docs" / "support.md"
HEAD = """# What of a Pod this agent honours

Made from the table in `actors/pod/support.py` by `python -m tests.tidy.support`; a test keeps it up to date.

A pod that sets a field that is not listed here, or another value than those listed, stays `Pending` with reason
`Unsupported` and the field's path in its message: nothing is dropped silently. A field left at its default asks for
nothing.

| field | honoured values |
|---|---|
"""


def rendered() -> str:
    """Return the page."""
    rows = (f"| `{path}` | {values(accepted)} |\n" for path, accepted in sorted(HONOURED.items()))
    return HEAD + "".join(rows)


def values(accepted: tuple[object, ...]) -> str:
    """Return the accepted values of a row in words."""
    if not accepted:
        return "any"
    return ", ".join(word(value) for value in accepted)


def word(value: object) -> str:
    """Return one accepted value as YAML writes it."""
    if value is None or value == "":
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    PAGE.write_text(rendered())
