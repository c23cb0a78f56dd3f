"""Decides what a source's new list changes: the classification behind ADD, UPDATE, DELETE, REMOVE, RECONCILE, RESTORE.

The rules are the kubelet's (reference ``pod-lifecycle`` section 3.3). One source's pods are compared with what it
listed last, by UID; a pod gets at most one operation per list.
"""

from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from actors.rules.mirror import ANNOTATION_MIRROR
from api.ids import WallNs
from api.kube.objects.pod import Pod
from api.kube.objects.strmap import StrMap
from api.messages.supervisor import PodOp

ANNOTATION_SOURCE = "kubernetes.io/config.source"
ANNOTATION_SEEN = "kubernetes.io/config.seen"
LOCAL = (ANNOTATION_SOURCE, ANNOTATION_MIRROR, ANNOTATION_SEEN)
"""Annotations about the node, not the pod: a change of one is not a change of the pod."""

NS = 1_000_000_000


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A listed pod that is not wanted by the merge, and why."""

    pod: str
    """``<name>_<namespace>(<uid>)``."""
    problem: str


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What one list changes. `pods` is the source's new set in the order of its list."""

    pods: tuple[Pod, ...]
    removed: tuple[Pod, ...] = ()
    added: tuple[Pod, ...] = ()
    updated: tuple[Pod, ...] = ()
    deleted: tuple[Pod, ...] = ()
    reconciled: tuple[Pod, ...] = ()
    restored: tuple[Pod, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    def in_order(self, *, first: bool) -> tuple[tuple[PodOp, tuple[Pod, ...]], ...]:
        """Return the changes in the order of sending.

        REMOVE comes before ADD so that a new UID may take an old one's name. `first` is the source's first list: it
        is sent even when it changes nothing, as an empty ADD, for that is what makes a source ready.
        """
        ops = [
            (PodOp.REMOVE, self.removed),
            (PodOp.RESTORE, self.restored),
            (PodOp.ADD, self.added),
            (PodOp.UPDATE, self.updated),
            (PodOp.DELETE, self.deleted),
        ]
        changes = [(op, pods) for op, pods in ops if pods]
        if first and not (self.added or self.updated or self.deleted):
            changes.append((PodOp.ADD, ()))
        if self.reconciled:
            changes.append((PodOp.RECONCILE, self.reconciled))
        return tuple(changes)


def full_name(pod: Pod) -> str:
    """Return ``<name>_<namespace>``, what must be unique on a node."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}"


def description(pod: Pod) -> str:
    """Return ``<name>_<namespace>(<uid>)``."""
    return f"{full_name(pod)}({pod.metadata.uid})"


def rfc3339_nano(wall: WallNs) -> str:
    """Write a wall clock instant as Go's RFC3339Nano does: UTC, fraction without trailing zeros."""
    seconds, fraction = divmod(wall, NS)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}".rstrip("0")
    return f"{text}.{digits}Z" if digits else f"{text}Z"


def accepted(source: str, pods: tuple[Pod, ...]) -> tuple[tuple[Pod, ...], tuple[Dropped, ...]]:
    """Return the pods of a list that count, and those that do not: no UID, or a name or UID that came before."""
    kept: list[Pod] = []
    dropped: list[Dropped] = []
    names: set[str] = set()
    uids: set[str] = set()
    for pod in pods:
        name, uid = full_name(pod), pod.metadata.uid
        if name in names:
            problem = (
                f"Error validating pod {description(pod)} from {source} due to duplicate pod name "
                f'"{pod.metadata.name}", ignoring'
            )
        elif not uid:
            problem = f"pod {name} from {source} has no UID, ignoring"
        elif uid in uids:
            problem = f"pod {name} from {source} has the UID {uid} of a pod listed before it, ignoring"
        else:
            names.add(name)
            uids.add(uid)
            kept.append(pod)
            continue
        dropped.append(Dropped(pod=description(pod), problem=problem))
    return tuple(kept), tuple(dropped)


def merge(
    source: str, known: tuple[Pod, ...], listed: tuple[Pod, ...], wall: WallNs, *, restored: bool = False
) -> Changes:
    """Compare what `source` lists now with what it is `known` to want.

    A `restored` list comes from a checkpoint: it adds (as RESTORE) and changes, but that a pod is not in it says
    nothing.
    """
    kept, dropped = accepted(source, listed)
    before = {pod.metadata.uid: pod for pod in known}
    seen = rfc3339_nano(wall)
    pods: list[Pod] = []
    ops: dict[PodOp, list[Pod]] = {op: [] for op in PodOp}
    for pod in kept:
        old = before.pop(pod.metadata.uid, None)
        op, now = first_seen(pod, source, seen, restored=restored) if old is None else changed(old, pod)
        pods.append(now)
        if op is not None:
            ops[op].append(now)
    if restored:
        pods.extend(before.values())
    else:
        ops[PodOp.REMOVE] = list(before.values())
    return Changes(
        pods=tuple(pods),
        removed=tuple(ops[PodOp.REMOVE]),
        added=tuple(ops[PodOp.ADD]),
        updated=tuple(ops[PodOp.UPDATE]),
        deleted=tuple(ops[PodOp.DELETE]),
        reconciled=tuple(ops[PodOp.RECONCILE]),
        restored=tuple(ops[PodOp.RESTORE]),
        dropped=dropped,
    )


def first_seen(pod: Pod, source: str, seen: str, *, restored: bool) -> tuple[PodOp, Pod]:
    """Stamp a pod that was not known before."""
    stamps = {ANNOTATION_SOURCE: source, ANNOTATION_SEEN: seen}
    return PodOp.RESTORE if restored else PodOp.ADD, with_annotations(pod, stamps)


def changed(old: Pod, new: Pod) -> tuple[PodOp | None, Pod]:
    """Classify the newer version of a known pod and return the pod to store."""
    if not differs(old, new):
        if old.status == new.status:
            return None, old
        return PodOp.RECONCILE, replace(old, status=new.status)
    local = {key: old.metadata.annotations[key] for key in LOCAL if key in old.metadata.annotations}
    metadata = replace(
        old.metadata,
        labels=new.metadata.labels,
        annotations=StrMap({**new.metadata.annotations, **local}),
        deletion_timestamp=new.metadata.deletion_timestamp,
        deletion_grace_period_seconds=new.metadata.deletion_grace_period_seconds,
        generation=new.metadata.generation,
    )
    pod = replace(old, metadata=metadata, spec=new.spec, status=new.status)
    return (PodOp.DELETE if new.metadata.deletion_timestamp else PodOp.UPDATE), pod


def differs(old: Pod, new: Pod) -> bool:
    """Return whether a pod's meaning changed: status, generation and local annotations do not count."""
    before, after = old.metadata, new.metadata
    return (
        before.deletion_timestamp != after.deletion_timestamp
        or before.deletion_grace_period_seconds != after.deletion_grace_period_seconds
        or before.labels != after.labels
        or own_annotations(old) != own_annotations(new)
        or old.spec != new.spec
    )


def own_annotations(pod: Pod) -> dict[str, str]:
    """Return the annotations that are the pod's own."""
    return {key: value for key, value in pod.metadata.annotations.items() if key not in LOCAL}


def with_annotations(pod: Pod, entries: dict[str, str]) -> Pod:
    """Return a copy in which these annotations are set."""
    annotations = StrMap({**pod.metadata.annotations, **entries})
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
