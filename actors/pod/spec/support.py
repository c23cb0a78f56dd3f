"""Which fields of a v1 Pod this agent supports: any other is reported, never dropped.

Two tables name every field that is supported or has no meaning on a node: `SUPPORTED` on every runtime, `CONFINED` in
addition, or with more values, on one that confines containers. A pod that sets any other field stays Pending with that
field's path in its message. ``docs/support.md`` is made from these tables.
"""

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache

import msgspec

from actors.rules.resources.request import is_extended
from api.kube.objects.pod import Pod, PodSpec
from api.ports.runtime import HOST_IMAGE
from api.problem import joined

SUPPORTED: dict[str, tuple[object, ...]] = {
    # Path pattern -> accepted values; an empty tuple accepts any.
    "spec.activeDeadlineSeconds": (),
    "spec.affinity": (),
    "spec.automountServiceAccountToken": (False,),
    "spec.containers[].args": (),
    "spec.containers[].command": (),
    "spec.containers[].env[].name": (),
    "spec.containers[].env[].value": (),
    "spec.containers[].env[].valueFrom.fieldRef": (),
    "spec.containers[].env[].valueFrom.resourceFieldRef": (),
    "spec.containers[].image": (),
    "spec.containers[].imagePullPolicy": (),
    "spec.containers[].lifecycle.postStart.exec": (),
    "spec.containers[].lifecycle.postStart.httpGet": (),
    "spec.containers[].lifecycle.postStart.sleep": (),
    "spec.containers[].lifecycle.postStart.tcpSocket": (),
    "spec.containers[].lifecycle.preStop.exec": (),
    "spec.containers[].lifecycle.preStop.httpGet": (),
    "spec.containers[].lifecycle.preStop.sleep": (),
    "spec.containers[].lifecycle.preStop.tcpSocket": (),
    "spec.containers[].livenessProbe": (),
    "spec.containers[].name": (),
    "spec.containers[].ports[].containerPort": (),
    "spec.containers[].ports[].hostPort": (),
    "spec.containers[].ports[].name": (),
    "spec.containers[].ports[].protocol": (),
    "spec.containers[].readinessProbe": (),
    "spec.containers[].resizePolicy": (),
    "spec.containers[].resources.limits.*/*": (),
    "spec.containers[].resources.limits.ephemeral-storage": (),
    "spec.containers[].resources.requests": (),
    "spec.containers[].restartPolicy": (),
    "spec.containers[].restartPolicyRules[].action": (),
    "spec.containers[].restartPolicyRules[].exitCodes": (),
    "spec.containers[].securityContext.allowPrivilegeEscalation": (),
    "spec.containers[].securityContext.privileged": (False,),
    "spec.containers[].securityContext.readOnlyRootFilesystem": (False,),
    "spec.containers[].securityContext.runAsGroup": (),
    "spec.containers[].securityContext.runAsNonRoot": (),
    "spec.containers[].securityContext.runAsUser": (),
    "spec.containers[].startupProbe": (),
    "spec.containers[].terminationMessagePath": ("", "/dev/termination-log"),
    "spec.containers[].terminationMessagePolicy": ("", "File"),
    "spec.containers[].volumeMounts[].mountPath": (),
    "spec.containers[].volumeMounts[].mountPropagation": ("", "None", "HostToContainer"),
    "spec.containers[].volumeMounts[].name": (),
    "spec.containers[].volumeMounts[].readOnly": (),
    "spec.containers[].volumeMounts[].recursiveReadOnly": (),
    "spec.containers[].volumeMounts[].subPath": (),
    "spec.containers[].volumeMounts[].subPathExpr": (),
    "spec.containers[].workingDir": (),
    "spec.dnsPolicy": ("", "ClusterFirst", "Default"),
    "spec.enableServiceLinks": (),
    "spec.hostIPC": (),
    "spec.hostNetwork": (),
    "spec.hostPID": (),
    "spec.hostUsers": (True,),
    "spec.imagePullSecrets": (),
    "spec.nodeName": (),
    "spec.nodeSelector": (),
    "spec.os.name": (),
    "spec.overhead.*/*": (),
    "spec.overhead.ephemeral-storage": (),
    "spec.preemptionPolicy": (),
    "spec.priority": (),
    "spec.priorityClassName": (),
    "spec.readinessGates[].conditionType": (),
    "spec.resources.requests.cpu": (),
    "spec.resources.requests.memory": (),
    "spec.restartPolicy": (),
    "spec.schedulerName": (),
    "spec.securityContext.runAsGroup": (),
    "spec.securityContext.runAsNonRoot": (),
    "spec.securityContext.runAsUser": (),
    "spec.serviceAccount": ("", "default"),
    "spec.serviceAccountName": ("", "default"),
    "spec.setHostnameAsFQDN": (False,),
    "spec.shareProcessNamespace": (False,),
    "spec.terminationGracePeriodSeconds": (),
    "spec.tolerations": (),
    "spec.topologySpreadConstraints": (),
    "spec.volumes[].emptyDir.medium": ("", "Memory"),
    "spec.volumes[].emptyDir.sizeLimit": (),
    "spec.volumes[].hostPath.path": (),
    "spec.volumes[].hostPath.type": (),
    "spec.volumes[].name": (),
}


