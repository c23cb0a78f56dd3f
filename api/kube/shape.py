"""Fits raw data (decoded JSON) to the types: reports every type error and every unknown field by its path, in one walk.

msgspec stops at its first error and drops unknown fields; users want all problems at once. The walk is lenient where
Kubernetes is (null is unset, a quantity may be a number) and returns plain data that `msgspec.convert` accepts.
"""

import difflib
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from api import duration
from api.kube import quantity
from api.problem import FieldProblem, joined, kind_of, shown

INT64 = 2**63
FLOAT_LIMIT = sys.float_info.max
LONGEST_NAME = 100
"""Characters of the longest name that may be a misspelt field."""
RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Unset:
    """Marks a value to leave out."""


UNSET = Unset()


class Findings:
    """Problems and unknown fields of one walk."""

    def __init__(self, ignored: frozenset[str] = frozenset()) -> None:
        self.problems: list[FieldProblem] = []
        self.unknown: list[UnknownField] = []
        self.ignored = ignored

    def wrong(self, path: str, found: str, expected: str) -> Unset:
        """Note a problem; the value is left out."""
        self.problems.append(FieldProblem(path=path, found=found, expected=expected))
        return UNSET


class UnknownField(msgspec.Struct, frozen=True, kw_only=True):
    """A field that the type does not have; its value is never shown."""

    path: str
    suggestion: str = ""
    """The likely name, empty when none is close."""

    def __str__(self) -> str:
        return f"{self.path} (did you mean {self.suggestion!r}?)" if self.suggestion else self.path


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """Raw data that fits its type, and the problems of the rest."""

    value: Any
    problems: tuple[FieldProblem, ...] = ()
    unknown: tuple[UnknownField, ...] = ()


Fit = Callable[[Any, str, Findings], Any]


def fit(raw: Any, into: Any, *, ignored: frozenset[str] = frozenset()) -> Fitted:
    """Fit `raw` (dicts, lists, scalars) to the type `into`.

    `ignored` names known fields that are not kept. `value` is plain data without invalid and unknown fields.
    """
    findings = Findings(ignored)
    value = fitter(into)(raw, "", findings)
    if isinstance(value, Unset):
        value = {}
    return Fitted(value=value, problems=tuple(findings.problems), unknown=tuple(findings.unknown))


@cache
def fitter(hint: Any) -> Fit:
    """Return the function that fits data to a type hint; made once per hint.

    A struct's own fields are resolved at its first use: most manifests use few types, and a type may contain itself.
    """
    kind, args = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return annotated(args[0], args[1:])
    if kind in (Union, UnionType):
        return union_of(args)
    if kind is tuple:
        return list_of(fitter(args[0]), zero_of(args[0]))
    if kind is Mapping:
        return map_of(fitter(args[1]), zero_of(args[1]))
    if hint in SCALARS:
        return SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return lambda raw, path, findings: fit_struct(table(hint), raw, path, findings)
    raise TypeError(f"objects are not made of {hint}")


def annotated(hint: Any, notes: tuple[Any, ...]) -> Fit:
    """Return the function for a Kubernetes scalar, or for a type with another annotation."""
    named = (note.extra["kubernetes"] for note in notes if note.extra and "kubernetes" in note.extra)
    name = next(named, None)
    return fitter(hint) if name is None else SCALARS[name]


class FieldTable(msgspec.Struct, frozen=True):
    """Fields of one struct type by wire name."""

    name: str
    fields: dict[str, Fit]
    lowered: dict[str, str]


@cache
def table(cls: type[msgspec.Struct]) -> FieldTable:
    """Return the fields of a struct type."""
    fields = {field.encode_name: fitter(field.type) for field in msgspec.structs.fields(cls)}
    return FieldTable(cls.__name__, fields, {name.lower(): name for name in fields})


def fit_struct(known: FieldTable, raw: Any, path: str, findings: Findings) -> Any:
    """Fit an object to a struct type."""
    if not isinstance(raw, dict):
        return findings.wrong(path, kind_of(raw), f"an object ({known.name})")
    fitted = {}
    for name, value in raw.items():
        inner = known.fields.get(name)
        if inner is None:
            if name not in findings.ignored:
                findings.unknown.append(
                    UnknownField(path=joined(path, name), suggestion=close_to(name, known))
                )
            continue
        if value is None:
            continue
        kept = inner(value, joined(path, name), findings)
        if kept is not UNSET:
            fitted[name] = kept
    return fitted


def close_to(name: str, known: FieldTable) -> str:
    """Return the known field that `name` probably means."""
    if name.lower() in known.lowered:
        return known.lowered[name.lower()]
    if len(name) > LONGEST_NAME:
        return ""
    near = difflib.get_close_matches(name.lower(), known.lowered, n=1, cutoff=0.8)
    return known.lowered[near[0]] if near else ""


