"""Collects the problems of an object; rules that many fields share."""

from collections.abc import Iterable, Mapping, Sequence

from api.kube import quantity
from api.kube.validation import name as names
from api.problem import UNSET, FieldProblem, joined, shown


class Check:
    """The problems found so far; each rule adds to them and never stops the next."""

    def __init__(self) -> None:
        self.problems: list[FieldProblem] = []

    def wrong(self, path: str, found: object, expected: str) -> None:
        """Note a problem with the value `found`, which is shown shortened."""
        self.note(path, shown(found), expected)

    def note(self, path: str, found: str, expected: str) -> None:
        """Note a problem; `found` describes what is there."""
        self.problems.append(FieldProblem(path=path, found=found, expected=expected))

    def required(self, path: str, value: object, expected: str) -> bool:
        """Note a problem when a value is missing; return whether it is set."""
        if value in (None, "", ()):
            self.problems.append(FieldProblem(path=path, found=UNSET, expected=expected))
            return False
        return True

    def matches(self, path: str, value: str, rule: names.Rule, *, optional: bool = False) -> None:
        """Check a name's form."""
        if optional and not value:
            return
        if self.required(path, value, rule.expected) and not rule.accepts(value):
            self.wrong(path, value, rule.expected)

    def one_of(self, path: str, value: str, allowed: Sequence[str], *, optional: bool = True) -> None:
        """Check that a string is one of the allowed values."""
        expected = f"one of {', '.join(allowed)}"
        if not value and optional:
            return
        if self.required(path, value, expected) and value not in allowed:
            self.wrong(path, value, expected)

    def within(self, path: str, value: int | None, low: int, high: int | None = None) -> None:
        """Check that a number, if set, is in a range."""
        if value is not None and (value < low or (high is not None and value > high)):
            self.wrong(path, value, f"at least {low}" if high is None else f"between {low} and {high}")

    def unique(self, path: str, values: Iterable[str], field: str, what: str) -> None:
        """Check that no value of a list's field occurs twice; empty ones are skipped."""
        seen: set[str] = set()
        for index, value in enumerate(values):
            if value and value in seen:
                place = f"{path}[{index}].{field}" if field else f"{path}[{index}]"
                self.wrong(place, value, f"{what} that is unique in this list")
            seen.add(value)

    def exactly_one(self, path: str, chosen: Mapping[str, object], what: str) -> None:
        """Check that exactly one of some members is set."""
        present = [field for field, value in chosen.items() if value is not None]
        if len(present) != 1:
            found = " and ".join(present) if present else UNSET
            self.note(path, found, f"exactly one {what} of {', '.join(chosen)}")

    def relative(self, path: str, value: str) -> None:
        """Check a path that must stay inside its volume or container."""
        if value.startswith("/"):
            self.wrong(path, value, "a relative path")
        if ".." in value.split("/"):
            self.wrong(path, value, 'a path without ".."')

    def amount(self, path: str, text: str) -> quantity.Amount | None:
        """Check that a quantity is valid and not negative; return it."""
        try:
            amount = quantity.parse(text)
        except quantity.QuantityError:
            self.wrong(path, text, "a quantity such as 250m, 1.5 or 64Mi")
            return None
        if amount < quantity.ZERO:
            self.wrong(path, text, "a quantity that is not negative")
            return None
        return amount

    def labels(self, path: str, labels: Mapping[str, str]) -> None:
        """Check the keys and values of labels."""
        for key, value in labels.items():
            self.matches(joined(path, key), key, names.QUALIFIED)
            if value:
                self.matches(joined(path, key), value, names.LABEL_VALUE)
