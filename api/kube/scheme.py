"""The registry of kinds and versions: decodes, defaults, converts and encodes every object that enters or leaves.

```text
bytes -> decode -> object, type errors, unknown fields       without defaults
bytes -> read   -> the same with defaults, validated
object -> encode -> bytes                                    JSON as Kubernetes writes it
```

A kind is registered under each version that is accepted; `convert` turns raw data of that version into the version of
the type.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from api.config.check import validate_configuration
from api.decoding import ready
from api.kube.objects.event import Event, EventList
from api.kube.objects.kubeletconfiguration import KubeletConfiguration
from api.kube.objects.pod import Pod, PodList
from api.kube.objects.wiretype import ApiObject
from api.kube.poddefault import default_pod
from api.kube.shape import UnknownField, fit
from api.kube.validation import validate_pod
from api.ports.manifests import Problem
from api.problem import FieldProblem, kind_of, shown
from api.shortening import shortened

Raw = dict[str, Any]

KUBELET_V1BETA1 = "kubelet.config.k8s.io/v1beta1"
EVENTS_V1 = "events.k8s.io/v1"


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """The result of decoding one document. `object` is None exactly when there are problems."""

    source: str
    """Where the document came from: a file name or URL."""
    object: ApiObject | None = None
    problems: tuple[FieldProblem, ...] = ()
    unknown_fields: tuple[UnknownField, ...] = ()
    """Fields that the kind does not have; the object leaves them out. A warning, or an error in strict use."""

    def located(self) -> tuple[Problem, ...]:
        """Return the problems, each with the source in its place."""
        return tuple(problem.at(self.source) for problem in self.problems)

    def warnings(self) -> tuple[Problem, ...]:
        """Return a warning for each unknown field."""
        return tuple(
            Problem(
                where=f"{self.source}: {field.path}",
                message="unknown field, ignored"
                + (f" (did you mean {field.suggestion!r}?)" if field.suggestion else ""),
            )
            for field in self.unknown_fields
        )


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind in one version."""

    api_version: str
    kind: str
    type: type[ApiObject]
    convert: Callable[[Raw], Raw] | None = None
    revert: Callable[[Raw], Raw] | None = None
    default: Callable[[Any], Any] | None = None
    validate: Callable[[Any], tuple[FieldProblem, ...]] | None = None


# conversions

EVENT_FIELDS = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)
"""Fields of an Event that have another name in events.k8s.io/v1 than in core v1."""


def renamed(raw: Raw, names: dict[str, str], api_version: str, kind: str) -> Raw:
    """Return `raw` with fields renamed, under another version and kind."""
    fields = {names.get(key, key): value for key, value in raw.items()}
    return {**fields, "apiVersion": api_version, "kind": kind}


def event_to_core(raw: Raw) -> Raw:
    """Convert an events.k8s.io/v1 Event."""
    return renamed(raw, dict(EVENT_FIELDS), "v1", "Event")


def event_from_core(raw: Raw) -> Raw:
    """Convert a core v1 Event."""
    return renamed(raw, {core: new for new, core in EVENT_FIELDS}, EVENTS_V1, "Event")


def list_to_pods(raw: Raw) -> Raw:
    """Convert a v1 List, as kubectl prints it: each item has its own kind."""
    return {**raw, "kind": "PodList"}


def default_pods(pods: PodList) -> PodList:
    """Fill in the defaults of each pod."""
    return msgspec.structs.replace(pods, items=tuple(default_pod(pod) for pod in pods.items))


def validate_pods(pods: PodList) -> tuple[FieldProblem, ...]:
    """Return the problems of each pod; each path begins with the pod's index."""
    found = []
    for index, pod in enumerate(pods.items):
        place = f"items[{index}]"
        if (pod.api_version, pod.kind) != ("v1", "Pod"):
            given = f"kind {shown(pod.kind)} of {shown(pod.api_version)}"
            found.append(FieldProblem(path=place, found=given, expected="kind Pod of v1"))
            continue
        found.extend(
            msgspec.structs.replace(problem, path=f"{place}.{problem.path}") for problem in validate_pod(pod)
        )
    return tuple(found)


# the registry


