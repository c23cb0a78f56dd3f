"""One thing wrong with an object: which field, what was found there, what would be right."""

import msgspec

from api.ports.manifests import Problem
from api.shortening import shortened, shortened_number

KEY_LIMIT = 100
"""Characters of a key that a path repeats."""


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A field that does not do. `found` never repeats an environment value, a header value or a secret."""

    path: str
    """``spec.containers[0].image``; empty for the object itself."""
    found: str
    expected: str

    def text(self) -> str:
        """Return the problem as one line, without the place."""
        return f"found {self.found}, expected {self.expected}"

    def __str__(self) -> str:
        return f"{self.path}: {self.text()}" if self.path else self.text()

    def at(self, source: str) -> Problem:
        """Return the problem of a document that came from `source` (a file name or URL)."""
        where = f"{source}: {self.path}" if self.path else source
        return Problem(where=where, message=self.text())


def shown(value: object) -> str:
    """Describe a plain value for a message: its kind, and for a scalar the value itself, shortened."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {shortened_number(value)}"
        case str():
            return f'"{shortened(value)}"' if value else "an empty text"
        case _:
            return kind_of(value)


def kind_of(value: object) -> str:
    """Name the kind of a plain value, without the value."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


def joined(path: str, field: str) -> str:
    """Return the path of `field` inside `path`; a key that is no plain word stands in brackets, a long one is shortened."""
    if len(field) > KEY_LIMIT:
        return f"{path}[{shortened(field, KEY_LIMIT)}]"
    if not field.replace("_", "").replace("-", "").isalnum():
        return f"{path}[{field}]"
    return f"{path}.{field}" if path else field