CONFINED: dict[str, tuple[object, ...]] = {
    "spec.containers[].lifecycle.stopSignal": (),
    "spec.containers[].ports[].hostIP": (),
    "spec.containers[].resources.limits.cpu": (),
    "spec.containers[].resources.limits.hugepages-*": (),
    "spec.containers[].resources.limits.memory": (),
    "spec.containers[].securityContext.appArmorProfile": (),
    "spec.containers[].securityContext.capabilities": (),
    "spec.containers[].securityContext.privileged": (),
    "spec.containers[].securityContext.procMount": (),
    "spec.containers[].securityContext.readOnlyRootFilesystem": (),
    "spec.containers[].securityContext.seLinuxOptions": (),
    "spec.containers[].securityContext.seccompProfile": (),
    "spec.containers[].stdin": (),
    "spec.containers[].stdinOnce": (),
    "spec.containers[].terminationMessagePath": (),
    "spec.containers[].terminationMessagePolicy": (),
    "spec.containers[].tty": (),
    "spec.containers[].volumeMounts[].mountPropagation": (),
    "spec.dnsConfig": (),
    "spec.dnsPolicy": (),
    "spec.hostAliases": (),
    "spec.hostname": (),
    "spec.hostnameOverride": (),
    "spec.overhead.cpu": (),
    "spec.overhead.memory": (),
    "spec.resources.limits.cpu": (),
    "spec.resources.limits.memory": (),
    "spec.runtimeClassName": (),
    "spec.securityContext.appArmorProfile": (),
    "spec.securityContext.fsGroup": (),
    "spec.securityContext.fsGroupChangePolicy": (),
    "spec.securityContext.seLinuxChangePolicy": (),
    "spec.securityContext.seLinuxOptions": (),
    "spec.securityContext.seccompProfile": (),
    "spec.securityContext.supplementalGroups": (),
    "spec.securityContext.supplementalGroupsPolicy": (),
    "spec.securityContext.sysctls": (),
    "spec.setHostnameAsFQDN": (),
    "spec.shareProcessNamespace": (),
    "spec.subdomain": (),
}
HUGE_PAGES = "hugepages-"
EXTENDED = "*/*"
"""Extended resources: a node that does not know one leaves it out of what it admits."""
NOT_EPHEMERAL = (
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
)
"""Prefixes of fields that an ephemeral container cannot have: the API refuses them."""


