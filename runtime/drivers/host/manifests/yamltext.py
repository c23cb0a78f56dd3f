"""Reads one YAML or JSON document as Kubernetes does, and returns compact JSON.

It reads the parser's events, not its nodes: that halves the memory, applies limits before a document can do harm, and
avoids PyYAML's own scalar rules (see `runtime.drivers.host.manifests.scalar`). Stricter than Kubernetes: duplicate keys,
several documents and infinite numbers are errors.
"""

import base64
import binascii
import json
import math
import re
from collections import Counter
from typing import Any

import msgspec

from api.ports.manifests import Problem
from api.problem import kind_of
from api.shortening import shortened
from runtime.drivers.host.manifests.scalar import Scalar, key_text, plain

DEPTH_LIMIT = 100
"""Levels of nesting; a Pod has some 15."""
EXPANSION_LIMIT = 4 << 20
"""Characters and nodes that aliases may add to a document."""
PARSER_LIMIT = 200
"""Characters of a parser error; it repeats names in full."""
PROBLEMS_LIMIT = 20
"""Problems of one document that are reported; the rest is counted."""

CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that YAML does not allow."""
JSON_OBJECT = re.compile(r'\s*(\[|\{\s*(["}]|$))')
"""The beginning of a document meant as JSON: its error is JSON's, not YAML's."""

STANDARD_TAG = "tag:yaml.org,2002:"


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One document: compact JSON, or its problems."""

    json: bytes | None = None
    problems: tuple[Problem, ...] = ()


class UnreadableError(ValueError):
    """The text is not a valid document; `line` counts from 1, 0 for the whole."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def read_document(text: bytes, name: str) -> Document:
    """Read the one document in `text`, which came from `name` (a file name or URL). Never raises."""
    try:
        content = decoded(text)
        value, problems = json_value(content) if content.lstrip()[:1] in ("{", "[") else yaml_value(content)
        if not problems and isinstance(value, dict):
            return Document(json=msgspec.json.encode(value))
        if not problems:
            problems = [(0, f"must be an object such as a Pod, not {kind_of(value)}")]
    except UnreadableError as error:
        problems = [(error.line, str(error))]
    except UnicodeEncodeError:
        problems = [(0, "a string holds half a character (a lone \\uD800 to \\uDFFF escape)")]
    located = [
        Problem(where=f"{name}:{line}" if line else name, message=message) for line, message in problems
    ]
    if len(located) > PROBLEMS_LIMIT:
        more = len(located) - PROBLEMS_LIMIT
        located = [*located[:PROBLEMS_LIMIT], Problem(where=name, message=f"and {more} more problems")]
    return Document(problems=tuple(located))


Found = tuple[Any, list[tuple[int, str]]]


def decoded(text: bytes) -> str:
    """Return the text as characters. Raises `UnreadableError`."""
    nul = text.find(b"\0")
    if nul >= 0:
        raise UnreadableError(
            line_of(text, nul), "the file is binary (it holds a NUL byte); a manifest is UTF-8 text"
        )
    try:
        content = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = line_of(text, error.start)
        raise UnreadableError(
            line, f"byte {text[error.start]:#04x} is not UTF-8; save the file as UTF-8"
        ) from error
    if not content.strip():
        raise UnreadableError(0, "the file is empty; a manifest holds one object such as a Pod")
    return content


def line_of(text: bytes, offset: int) -> int:
    """Return the line number, from 1, of a byte."""
    return text.count(b"\n", 0, offset) + 1


# JSON


def json_value(content: str) -> Found:
    """Read JSON; fall back to YAML's flow style. Raises `UnreadableError`."""
    doubled: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) < len(items):
            counts = Counter(key for key, _ in items)
            doubled.extend(key for key, count in counts.items() if count > 1)
        return made

    try:
        value = json.loads(
            content, object_pairs_hook=pairs, parse_float=json_number, parse_constant=refuse_constant
        )
    except json.JSONDecodeError as error:
        try:
            return yaml_value(content)
        except UnreadableError:
            if not JSON_OBJECT.match(content):
                raise
            said = f"not valid JSON: {error.msg} (column {error.colno})"
            raise UnreadableError(error.lineno, said) from error
    except UnreadableError:
        raise
    except ValueError as error:
        # The interpreter refuses to read integers of thousands of digits.
        raise UnreadableError(0, "a number has more digits than any field allows") from error
    except RecursionError as error:
        raise UnreadableError(0, f"nested deeper than {DEPTH_LIMIT} levels") from error
    if depth_over(value, DEPTH_LIMIT):
        raise UnreadableError(0, f"nested deeper than {DEPTH_LIMIT} levels")
    return value, [
        (0, f"duplicate key {shortened(key)!r}: each key is allowed once in an object") for key in doubled
    ]


