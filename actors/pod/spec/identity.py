"""What the runtime stores for us: labels, annotations, hash, log paths.

They are the kubelet's own (reference ``runtime-cri`` section 3), so that this agent and a kubelet can take over each
other's pods.
"""

import json
from functools import lru_cache
from typing import Any

from api.kube.objects.container import Container, ContainerPort, EphemeralContainer, LifecycleHandler
from api.kube.objects.pod import Pod
from api.ports.confinement import Pairs
from api.ports.runtime import (
    ANNOTATION_DELETION_GRACE,
    ANNOTATION_HASH,
    ANNOTATION_OWNER,
    ANNOTATION_POD_GRACE,
    ANNOTATION_PORTS,
    ANNOTATION_PRE_STOP,
    ANNOTATION_RESTART_COUNT,
    ANNOTATION_TERMINATION_PATH,
    ANNOTATION_TERMINATION_POLICY,
    LABEL_CONTAINER_NAME,
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    LABEL_POD_UID,
    RuntimePod,
)

OWNER = "nodeagent"
FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193
DEFAULT_GRACE_S = 30

ESCAPES = (
    ("&", r"\u0026"),
    ("<", r"\u003c"),
    (">", r"\u003e"),
    (chr(0x2028), r"\u2028"),
    (chr(0x2029), r"\u2029"),
)
"""What Go's JSON writes otherwise than Python's."""


def log_directory(log_root: str, pod: Pod) -> str:
    """Return the absolute folder of the pod's logs."""
    meta = pod.metadata
    return f"{log_root}/{meta.namespace}_{meta.name}_{meta.uid}"


def log_path(container: str, attempt: int) -> str:
    """Return a container's log file, relative to its pod's log folder."""
    return f"{container}/{attempt}.log"


def sandbox_labels(pod: Pod) -> Pairs:
    """Return the pod's labels under ours."""
    return pairs({**pod.metadata.labels, **identity_labels(pod)})


def sandbox_annotations(pod: Pod) -> Pairs:
    """Return the pod's annotations and who made the sandbox."""
    return pairs({**pod.metadata.annotations, ANNOTATION_OWNER: OWNER})


def container_labels(pod: Pod, container: Container | EphemeralContainer) -> Pairs:
    """Return the labels of a container."""
    return pairs({**identity_labels(pod), LABEL_CONTAINER_NAME: container.name})


def identity_labels(pod: Pod) -> dict[str, str]:
    """Return the labels that say which pod something belongs to."""
    meta = pod.metadata
    return {
        LABEL_POD_NAME: meta.name,
        LABEL_POD_NAMESPACE: meta.namespace,
        LABEL_POD_UID: meta.uid,
    }


def container_annotations(pod: Pod, container: Container | EphemeralContainer, attempt: int) -> Pairs:
    """Return what is needed to restart, explain and stop a container whose pod is in no source."""
    found = {
        ANNOTATION_HASH: container_hash(container.name, container.image),
        ANNOTATION_RESTART_COUNT: str(attempt),
        ANNOTATION_TERMINATION_PATH: container.termination_message_path,
        ANNOTATION_TERMINATION_POLICY: container.termination_message_policy,
        ANNOTATION_POD_GRACE: str(own_grace_s(pod)),
    }
    if pod.metadata.deletion_grace_period_seconds is not None:
        found[ANNOTATION_DELETION_GRACE] = str(pod.metadata.deletion_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        found[ANNOTATION_PRE_STOP] = go_json(handler_fields(container.lifecycle.pre_stop))
    if container.ports:
        found[ANNOTATION_PORTS] = go_json([port_fields(port) for port in container.ports])
    return pairs(found)


def own_grace_s(pod: Pod) -> int:
    """Return the pod's own grace period in seconds, before any override."""
    grace = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if grace is None else grace


def recorded_grace_s(observed: RuntimePod | None) -> int:
    """Return the grace in seconds that a pod's containers were created with: it counts when the pod is in no source."""
    texts = (
        dict(c.annotations).get(ANNOTATION_POD_GRACE, "") for c in (observed.containers if observed else ())
    )
    return max((int(text) for text in texts if text.isdigit()), default=DEFAULT_GRACE_S)


@lru_cache(maxsize=4096)
def container_hash(name: str, image: str) -> str:
    """Return the kubelet's hash of a container definition: FNV-1a 32 over a rendering of its name and image.

    Bit for bit the kubelet's (reference ``runtime-cri`` section 3.3), else taking over a node restarts every container.
    """
    text = go_json({"image": image, "name": name})
    rendered = f"([]uint8)[{' '.join(str(byte) for byte in text.encode())}]"
    value = FNV_OFFSET
    for byte in rendered.encode():
        value = ((value ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return f"{value:x}"


def go_json(value: object) -> str:
    """Return compact JSON as Go writes it, keys in the order given."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for plain, escaped in ESCAPES:
        text = text.replace(plain, escaped)
    return text


def port_fields(port: ContainerPort) -> dict[str, Any]:
    """Return a port in the order in which a kubelet writes its fields."""
    optional = {"name": port.name, "hostPort": port.host_port}
    rest = {"protocol": port.protocol, "hostIP": port.host_ip}
    return {**given(optional), "containerPort": port.container_port, **given(rest)}


def handler_fields(handler: LifecycleHandler) -> dict[str, Any]:
    """Return a hook in the order in which a kubelet writes its fields."""
    if handler.exec is not None:
        return {"exec": given({"command": list(handler.exec.command)})}
    if handler.http_get is not None:
        get = handler.http_get
        headers = [{"name": header.name, "value": header.value} for header in get.http_headers]
        rest = given({"host": get.host, "scheme": get.scheme, "httpHeaders": headers})
        return {"httpGet": {**given({"path": get.path}), "port": get.port, **rest}}
    if handler.tcp_socket is not None:
        return {"tcpSocket": {"port": handler.tcp_socket.port, **given({"host": handler.tcp_socket.host})}}
    if handler.sleep is not None:
        return {"sleep": {"seconds": handler.sleep.seconds}}
    return {}


def given(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


def pairs(mapping: dict[str, str]) -> Pairs:
    """Return a mapping as sorted pairs."""
    return tuple(sorted(mapping.items()))
