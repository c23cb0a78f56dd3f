"""Makes static pods of documents: what a manifest from a file or URL means on this node.

The rules are the kubelet's (reference ``pod-lifecycle`` section 3.2): a UID that is a hash of content and origin, the
node's name as a suffix, ``kubernetes.io/config.*`` annotations, a toleration, then the whole validation.
"""

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from actors.rules.mirror import ANNOTATION_HASH, ANNOTATION_MIRROR
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.placement import Toleration
from api.kube.objects.pod import Pod, PodStatus
from api.kube.objects.strmap import StrMap
from api.kube.scheme import SCHEME
from api.kube.validation import static_pod_problems, validate_pod
from api.ports.manifests import Problem
from api.ports.podfiles import FOLDER_UID
from api.problem import FieldProblem, shown

FILE = "file"
HTTP = "http"
ANNOTATION_SOURCE = "kubernetes.io/config.source"
NOT_OURS = (ANNOTATION_MIRROR, "kubernetes.io/config.seen")
"""Annotations of a manifest that was copied from a mirror pod: kept, they would make it one, and it would never run."""

LISTS = ("PodList", "List")


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a document came from."""

    source: str
    """`FILE` or `HTTP`."""
    where: str
    """Path or URL, part of the UID."""
    shown: str
    """What problems call it: the file's name, the URL without secrets."""
    node_name: str


class StaticPod(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one document: a pod, or problems. `warnings` do not keep it from running."""

    pod: Pod | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


class StaticPods(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a document of several pods: all of them, or problems."""

    pods: tuple[Pod, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def read_pod(document: bytes, origin: Origin) -> StaticPod:
    """Make a static pod of a JSON document that must be one Pod."""
    raw = msgspec.json.decode(document)
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind in LISTS:
        wrong = FieldProblem(path="kind", found=shown(kind), expected='"Pod": a file holds one pod')
        return StaticPod(problems=(wrong.at(origin.shown),))
    return static_pod(raw, origin, origin.shown)


def read_pods(document: bytes, origin: Origin) -> StaticPods:
    """Make static pods of a document (JSON) that is a Pod, PodList or List; one that is wrong spoils them all."""
    raw = msgspec.json.decode(document)
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind not in LISTS:
        one = static_pod(raw, origin, origin.shown)
        return StaticPods(pods=(one.pod,) if one.pod else (), problems=one.problems, warnings=one.warnings)
    items = raw.get("items")
    if not isinstance(items, list | None):
        wrong = FieldProblem(path="items", found=shown(items), expected="a list of pods")
        return StaticPods(problems=(wrong.at(origin.shown),))
    read = []
    for index, item in enumerate(items or ()):
        # The items of a PodList may leave out what they are.
        named = (
            {"apiVersion": "v1", "kind": "Pod", **item}
            if isinstance(item, dict) and kind == "PodList"
            else item
        )
        read.append(static_pod(named, origin, f"{origin.shown}: items[{index}]"))
    problems = tuple(problem for one in read for problem in one.problems)
    return StaticPods(
        pods=() if problems else tuple(one.pod for one in read if one.pod is not None),
        problems=problems,
        warnings=tuple(warning for one in read for warning in one.warnings),
    )


def static_pod(raw: Any, origin: Origin, place: str) -> StaticPod:
    """Make a static pod of decoded data; `place` is what its problems call it."""
    read = SCHEME.read(raw, place, kinds=("Pod",))
    warnings = read.warnings()
    if not isinstance(read.object, Pod):
        return StaticPod(problems=read.located(), warnings=warnings)
    written = read.object
    problems = identity_problems(written.metadata)
    if not problems:
        pod = on_node(written, origin, written.metadata.uid or uid_of(raw, origin))
        problems = (*validate_pod(pod), *static_pod_problems(pod))
        if not problems:
            return StaticPod(pod=pod, warnings=warnings)
    return StaticPod(problems=tuple(problem.at(place) for problem in problems), warnings=warnings)


def identity_problems(metadata: ObjectMeta) -> tuple[FieldProblem, ...]:
    """Check, as written, what the node's name will be appended to and what will name folders."""
    found = []
    if metadata.uid and not FOLDER_UID.fullmatch(metadata.uid):
        expected = "at most 200 letters, digits, dots and dashes, or no UID (one is made)"
        found.append(FieldProblem(path="metadata.uid", found=shown(metadata.uid), expected=expected))
    return tuple(found)


def uid_of(raw: Any, origin: Origin) -> str:
    """Return the UID of a pod without one: 32 lower-case hex digits that any change of content or origin changes.

    The content is hashed as written, before defaults: a later version of this agent with other defaults must not
    take every static pod for a new one.
    """
    content = hashlib.md5(msgspec.json.encode(raw, order="deterministic"), usedforsecurity=False)
    if origin.source == FILE:
        content.update(f"host:{origin.node_name}file:{origin.where}".encode("utf-8", "surrogateescape"))
    else:
        content.update(f"url:{origin.where}".encode())
    return content.hexdigest()


def on_node(pod: Pod, origin: Origin, uid: str) -> Pod:
    """Return the pod as this node runs it."""
    annotations = {key: value for key, value in pod.metadata.annotations.items() if key not in NOT_OURS}
    metadata = replace(
        pod.metadata,
        uid=uid,
        name=f"{pod.metadata.name}-{origin.node_name.lower()}",
        annotations=StrMap({**annotations, ANNOTATION_HASH: uid, ANNOTATION_SOURCE: origin.source}),
        # Copied from a running pod: a new pod is not being deleted and has no resource version.
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
        resource_version="",
    )
    tolerations = pod.spec.tolerations
    if origin.source == FILE:
        tolerations = (*tolerations, Toleration(operator="Exists", effect="NoExecute"))
    spec = replace(pod.spec, node_name=origin.node_name, tolerations=tolerations)
    return replace(pod, metadata=metadata, spec=spec, status=PodStatus(phase="Pending"))