def of_ephemeral(rows: Mapping[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """Return the rows of ephemeral containers: what is supported for a regular one is for these too."""
    regular = "spec.containers[]."
    return {
        row.replace(regular, "spec.ephemeralContainers[]."): accepted
        for row, accepted in rows.items()
        if row.startswith(regular) and not row.removeprefix(regular).startswith(NOT_EPHEMERAL)
    }


SUPPORTED |= {**of_ephemeral(SUPPORTED), "spec.ephemeralContainers[].targetContainerName": ()}
CONFINED |= of_ephemeral(CONFINED)
REGULAR, INIT = "spec.containers[]", "spec.initContainers[]"


class SupportTable(msgspec.Struct, frozen=True):
    """What is supported on one kind of runtime."""

    rows: Mapping[str, tuple[object, ...]]
    parents: frozenset[str]
    """Every pattern above a row: the walk goes on below them, anything else is reported as a whole."""


def table(rows: Mapping[str, tuple[object, ...]]) -> SupportTable:
    """Return a table with these rows; what is supported for a regular container is for an init container."""
    rows = {**rows, **{INIT + row[len(REGULAR) :]: rows[row] for row in rows if row.startswith(REGULAR)}}
    above = {"spec.volumes", "spec.volumes[]"}
    for row in rows:
        for end, letter in enumerate(row):
            if letter in ".[":
                above.add(row[:end])
            if letter == "]":
                above.add(row[: end + 1])
    return SupportTable(rows, frozenset(above))


ANYWHERE = table(SUPPORTED)
WHERE_CONFINED = table({**SUPPORTED, **CONFINED})


def unsupported_paths(pod: Pod, *, confined: bool) -> tuple[str, ...]:
    """Return the path of every unsupported field that the pod sets, in spec order.

    `confined`: the runtime confines containers, so more is supported than for plain processes.
    """
    return found_paths(_Same(pod.spec), confined)


class _Same:
    """A spec that equals only itself: one that is frozen but holds mappings has no hash of its own."""

    __slots__ = ("spec",)

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec

    def __hash__(self) -> int:
        return id(self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.spec is other.spec


@lru_cache(maxsize=512)
def found_paths(same: _Same, confined: bool) -> tuple[str, ...]:
    """Walk a spec once: it never changes, and each message to its pod needs the answer."""
    return tuple(unsupported(WHERE_CONFINED if confined else ANYWHERE, same.spec, "spec", "spec"))


def unsupported(table: SupportTable, value: object, path: str, pattern: str) -> Iterator[str]:
    """Walk a set value; yield the shortest paths in it that no row of the table accepts."""
    accepted = table.rows.get(pattern)
    if accepted is not None:
        if accepted and value not in accepted:
            yield path
    elif pattern not in table.parents:
        yield path
    else:
        for part, below, row in parts_of(value, path, pattern):
            yield from unsupported(table, part, below, row)


def parts_of(value: object, path: str, pattern: str) -> Iterator[tuple[object, str, str]]:
    """Yield what is set inside a value, with its path and pattern."""
    if isinstance(value, tuple):
        for index, part in enumerate(value):
            yield part, f"{path}[{index}]", f"{pattern}[]"
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield part, joined(path, key), f"{pattern}.{kind_of(key)}"
    elif isinstance(value, msgspec.Struct):
        for attribute, name, default in fields_of(type(value)):
            part = getattr(value, attribute)
            if is_set(default, part):
                yield part, f"{path}.{name}", f"{pattern}.{name}"


def kind_of(key: str) -> str:
    """Return what rows call a key of a map: sizes of huge pages are one kind, extended resources another."""
    if key.startswith(HUGE_PAGES):
        return f"{HUGE_PAGES}*"
    return EXTENDED if is_extended(key) else key


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, object], ...]:
    """Return attribute, name on the wire and default of each field. Cached: msgspec reads the annotations each time."""
    return tuple(
        (
            field.name,
            field.encode_name,
            field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        )
        for field in msgspec.structs.fields(kind)
    )


def is_set(default: object, value: object) -> bool:
    """Return whether a field is set: an explicit false or 0 is, where the default is unset."""
    if value is default:
        return False
    if isinstance(value, Mapping):
        return bool(value)
    return bool(value != default)


def refused_host_image(pod: Pod, source: str, *, allowed: bool) -> str:
    """Return why the host image is refused to this pod, empty when it is not: manifest files are trusted."""
    if allowed or source in ("", "file"):
        return ""
    every = (
        (group, index, one) for group, many in pod.spec.container_groups() for index, one in enumerate(many)
    )
    for group, index, container in every:
        if container.image.partition(":")[0] == HOST_IMAGE:
            return (
                f"spec.{group}[{index}].image: {HOST_IMAGE} runs plain processes on this host and is accepted from"
                f" manifest files only, not from {source}; start the agent with --allow-host-image to accept it"
            )
    return ""