def json_number(text: str) -> Scalar:
    """Read a number with a point or exponent as YAML does, so that ``1e3`` is an integer. Raises `UnreadableError`."""
    value = plain(text)
    if isinstance(value, str):
        raise UnreadableError(0, "a number is larger than a JSON number may be")
    return value


def refuse_constant(name: str) -> Any:
    """Refuse NaN and Infinity, which JSON does not have. Raises `UnreadableError`."""
    raise UnreadableError(0, f"{shortened(name)} is not a JSON number")


def depth_over(value: Any, limit: int) -> bool:
    """Return whether plain data nests deeper than `limit`."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


# YAML


class OpenNode:
    """A list or object that is being read."""

    __slots__ = ("anchor", "key", "key_line", "merges", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.key_line = 0
        self.merges: list[tuple[int, Any]] = []
        self.size = 1


MERGE = "\0<<"
"""Stands for the key ``<<``: no key of a document can hold a NUL."""


def yaml_value(content: str) -> Found:
    """Read YAML: the one document that is not empty, and all duplicate keys. Raises `UnreadableError`."""
    # Imported when first needed: most runs of the command line read no manifest.
    import yaml  # noqa: PLC0415

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = Builder()
    try:
        for event in yaml.parse(content, Loader=loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise explained(error, content) from error
    except yaml.YAMLError as error:
        found = CONTROL.search(content)
        line = content.count("\n", 0, found.start()) + 1 if found else 0
        raise UnreadableError(line, "not valid YAML: a control character that YAML does not allow") from error
    if not builder.documents:
        raise UnreadableError(
            0, "the file holds no object, only comments; a manifest holds one object such as a Pod"
        )
    if len(builder.documents) > 1:
        lines = ", ".join(str(line) for line, _ in builder.documents[:5])
        raise UnreadableError(
            builder.documents[1][0],
            f"must be one document, not {len(builder.documents)} (lines {lines}): put each object in its own file",
        )
    return builder.documents[0][1], builder.problems


def explained(error: Any, content: str) -> UnreadableError:
    """Return a parser's error with its line."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return UnreadableError(0, f"not valid YAML: {shortened(error.problem, PARSER_LIMIT)}")
    lines = content.splitlines()
    text = lines[mark.line] if mark.line < len(lines) else ""
    indent = text[: len(text) - len(text.lstrip())]
    if "\t" in indent:
        return UnreadableError(mark.line + 1, "a tab indents this line; YAML allows only spaces")
    context = f" {shortened(error.context, PARSER_LIMIT)}" if error.context else ""
    said = f"not valid YAML{context}: {shortened(error.problem, PARSER_LIMIT)} (column {mark.column + 1})"
    return UnreadableError(mark.line + 1, said)


