"""Types that are decoded: each is taken apart once, by one thread at a time.

msgspec finds out what a type consists of when it is decoded for the first time, and other threads already see the half of
it: two that decode a type, or types with a part in common, for the first time at once read through a null pointer, and
the process is gone (msgspec 0.22). So whoever decodes says `type=ready(Kind)`; a test sees that all do.
"""

from threading import Lock
from typing import TypeVar

import msgspec

T = TypeVar("T")

_READY: set[object] = set()
_LOCK = Lock()


def ready(kind: type[T]) -> type[T]:
    """Return `kind`, which msgspec knows whole from now on."""
    if kind not in _READY:
        with _LOCK:
            msgspec.json.Decoder(kind)
            _READY.add(kind)
    return kind
