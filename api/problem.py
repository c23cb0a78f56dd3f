"""One thing wrong with an object: which field, what is there, what must be there."""

import msgspec

from api.ports.manifests import Problem
from api.shortening import shortened, shortened_number

UNSET = "nothing"
"""What stands for a field without a value."""
KEY_LIMIT = 100
"""Characters of a key that a path repeats."""


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid field. `found` never repeats an environment value, a header value or a secret."""

    path: str
    """``spec.containers[0].image``; empty for the object itself."""
    found: str
    """What is there; `UNSET` where a value is required."""
    expected: str
    """What must be there; begins with `UNSET` where no value is allowed, and goes on with the reason."""

    def text(self) -> str:
        """Return the problem as one line, without the place."""
        if self.found == UNSET:
            return f"required: {self.expected}"
        if self.expected.startswith(UNSET):
            return f"{self.found} is not allowed{self.expected.removeprefix(UNSET)}"
        return f"must be {self.expected}, not {self.found}"

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
            return UNSET
        case bool():
            return "true" if value else "false"
        case int() | float():
            return shortened_number(value)
        case str():
            return f'"{shortened(value)}"' if value else "an empty string"
        case _:
            return kind_of(value)


def kind_of(value: object) -> str:
    """Name the kind of a plain value, without the value."""
    match value:
        case None:
            return UNSET
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
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