class Scheme:
    """Kinds by version and name."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self._kinds = {(one.api_version, one.kind): one for one in kinds}

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Return all versions and kinds, ascending."""
        return tuple(sorted(self._kinds))

    def decode(self, document: bytes | Raw, source: str, *, kinds: tuple[str, ...] = ()) -> Decoded:
        """Decode one object without defaults: compact JSON, or plain data. Never raises.

        `kinds` are the kinds accepted here; another one is a problem. Empty: every kind.
        """
        decoded, _, _ = self._decoded(document, source, kinds)
        return decoded

    def read(self, document: bytes | Raw, source: str, *, kinds: tuple[str, ...] = ()) -> Decoded:
        """Decode one object, fill in its defaults and validate it. Returns all problems together."""
        decoded, kind, partial = self._decoded(document, source, kinds)
        if kind is None or partial is None:
            return decoded
        if kind.default is not None:
            partial = kind.default(partial)
        broken = kind.validate(partial) if kind.validate is not None else ()
        # A field with a type error is missing in the object: report the type error only.
        places = frozenset(problem.path for problem in decoded.problems)
        around = frozenset(above for place in places for above in outwards(place))
        further = tuple(
            problem
            for problem in broken
            if problem.path not in around and places.isdisjoint(outwards(problem.path))
        )
        problems = decoded.problems + further
        return msgspec.structs.replace(decoded, object=None if problems else partial, problems=problems)

    def encode(self, value: ApiObject, *, api_version: str = "") -> bytes:
        """Encode an object as JSON, in `api_version` if given. Raises KeyError for an unknown version."""
        if not api_version or api_version == getattr(value, "api_version", ""):
            return msgspec.json.encode(value)
        kind = self._kinds[api_version, str(getattr(value, "kind", ""))]
        raw: Raw = msgspec.to_builtins(value)
        return msgspec.json.encode(kind.revert(raw) if kind.revert is not None else raw)

    def _decoded(
        self, document: bytes | Raw, source: str, kinds: tuple[str, ...]
    ) -> tuple[Decoded, Kind | None, ApiObject | None]:
        raw: Any = document
        if isinstance(document, bytes):
            try:
                raw = msgspec.json.decode(document)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                return refused(source, "", "invalid JSON", f"one JSON object ({error})"), None, None
        if not isinstance(raw, dict):
            return refused(source, "", kind_of(raw), "an object such as a Pod"), None, None
        kind, problem = self._kind_of(raw, kinds)
        if kind is None:
            return Decoded(source=source, problems=problem), None, None
        if kind.convert is not None:
            raw = kind.convert(raw)
        fitted = fit(raw, kind.type, ignored=frozenset({"fieldsV1"}))
        partial = msgspec.convert(fitted.value, ready(kind.type))
        decoded = Decoded(
            source=source,
            object=None if fitted.problems else partial,
            problems=fitted.problems,
            unknown_fields=fitted.unknown,
        )
        return decoded, kind, partial

    def _kind_of(self, raw: Raw, kinds: tuple[str, ...]) -> tuple[Kind | None, tuple[FieldProblem, ...]]:
        version, name = raw.get("apiVersion"), raw.get("kind")
        wanted = " or ".join(
            f"{one.kind} ({one.api_version})"
            for one in self._kinds.values()
            if not kinds or one.kind in kinds
        )
        missing = tuple(
            FieldProblem(path=path, found=shown(value), expected=f"a string, for {wanted}")
            for path, value in (("apiVersion", version), ("kind", name))
            if not isinstance(value, str) or not value
        )
        if missing or not isinstance(version, str) or not isinstance(name, str):
            return None, missing
        kind = self._kinds.get((version, name))
        if kind is not None and (not kinds or name in kinds):
            return kind, ()
        return None, (
            FieldProblem(
                path="kind",
                found=f"{shortened(name)} ({shortened(version)})",
                expected=instead(name, version, wanted),
            ),
        )


def instead(name: str, version: str, wanted: str) -> str:
    """Return what to give instead of a kind that is not accepted."""
    if name in WORKLOADS:
        return f"{wanted}: a node does not run a {name}; give a Pod, or create the {name} on an API server"
    if version != "v1" and name == "Pod":
        return f"{wanted}: a Pod's apiVersion is v1"
    return wanted


WORKLOADS = frozenset(
    {
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
        "ReplicationController",
        "Service",
    }
)


def refused(source: str, path: str, found: str, expected: str) -> Decoded:
    """Return a document that could not be decoded, with one problem."""
    return Decoded(source=source, problems=(FieldProblem(path=path, found=found, expected=expected),))


def outwards(path: str) -> Iterator[str]:
    """Yield a path and the paths of everything that contains it."""
    yield path
    for at, char in enumerate(path):
        if char in ".[":
            yield path[:at]


SCHEME = Scheme(
    (
        Kind(api_version="v1", kind="Pod", type=Pod, default=default_pod, validate=validate_pod),
        Kind(api_version="v1", kind="PodList", type=PodList, default=default_pods, validate=validate_pods),
        Kind(
            api_version="v1",
            kind="List",
            type=PodList,
            convert=list_to_pods,
            default=default_pods,
            validate=validate_pods,
        ),
        Kind(api_version="v1", kind="Event", type=Event),
        Kind(api_version="v1", kind="EventList", type=EventList),
        Kind(api_version=EVENTS_V1, kind="Event", type=Event, convert=event_to_core, revert=event_from_core),
        Kind(
            api_version=KUBELET_V1BETA1,
            kind="KubeletConfiguration",
            type=KubeletConfiguration,
            validate=validate_configuration,
        ),
    )
)
"""The kinds that this agent reads and writes."""