class Builder:
    """Builds plain data from the parser's events, with limits on depth and on alias expansion."""

    def __init__(self) -> None:
        self.documents: list[tuple[int, Any]] = []
        self.problems: list[tuple[int, str]] = []
        self._levels: list[OpenNode] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._expanded = 0
        self._started = 1

    def take(self, event: Any) -> None:
        """Take the next event. Raises `UnreadableError`."""
        match type(event).__name__:
            case "ScalarEvent":
                line = event.start_mark.line + 1
                value = scalar_value(event, line)
                if event.anchor:
                    self._anchors[event.anchor] = (value, size_of(value))
                self._add(value, size_of(value), line, merge=event.value == "<<" and event.implicit[0])
            case "MappingStartEvent":
                self._open({}, event)
            case "SequenceStartEvent":
                self._open([], event)
            case "MappingEndEvent" | "SequenceEndEvent":
                self._close(event.start_mark.line + 1)
            case "AliasEvent":
                self._alias(event.anchor, event.start_mark.line + 1)
            case "DocumentStartEvent":
                self._started = event.start_mark.line + 1
                self._anchors.clear()
            case _:
                pass

    def _open(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        line = event.start_mark.line + 1
        if len(self._levels) >= DEPTH_LIMIT:
            raise UnreadableError(line, f"nested deeper than {DEPTH_LIMIT} levels")
        if self._levels and self._at_key():
            raise UnreadableError(line, "a key must be a string, not a list or an object (unquoted { or [ ?)")
        if event.anchor:
            self._anchors.pop(event.anchor, None)
        self._levels.append(OpenNode(value, event.anchor))

    def _at_key(self) -> bool:
        level = self._levels[-1]
        return isinstance(level.value, dict) and level.key is None

    def _close(self, line: int) -> None:
        level = self._levels.pop()
        if isinstance(level.value, dict):
            for merge_line, merged in level.merges:
                merge_into(level.value, merged, merge_line)
        if level.anchor:
            self._anchors[level.anchor] = (level.value, level.size)
        self._add(level.value, level.size, line, merge=False)

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self._anchors:
            if any(level.anchor == anchor for level in self._levels):
                raise UnreadableError(
                    line, "an alias refers to an object that contains it; write the value out"
                )
            # Its name is not repeated: it may be a password that begins with a star.
            raise UnreadableError(
                line,
                "an alias refers to an undefined anchor; a string that begins with * needs quotes",
            )
        value, size = self._anchors[anchor]
        self._expanded += size
        if self._expanded > EXPANSION_LIMIT:
            raise UnreadableError(line, "aliases make the document too large; write the values out")
        self._add(value, size, line, merge=False)

    def _add(self, value: Any, size: int, line: int, *, merge: bool) -> None:
        if not self._levels:
            if value is not None:
                self.documents.append((self._started, value))
            return
        level = self._levels[-1]
        level.size += size
        if isinstance(level.value, list):
            level.value.append(value)
        elif level.key is None:
            level.key = MERGE if merge else self._key(value, line)
            level.key_line = line
        else:
            key, level.key = level.key, None
            if key == MERGE:
                level.merges.append((level.key_line, value))
            elif key in level.value:
                self.problems.append(
                    (
                        level.key_line,
                        f"duplicate key {shortened(key)!r}: each key is allowed once in an object",
                    )
                )
            else:
                level.value[key] = value

    def _key(self, value: Any, line: int) -> str:
        text = None if isinstance(value, dict | list) else key_text(value)
        if text is None:
            raise UnreadableError(line, f"a key must be a string, not {kind_of(value)}")
        return text


def size_of(value: Scalar) -> int:
    """Return the size of a scalar in `EXPANSION_LIMIT`."""
    return 1 + len(value) if isinstance(value, str) else 1


def merge_into(target: dict[str, Any], merged: Any, line: int) -> None:
    """Merge the value of ``<<``; keys of the object itself win. Raises `UnreadableError`."""
    for source in merged if isinstance(merged, list) else [merged]:
        if not isinstance(source, dict):
            raise UnreadableError(line, f"<< takes an object or a list of objects, not {kind_of(source)}")
        for key, value in source.items():
            target.setdefault(key, value)


def scalar_value(event: Any, line: int) -> Scalar:
    """Return the value of a scalar. Raises `UnreadableError` for a value that JSON cannot hold."""
    text: str = event.value
    tag: str | None = event.tag
    if tag is None or tag == "!":
        value = plain(text) if event.implicit[0] else text
    elif tag.startswith(STANDARD_TAG):
        value = tagged(text, tag.removeprefix(STANDARD_TAG), line)
    else:
        value = text
    if isinstance(value, float) and not math.isfinite(value):
        raise UnreadableError(
            line, f"{shortened(text)} is not a JSON number; put it in quotes if it is a string"
        )
    return value


def tagged(text: str, tag: str, line: int) -> Scalar:
    """Return the value of a scalar with a standard YAML tag. Raises `UnreadableError` when it does not fit."""
    if tag == "str":
        return text
    if tag == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise UnreadableError(line, "!!binary must be base64 of UTF-8 text") from error
    value = plain(text)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "timestamp": isinstance(value, str),
    }
    if not fits.get(tag, True):
        raise UnreadableError(line, f"the value does not fit its tag !!{shortened(tag)}")
    return value if tag in fits else text
