"""Strategic merge, as an API server applies a PATCH of that kind to a Pod, Node or Lease.

Maps are merged, null removes, and a list replaces the old one, but for those of `MERGED_LISTS`. Of the directives it knows
``$patch: replace`` and, in an item, ``$patch: delete``; others are refused, so that a test notices. As in a server,
the directive of an item in a list that the object does not have yet does nothing, and the item stays.
"""

from api.errors import RejectedError

DIRECTIVE = "$patch"
MERGED_LISTS = {
    "metadata.ownerReferences": "uid",
    "status.addresses": "type",
    "status.conditions": "type",
    "status.hostIPs": "ip",
    "status.podIPs": "ip",
}
"""Lists whose items are merged by a key. Container statuses and taints are none of them: they are replaced as a whole."""
MERGED_SETS = ("metadata.finalizers",)
"""Lists of texts that a patch adds to."""

Object = dict[str, object]


def merge(old: Object, patch: Object, where: str = "") -> Object:
    """Return `old` changed by `patch`; neither is written to. Raises `RejectedError` for a patch that fits nothing."""
    if patch.get(DIRECTIVE) == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    unknown = next((key for key in patch if key.startswith("$")), None)
    if unknown is not None:
        raise _invalid(where, f"the directive {unknown} is not supported here")
    result = dict(old)
    for key, value in patch.items():
        below = f"{where}.{key}" if where else key
        before = old.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merge(before, value, below) if isinstance(before, dict) else _new(value)
        elif below in MERGED_LISTS:
            items = _items(value, below)
            result[key] = (
                _merged(_items(before, below), items, below) if before else [_new(one) for one in items]
            )
        elif below in MERGED_SETS:
            olds = before if isinstance(before, list) else []
            result[key] = (
                [*value, *(one for one in olds if one not in value)] if isinstance(value, list) else olds
            )
        else:
            result[key] = value
    return result


def _new(value: Object) -> Object:
    """Return what a patch adds as a whole, without nulls."""
    kept = ((key, below) for key, below in value.items() if below is not None and key != DIRECTIVE)
    return {key: _new(below) if isinstance(below, dict) else below for key, below in kept}


def _merged(old: list[Object], patch: list[Object], where: str) -> list[Object]:
    """Return the items of both: those that the patch names in its order, the others between them in theirs."""
    key = MERGED_LISTS[where]
    if any(item.get(DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if DIRECTIVE not in item]
    both = list(old)
    for item in patch:
        same = next((at for at, one in enumerate(both) if one.get(key) == item.get(key)), None)
        if item.get(DIRECTIVE) == "delete":
            both = [one for one in both if one.get(key) != item.get(key)]
        elif same is None:
            both.append(merge({}, item, where))
        else:
            both[same] = merge(both[same], item, where)
    named, place = [item.get(key) for item in patch], [one.get(key) for one in old]
    ours = sorted((one for one in both if one.get(key) in named), key=lambda one: named.index(one.get(key)))
    others = [one for one in both if one.get(key) not in named]
    result = []
    for one in ours:
        # A new one stands before all others that are left, a known one behind those that stood before it.
        while (
            others and one.get(key) in place and place.index(others[0].get(key)) < place.index(one.get(key))
        ):
            result.append(others.pop(0))
        result.append(one)
    return result + others


def _items(value: object, where: str) -> list[Object]:
    items = value if isinstance(value, list) else [None]
    found = [one for one in items if isinstance(one, dict)]
    if len(found) != len(items):
        raise _invalid(where, "must be a list of maps")
    return found


def _invalid(where: str, why: str) -> RejectedError:
    return RejectedError(f"patch: Invalid value: {where or 'object'}: {why}", reason="Invalid")
