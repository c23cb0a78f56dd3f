"""What the driver writes into annotations for itself, and hides again from what it shows.

- ``nodeagent.local/spec``: digest of the spec that an object was made from, so that the same request made twice is
  recognised, also by a later agent;
- ``nodeagent.local/sandbox``: the part of a sandbox's spec that every container's creation repeats to the runtime;
- ``nodeagent.local/added-labels``: identity labels that were not in the spec. The runtime finds a pod by them.
"""

import hashlib
from typing import Any

import msgspec

from api.confinement import Pairs
from api.containers import (
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    LABEL_POD_UID,
    ContainerSpec,
    SandboxSpec,
)

SPEC = "nodeagent.local/spec"
SANDBOX = "nodeagent.local/sandbox"
ADDED = "nodeagent.local/added-labels"
OWN = frozenset({SPEC, SANDBOX, ADDED})
SHOWN_BY_RUNTIME = frozenset({"uid", "name", "namespace", "attempt", "labels", "annotations"})
"""Fields of a sandbox's spec that the runtime itself shows."""


def digest(spec: SandboxSpec | ContainerSpec) -> str:
    """Return what tells two specs apart, the same in every process."""
    return hashlib.sha256(msgspec.json.encode(spec)).hexdigest()[:16]


def sandbox_note(spec: SandboxSpec) -> str:
    """Return the text of the annotation ``nodeagent.local/sandbox``: what differs from a plain sandbox."""
    plain = SandboxSpec(uid=spec.uid, name="", namespace="", attempt=0, log_directory="")
    told = {
        field: getattr(spec, field)
        for field in spec.__struct_fields__
        if field not in SHOWN_BY_RUNTIME and getattr(spec, field) != getattr(plain, field)
    }
    return msgspec.json.encode(told).decode()


def read_note(text: str, **shown: Any) -> SandboxSpec | None:
    """Return the spec that a note and what the runtime shows (uid, name, labels ...) make; None when it is no note."""
    try:
        told = msgspec.json.decode(text, type=dict[str, Any])
        return msgspec.convert(told | shown, SandboxSpec)
    except msgspec.MsgspecError:
        return None


def with_identity(labels: Pairs, *, uid: str, name: str, namespace: str) -> tuple[dict[str, str], str]:
    """Return the labels that the runtime gets, and which of them were added (a text for ``added-labels``)."""
    identity = {LABEL_POD_NAME: name, LABEL_POD_NAMESPACE: namespace, LABEL_POD_UID: uid}
    given = dict(labels)
    added = [key for key in identity if key not in given]
    return identity | given, ",".join(added)


def without_own(pairs: Any) -> Pairs:
    """Return annotations as pairs, sorted, without the driver's own."""
    return tuple(sorted((key, value) for key, value in pairs.items() if key not in OWN))


def without_added(labels: Any, annotations: Any) -> Pairs:
    """Return labels as pairs, sorted, without those that the driver added."""
    added = annotations.get(ADDED, "").split(",") if ADDED in annotations else ()
    return tuple(sorted((key, value) for key, value in labels.items() if key not in added))
