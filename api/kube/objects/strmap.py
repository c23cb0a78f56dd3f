"""String maps of Kubernetes objects (labels, limits ...): frozen, sorted, hashable, on the wire a JSON object."""

from collections.abc import Mapping
from typing import NoReturn

import msgspec

HIDDEN_KEYS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""Keys whose value repeats a whole object, environment values included: never shown in a text."""


class StrMap(dict[str, str]):
    """A mapping of texts that never changes and iterates in the order of its keys.

    It is a dict so that every codec writes it without knowing it; fields are annotated `Mapping`, so that the type
    checker refuses to change one, and `freeze_maps` puts it in place of the plain dict that a decoder built.
    """

    __slots__ = ()

    def __init__(self, entries: Mapping[str, str] | tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(sorted(dict(entries).items()))

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))

    def __repr__(self) -> str:
        shown = {key: "<hidden>" if key in HIDDEN_KEYS else value for key, value in self.items()}
        return f"StrMap({shown!r})"

    def __reduce__(self) -> tuple[type["StrMap"], tuple[tuple[tuple[str, str], ...]]]:
        return StrMap, (tuple(self.items()),)

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("a StrMap never changes: make another one")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _refuse
    __ior__ = _refuse

    def without(self, *keys: str) -> "StrMap":
        """Return a copy without `keys`."""
        return StrMap({key: value for key, value in self.items() if key not in keys})


NO_ENTRIES = StrMap()
"""The empty map. Fields default to this one object, which is how an encoder knows that there is nothing to write."""


def freeze_maps(owner: msgspec.Struct, *fields: str) -> None:
    """Replace the plain dicts in `fields` of a frozen struct by `StrMap`; for its `__post_init__` only."""
    for field in fields:
        value = getattr(owner, field)
        if value is NO_ENTRIES:
            continue
        if not value:
            msgspec.structs.force_setattr(owner, field, NO_ENTRIES)
        elif type(value) is not StrMap:
            msgspec.structs.force_setattr(owner, field, StrMap(value))
