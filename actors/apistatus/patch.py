"""The patch that brings the status of a pod on the API server up to date: a strategic merge of what this agent answers for.

What others wrote is not in it: conditions of other types, claims, the nominated node. Lists of containers are replaced as a
whole, conditions are merged by type, addresses by address (reference ``pod-lifecycle`` sections 10.4 and 11.2).
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from actors.rules.container.ownership import BY_KUBELET, DISRUPTION, OWNED
from api.kube.objects.podstatus import PodCondition, PodStatus

TERMINAL = ("Succeeded", "Failed")
SCALARS = (
    "phase",
    "reason",
    "message",
    "hostIP",
    "podIP",
    "qosClass",
    "startTime",
    "observedGeneration",
    "resize",
)
CONTAINERS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
OBJECTS = ("allocatedResources", "resources")
ADDRESSES = ("podIPs", "hostIPs")
READY = ("ContainersReady", "Ready")
PENDING = "Pending"

Json = dict[str, Any]


class WrittenStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent to the server last, and what it made of it: a field that it dropped is not sent for ever."""

    shown: PodStatus
    """What it was known to have before."""
    sent: PodStatus
    made: PodStatus


def wanted_status(shown: PodStatus, own: PodStatus, *, finished: bool, mirror: bool) -> PodStatus:
    """Return the status that the server should have; `shown` is what it has, `own` what this node found.

    A terminal phase never changes, is not shown while a container runs, and makes the pod unready. Where the server has
    given the pod its class, that stays.
    """
    phase, reason, message = own.phase, own.reason, own.message
    if shown.phase in TERMINAL and phase != shown.phase and not mirror:
        phase, reason, message = shown.phase, shown.reason, shown.message
    elif phase in TERMINAL and shown.phase not in TERMINAL and not finished and runs(own):
        phase, reason, message = shown.phase or PENDING, shown.reason, shown.message
    return replace(
        own,
        phase=phase,
        reason=reason,
        message=message,
        qos_class=shown.qos_class or own.qos_class,
        observed_generation=max(shown.observed_generation, own.observed_generation),
        conditions=tuple(terminal_condition(phase, one) for one in own.conditions),
    )


def runs(status: PodStatus) -> bool:
    """Return whether a container of the pod runs."""
    groups = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    return any(one.state.running is not None for group in groups for one in group)


def terminal_condition(phase: str, condition: PodCondition) -> PodCondition:
    """Return a condition as it must be in this phase: a pod that has ended is not ready."""
    if phase not in TERMINAL or condition.type not in READY:
        return condition
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    return replace(condition, status="False", reason=reason, message="")


def status_patch(
    uid: str, shown: PodStatus, wanted: PodStatus, written: WrittenStatus | None = None
) -> bytes | None:
    """Return the body of the PATCH for the pod with this UID, None where the server has all that it takes."""
    old, new = as_json(shown), as_json(wanted)
    was, sent, made = earlier(written, as_json)

    def is_open(field: str) -> bool:
        return lacks(field, old, new) and not is_refused(field, old, new, was, sent, made)

    changes: Json = {field: new.get(field) for field in SCALARS if is_open(field)}
    changes |= {field: new.get(field, []) for field in CONTAINERS if is_open(field)}
    for field in OBJECTS:
        if is_open(field):
            changes[field] = object_change(old.get(field), new.get(field))
    for field in ADDRESSES:
        if is_open(field):
            changes |= address_change(field, old.get(field, []), new.get(field, []))
    conditions = condition_changes(shown, wanted, written)
    if conditions:
        changes["conditions"] = conditions
    if not changes:
        return None
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": changes})


def earlier(written: WrittenStatus | None, part: Callable[[PodStatus], Json]) -> tuple[Json, Json, Json]:
    """Return a part of what the server had before the last write, of what was sent, and of what it made of it."""
    if written is None:
        return {}, {}, {}
    return part(written.shown), part(written.sent), part(written.made)


def lacks(key: str, old: Json, new: Json) -> bool:
    """Return whether the server has something else than it should."""
    return bool(old.get(key) != new.get(key))


def is_refused(key: str, old: Json, new: Json, was: Json, sent: Json, made: Json) -> bool:
    """Return whether exactly this was sent before, and the server made of it what it has: it takes it no other way."""
    return lacks(key, was, sent) and not lacks(key, made, old) and not lacks(key, sent, new)


def as_json(status: PodStatus) -> Json:
    """Return a status as plain data, by the names of the API."""
    plain: Json = msgspec.to_builtins(status)
    return plain


def object_change(old: Any, new: Any) -> Any:
    """Return what makes `new` of `old` when it is merged: an entry that is gone is null."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    gone = {key: None for key in old if key not in new}
    changed = {key: object_change(old.get(key), value) for key, value in new.items() if old.get(key) != value}
    return gone | changed


def address_change(field: str, old: list[Json], new: list[Json]) -> Json:
    """Return the change of a list of addresses, with their order where there are several."""
    before, after = [one["ip"] for one in old], [one["ip"] for one in new]
    items: list[Json] = [{"ip": ip} for ip in after if ip not in before]
    items += [{"$patch": "delete", "ip": ip} for ip in before if ip not in after]
    change: Json = {field: items} if items else {}
    if len(after) > 1:
        change[f"$setElementOrder/{field}"] = [{"ip": ip} for ip in after]
    return change


def condition_changes(shown: PodStatus, wanted: PodStatus, written: WrittenStatus | None) -> list[Json]:
    """Return the changes of conditions, ascending by type."""
    old, new = by_type(shown), by_type(wanted)
    was, sent, made = earlier(written, by_type)
    kinds = set(OWNED)
    if wanted.phase in TERMINAL and shown.phase not in TERMINAL:
        ours = new.get(DISRUPTION)
        kinds |= {DISRUPTION} if ours is not None and ours.get("reason") == BY_KUBELET else set()
    changes: list[Json] = []
    for kind in sorted(kinds & (old.keys() | new.keys())):
        before, after = old.get(kind), new.get(kind)
        if not lacks(kind, old, new) or is_refused(kind, old, new, was, sent, made):
            continue
        if after is None:
            changes.append({"$patch": "delete", "type": kind})
        else:
            # Merged by type: what the condition does not say any more must be taken back by name.
            changes.append({**{key: None for key in before or {} if key not in after}, **after})
    return changes


def by_type(status: PodStatus) -> Json:
    """Return the conditions by their types."""
    plain: list[Json] = msgspec.to_builtins(status.conditions)
    return {one["type"]: one for one in plain}
