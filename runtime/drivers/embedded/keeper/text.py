"""Error texts: foreign text is quoted and shortened, so that no error grows with its request."""

from __future__ import annotations

import json

MAX_LETTERS = 200


def quoted(word: str) -> str:
    """Return a word in quotes, cut where it is long."""
    if len(word) <= MAX_LETTERS:
        return json.dumps(word)
    return f"{json.dumps(word[:MAX_LETTERS])} and {len(word) - MAX_LETTERS} letters more"


def reason(error: Exception) -> str:
    """Return why something failed, for the middle of a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return f"{type(error).__name__}: {error}"[:MAX_LETTERS]
