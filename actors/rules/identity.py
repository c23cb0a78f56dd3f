"""Answers that hold for as long as what they were asked about is the very same object.

State is frozen, so an answer about it never changes; and a decision asks the same thing of the same state several times.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
LIMIT = 512
"""Objects that answers are kept for at a time: more than a node has pods."""


class kept_for_last(Generic[P, R]):  # noqa: N801  # a decorator
    """Keep the last answer of a pure function, for as long as it is asked the same again.

    The first argument is compared by identity, which costs nothing; the others by equality. One answer is kept, with
    what it was asked about.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self._last: tuple[tuple[object, ...], R] | None = None
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Answer from memory, or ask."""
        # Read once: another thread may keep an answer of its own meanwhile.
        last = self._last
        if last is not None and not kwargs and last[0][0] is args[0] and last[0][1:] == args[1:]:
            return last[1]
        answer = self._function(*args, **kwargs)
        if not kwargs:
            self._last = (args, answer)
        return answer


class kept_for_each(Generic[P, R]):  # noqa: N801  # a decorator
    """Keep the answers of a pure function for the `LIMIT` objects that it was asked about last.

    The first argument is compared by identity, which is safe as long as the object is held here; the others by
    equality.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self._kept: dict[int, tuple[tuple[object, ...], R]] = {}
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Answer from memory, or ask."""
        assert not kwargs, "answers are kept by position"
        key = id(args[0])
        found = self._kept.get(key)
        if found is not None and found[0][0] is args[0] and found[0][1:] == args[1:]:
            return found[1]
        answer = self._function(*args, **kwargs)
        if len(self._kept) >= LIMIT and key not in self._kept:
            # The oldest goes; another thread may have taken it already.
            self._kept.pop(next(iter(tuple(self._kept)[:1]), key), None)
        self._kept[key] = (args, answer)
        return answer
