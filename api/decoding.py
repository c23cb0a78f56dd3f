"""Types that are decoded: each is taken apart once, by one thread at a time.

msgspec finds out what a type consists of when it is decoded for the first time, and other threads already see the half of
it: two that decode a type, or types with a part in common, for the first time at once read through a null pointer, and
the process is gone (msgspec 0.22). So every decoder has `type=ready(Kind)`; a test checks it.
"""

from threading import Lock
from typing import TypeVar

import msgspec

from api.shortening import shortened

T = TypeVar("T")
SAID_LIMIT = 200
"""Characters of what msgspec says, which may repeat a value."""

_READY: set[object] = set()
_LOCK = Lock()


def ready(kind: type[T]) -> type[T]:
    """Return `kind`, which msgspec knows whole from now on."""
    if kind not in _READY:
        with _LOCK:
            msgspec.json.Decoder(kind)
            _READY.add(kind)
    return kind


class UndecodableError(ValueError):
    """A text from outside is not JSON of the kind that was asked for."""


def from_json(text: bytes, kind: type[T]) -> T:
    """Decode JSON that a peer sent. Raises `UndecodableError` and nothing else, whatever it is.

    msgspec itself raises `UnicodeDecodeError` for a text within that is no UTF-8, and `RecursionError` for deep nesting.
    """
    try:
        return msgspec.json.decode(text, type=ready(kind))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UndecodableError(shortened(str(error), SAID_LIMIT)) from None
