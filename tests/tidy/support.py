"""Renders the tables of what is honoured as ``docs/support.md``: ``python -m tests.tidy.support`` writes it."""

from pathlib import Path

from actors.pod.support import CONFINED, HONOURED

PAGE = Path(__file__).parents[2] / "docs" / "support.md"
HEAD = """# What of a Pod this agent honours

Made from the tables in `actors/pod/support.py` by `python -m tests.tidy.support`; a test keeps it up to date.

A pod that sets a field that is not listed here, or another value than those listed, stays `Pending` with reason
`Unsupported` and the field's path in its message: nothing is dropped silently. A field left at its default asks for
nothing.

The embedded runtime runs plain processes of the host; a runtime that confines containers (containerd, CRI-O) can do more.
What is listed of `spec.containers[]` holds for `spec.initContainers[]` too, sidecars among them.
`resources.limits` and `overhead` are honoured by resource, `*` stands for a size of huge pages.

| field | on the embedded runtime | on a runtime that confines |
|---|---|---|
"""


def rendered() -> str:
    """Return the page."""
    rows = "".join(row(path) for path in sorted({**HONOURED, **CONFINED}))
    return HEAD + rows


def row(path: str) -> str:
    """Return one line of the table."""
    anywhere = values(HONOURED[path]) if path in HONOURED else "-"
    confined = values(CONFINED.get(path, HONOURED.get(path, ())))
    return f"| `{path}` | {anywhere} | {confined} |\n"


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
