"""The agent's own log: one set-up, one level per actor path, no secrets.

```text
12:03:04.512 INFO  /node/pods/0b5e...  pod evicted  reason=MemoryPressure freed_bytes=1048576
{"time":"2026-05-01T12:03:04.512345Z","level":"INFO","actor":"/node/pods/0b5e...","text":"pod evicted","reason":"MemoryPressure","freed_bytes":1048576}
```

The text is a constant in lower case, facts are fields. `setup` once, then `log_factory(path)` for each actor; `LEVELS`
changes what is written while the agent runs.
"""

import contextlib
import logging
import sys
from datetime import UTC
from enum import Enum
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
from loguru import logger

from api.errors import RejectedError
from api.shown.introspection import LevelRow
from runtime.kernel.actor import Log

if TYPE_CHECKING:
    from loguru import Message, Record

NUMBERS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40}
COLOURS = {"DEBUG": "\x1b[2m", "INFO": "", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m"}
VALUE_LIMIT = 1024
"""A fact is cut at this many characters: a log line is a line."""
SECRET_NAMES = (
    "password",
    "passwd",
    "secret",
    "token",
    "authorization",
    "cookie",
    "credential",
    "private_key",
)
HIDDEN = "<hidden>"


class LevelTable:
    """Which level holds for which actor path; the longest set path above it wins. An `api.shown.introspection.Levels`."""

    def __init__(self) -> None:
        self._set: dict[str, str] = {"": "INFO"}
        self.version = 0
        """Changes with each change, so that loggers may keep what they looked up."""

    def levels(self) -> tuple[LevelRow, ...]:
        """Return what is set, by path; the empty path is the agent's own level."""
        return tuple(LevelRow(path=path, level=level) for path, level in sorted(dict(self._set).items()))

    def set_level(self, path: str, level: str) -> None:
        """Set the level of `path` and all below it; an empty level takes it back.

        Raises `RejectedError` for a level that does not exist, and for taking back the agent's own.
        """
        name = level.strip().upper()
        name = {"WARN": "WARNING"}.get(name, name)
        key = "/" + path.strip("/") if path.strip("/") else ""
        if not name and key:
            self._replace({at: kept for at, kept in self._set.items() if at != key})
            return
        if name not in NUMBERS:
            raise RejectedError(f"there is no log level {level!r}; there are DEBUG, INFO, WARNING and ERROR")
        self._replace({**self._set, key: name})

    def _replace(self, table: dict[str, str]) -> None:
        # A new table each time: readers on other threads see the old one or the new one, never a half.
        self._set = table
        self.version += 1

    def number(self, path: str) -> int:
        """Return the number of the level that holds for `path`."""
        table = self._set
        at = path
        while at not in table:
            at = at.rpartition("/")[0]
        return NUMBERS[table[at]]


LEVELS = LevelTable()


class PathLog:
    """A logger that knows its actor's path; implements `runtime.kernel.actor.Log`."""

    __slots__ = ("_limit", "_path", "_seen")

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = -1
        self._limit = 0

    def _write(self, level: str, text: str, facts: dict[str, object]) -> None:
        if self._seen != LEVELS.version:
            self._seen = LEVELS.version
            self._limit = LEVELS.number(self._path)
        if NUMBERS[level] >= self._limit:
            logger.bind(actor=self._path, facts=facts).log(level, "{}", text)

    def debug(self, text: str, **facts: object) -> None:
        """Log for a developer."""
        self._write("DEBUG", text, facts)

    def info(self, text: str, **facts: object) -> None:
        """Log one line that an operator would tell another."""
        self._write("INFO", text, facts)

    def warning(self, text: str, **facts: object) -> None:
        """Log what somebody should look at."""
        self._write("WARNING", text, facts)

    def error(self, text: str, **facts: object) -> None:
        """Log what is broken."""
        self._write("ERROR", text, facts)


def log_factory(path: str) -> Log:
    """Return the logger of one actor; the empty path is for the agent itself."""
    return PathLog(path)


def setup(
    *,
    form: str = "text",
    level: str = "INFO",
    stream: TextIO | None = None,
    environment: tuple[str, ...] = (),
) -> None:
    """Send the log to `stream` (default: standard error) as ``text`` or ``json`` lines; replaces an earlier set-up.

    Colour only on a terminal, and not when `environment`, the names of set variables, has ``NO_COLOR``. Python's own
    `logging`, which libraries use, comes out here too, from WARNING up: below that some of them print request bodies.
    Raises `RejectedError` for an unknown level.
    """
    LEVELS.set_level("", level)
    target = sys.stderr if stream is None else stream
    colour = form == "text" and target.isatty() and "NO_COLOR" not in environment
    render = _render_json if form == "json" else (_render_colour if colour else _render_text)

    def sink(message: "Message") -> None:
        # A log that nobody reads any more (a closed pipe, a full disk) must not stop the agent.
        with contextlib.suppress(OSError, ValueError):
            target.write(render(message.record) + "\n")
            target.flush()

    logger.remove()
    logger.add(sink, format="{message}", level=0, diagnose=False, backtrace=False, catch=True)
    logging.basicConfig(handlers=[_Bridge()], level=logging.WARNING, force=True)


class _Bridge(logging.Handler):
    """Brings the lines of libraries into this log."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "ERROR" if record.levelno >= logging.ERROR else "WARNING"
        facts: dict[str, object] = {"library": record.name, "said": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            facts["exception"] = record.exc_info[0].__name__
        PathLog("")._write(level, "a library has something to say", facts)  # noqa: SLF001 - same module


def _facts(record: "Record") -> tuple[str, dict[str, Any]]:
    extra = record["extra"]
    facts: dict[str, object] = extra.get("facts", {})
    return str(extra.get("actor", "")), {name: _plain(name, value) for name, value in facts.items()}


def _plain(name: str, value: object) -> Any:
    """Return a fact as something that can be written; what could hold a secret is not looked into."""
    lower = name.lower()
    if any(secret in lower for secret in SECRET_NAMES):
        return HIDDEN
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return _cut(str(value.value))
        case str():
            return _cut(value)
        case bytes() | bytearray():
            return f"<{len(value)} bytes>"
        case BaseException():
            return _cut(f"{type(value).__name__}: {value}")
        case tuple() | list():
            return [_plain(name, item) for item in value[:32]]
        case dict():
            return {str(key): _plain(str(key), item) for key, item in list(value.items())[:32]}
        case msgspec.Struct() if hasattr(value, "brief"):
            return _cut(str(value.brief()))
        case _:
            return f"<{type(value).__name__}>"


def _cut(text: str) -> str:
    if not text.isascii():
        # A file's name may be no UTF-8; a line about it must be written all the same.
        text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 3] + "..."


def _render_json(record: "Record") -> str:
    actor, facts = _facts(record)
    line: dict[str, Any] = {
        "time": record["time"].astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "level": record["level"].name,
    }
    if actor:
        line["actor"] = actor
    line["text"] = record["message"]
    for name, value in facts.items():
        line[name if name not in line else f"fact_{name}"] = value
    return msgspec.json.encode(line).decode()


def _render_text(record: "Record") -> str:
    return _text(record, "", "")


def _render_colour(record: "Record") -> str:
    return _text(record, COLOURS[record["level"].name], "\x1b[0m")


def _text(record: "Record", colour: str, reset: str) -> str:
    actor, facts = _facts(record)
    level = record["level"].name
    shown = " ".join(f"{name}={_word(value)}" for name, value in facts.items())
    parts = (
        f"{record['time']:%H:%M:%S.%f}"[:12],
        f"{colour}{'WARN' if level == 'WARNING' else level:<5}{reset if colour else ''}",
        actor or "-",
        " " + record["message"],
        " " + shown if shown else "",
    )
    return " ".join(part for part in parts if part)


def _word(value: Any) -> str:
    """Return a value as one word: quoted when it has blanks or anything that could look like another line."""
    if isinstance(value, str):
        plain = value.isprintable() and value and not any(c in ' "=' for c in value)
        return value if plain else msgspec.json.encode(value).decode()
    return msgspec.json.encode(value).decode()