def zero_of(hint: Any) -> Any:
    """Return the zero value of a type, which a null in a list or map stands for."""
    match get_origin(hint):
        case None:
            return ZEROS.get(hint, {})
        case kind if kind is Annotated:
            return zero_of(get_args(hint)[0])
        case kind:
            return [] if kind is tuple else {}


def list_of(inner: Fit, zero: Any) -> Fit:
    """Return the function that fits lists."""

    def fit_list(raw: Any, path: str, findings: Findings) -> Any:
        if not isinstance(raw, list):
            return findings.wrong(path, kind_of(raw), "a list")
        items = [
            inner(zero if item is None else item, f"{path}[{index}]", findings)
            for index, item in enumerate(raw)
        ]
        # An invalid item becomes an empty one, so that the paths of the others stay correct.
        return [zero if item is UNSET else item for item in items]

    return fit_list


def map_of(inner: Fit, zero: Any) -> Fit:
    """Return the function that fits maps with string keys."""

    def fit_map(raw: Any, path: str, findings: Findings) -> Any:
        if not isinstance(raw, dict):
            return findings.wrong(path, kind_of(raw), "an object of names and values")
        kept = {
            key: inner(zero if value is None else value, joined(path, key), findings)
            for key, value in raw.items()
        }
        return {key: value for key, value in kept.items() if value is not UNSET}

    return fit_map


def union_of(members: tuple[Any, ...]) -> Fit:
    """Return the function for `X | None` and for a port by number or name."""
    some = [member for member in members if member is not NoneType]
    return fitter(some[0]) if len(some) == 1 else fit_int_or_text


def fit_text(raw: Any, path: str, findings: Findings) -> Any:
    """Fit a string."""
    if isinstance(raw, str):
        return raw
    quote = ' (put it in quotes: "...")' if isinstance(raw, bool | int | float) else ""
    return findings.wrong(path, shown(raw), f"a string{quote}")


def fit_secret(raw: Any, path: str, findings: Findings) -> Any:
    """Fit a string that no message repeats."""
    return (
        raw
        if isinstance(raw, str)
        else findings.wrong(path, kind_of(raw), 'a string (put it in quotes: "...")')
    )


def fit_int(raw: Any, path: str, findings: Findings) -> Any:
    """Fit an integer of 64 bits."""
    if isinstance(raw, int) and not isinstance(raw, bool) and -INT64 <= raw < INT64:
        return raw
    quoted = isinstance(raw, str) and raw.lstrip("-").isdigit()
    return findings.wrong(path, shown(raw), "an integer" + (" (without quotes)" if quoted else ""))


def fit_float(raw: Any, path: str, findings: Findings) -> Any:
    """Fit a number."""
    if isinstance(raw, int | float) and not isinstance(raw, bool) and abs(raw) <= FLOAT_LIMIT:
        return float(raw)
    return findings.wrong(path, shown(raw), "a number")


def fit_bool(raw: Any, path: str, findings: Findings) -> Any:
    """Fit a boolean."""
    return raw if isinstance(raw, bool) else findings.wrong(path, shown(raw), "true or false")


def fit_int_or_text(raw: Any, path: str, findings: Findings) -> Any:
    """Fit an integer or a name, such as a port."""
    if isinstance(raw, str) or (isinstance(raw, int) and not isinstance(raw, bool) and -INT64 <= raw < INT64):
        return raw
    return findings.wrong(path, shown(raw), "an integer or a name")


def fit_quantity(raw: Any, path: str, findings: Findings) -> Any:
    """Fit a quantity: a string with or without suffix, or a number."""
    amount = "a quantity such as 250m, 1.5 or 64Mi"
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        return findings.wrong(path, shown(raw), amount)
    if isinstance(raw, int) and abs(raw) > FLOAT_LIMIT:
        return findings.wrong(path, shown(raw), amount)
    text = str(int(raw)) if isinstance(raw, float) and raw.is_integer() else str(raw)
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return findings.wrong(path, shown(raw), amount)
    return text


def fit_time(raw: Any, path: str, findings: Findings) -> Any:
    """Fit an instant."""
    if isinstance(raw, str) and RFC3339.fullmatch(raw):
        return raw
    return findings.wrong(path, shown(raw), "a time such as 2024-05-01T12:00:00Z")


def fit_duration(raw: Any, path: str, findings: Findings) -> Any:
    """Fit a duration."""
    try:
        if isinstance(raw, str):
            duration.parse(raw)
            return raw
    except duration.DurationError:
        pass
    return findings.wrong(path, shown(raw), "a duration with units, such as 300ms, 20s or 1m30s")


SCALARS: dict[type | str, Fit] = {
    str: fit_text,
    int: fit_int,
    float: fit_float,
    bool: fit_bool,
    "secret": fit_secret,
    "quantity": fit_quantity,
    "time": fit_time,
    "duration": fit_duration,
}
"""By type, and by the name in the annotation of a Kubernetes scalar."""

ZEROS: dict[type, Any] = {str: "", int: 0, float: 0, bool: False}
