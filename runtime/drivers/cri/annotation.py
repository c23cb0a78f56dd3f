"""What the driver writes into annotations for itself, and hides again from what it shows.

- ``nodeagent.local/spec``: digest of the spec that an object was made from, so that the same request made twice is
  recognised, also by a later agent;
- ``nodeagent.local/network``: ``host`` or ``pod``, which a listing of the runtime does not show;
- ``nodeagent.local/amounts``: CPU and memory that a container was made with, which some runtimes do not show;
- ``nodeagent.local/added-labels``: identity labels that were not in the spec. The runtime finds a pod by them.
"""

import hashlib
from typing import Any

import msgspec

from api.ports.confinement import Pairs, Resources
from api.ports.runtime import (
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    LABEL_POD_UID,
    ContainerSpec,
    SandboxSpec,
)

SPEC = "nodeagent.local/spec"
NETWORK = "nodeagent.local/network"
HOST, OWN_NETWORK = "host", "pod"
ADDED = "nodeagent.local/added-labels"
AMOUNTS = "nodeagent.local/amounts"
OWN = frozenset({SPEC, NETWORK, ADDED, AMOUNTS})


def digest(spec: SandboxSpec | ContainerSpec) -> str:
    """Return what tells two specs apart, the same in every process."""
    return hashlib.sha256(msgspec.json.encode(spec)).hexdigest()[:16]


def amounts(resources: Resources) -> str:
    """Return CPU and memory as an annotation: shares, period and quota (us), limit (bytes)."""
    cpu = (resources.cpu_shares, resources.cpu_period_us, resources.cpu_quota_us)
    return ",".join(str(number) for number in (*cpu, resources.memory_limit_bytes))


def made_with(annotations: Any) -> Resources | None:
    """Return the CPU and memory that a container was made with; None for one that no driver of ours made."""
    try:
        shares, period, quota, memory = (int(part) for part in annotations.get(AMOUNTS, "").split(","))
    except ValueError:
        return None
    return Resources(cpu_shares=shares, cpu_period_us=period, cpu_quota_us=quota, memory_limit_bytes=memory)


def host_network(annotations: Any) -> bool | None:
    """Return whether a sandbox of ours is on the host's network; None for one that no driver of ours made."""
    told = annotations.get(NETWORK)
    return told == HOST if told in (HOST, OWN_NETWORK) else None


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
