"""The strategic merge patch between two Nodes (specification 3.4): it names only what differs, so all else stays as others have it."""

from typing import Any

import msgspec

from api.kube.objects.node import Node

Raw = dict[str, Any]
MERGED_BY_TYPE = "conditions"
"""The one list that is merged element by element; all others are replaced as a whole."""
METADATA = ("labels", "annotations")


def patch_between(original: Node, node: Node) -> Raw:
    """Return what turns `original` into `node`, of labels, annotations and status; empty if nothing differs."""
    old, new = raw_of(original), raw_of(node)
    old_status, new_status = old.get("status", {}), new.get("status", {})
    addresses = changed_addresses(old_status, new_status)
    if addresses:
        # Merged by their type two addresses of one type would become one.
        old_status = {key: value for key, value in old_status.items() if key != "addresses"}
        new_status = {key: value for key, value in new_status.items() if key != "addresses"}
    status = difference(old_status, new_status) | ({"addresses": addresses} if addresses else {})
    metadata = difference(picked(old), picked(new))
    return {**({"metadata": metadata} if metadata else {}), **({"status": status} if status else {})}


def raw_of(node: Node) -> Raw:
    """Return a Node as plain data, its lists as lists."""
    raw: Raw = msgspec.json.decode(msgspec.json.encode(node))
    return raw


def picked(raw: Raw) -> Raw:
    """Return the metadata that a node may change of itself."""
    return {key: value for key, value in raw.get("metadata", {}).items() if key in METADATA}


def changed_addresses(old: Raw, new: Raw) -> list[Raw]:
    """Return the addresses with the word that they replace what is there; empty where that is not needed."""
    known, wanted = old.get("addresses", []), new.get("addresses", [])
    return [*wanted, {"$patch": "replace"}] if known and known != wanted else []


def difference(old: Raw, new: Raw) -> Raw:
    """Return the patch between two objects; null deletes."""
    found: Raw = {key: None for key in old if key not in new}
    for key, value in new.items():
        known = old.get(key)
        if known == value:
            continue
        if isinstance(known, dict) and isinstance(value, dict):
            found[key] = difference(known, value)
        elif key == MERGED_BY_TYPE and isinstance(known, list):
            found[key] = changed_conditions(known, value)
        else:
            found[key] = value
    return found


def changed_conditions(old: list[Raw], new: list[Raw]) -> list[Raw]:
    """Return the conditions that differ, each with its type and what differs of it. None is ever deleted."""
    known = {one["type"]: one for one in old}
    return [
        {"type": one["type"], **difference(known.get(one["type"], {}), one)}
        for one in new
        if one != known.get(one["type"])
    ]
