"""From a v1 Pod to what the runtime is asked for: sandbox and container specs.

Labels, annotations, hash, log paths and attempts are the kubelet's own (reference ``runtime-cri`` sections 3 and 5), so
that this agent and a kubelet can take over each other's pods.
"""

import json
import re
from functools import lru_cache

from api.confinement import Pairs
from api.containers import (
    ANNOTATION_HASH,
    ANNOTATION_OWNER,
    ANNOTATION_POD_GRACE,
    ANNOTATION_RESTART_COUNT,
    ANNOTATION_TERMINATION_PATH,
    ANNOTATION_TERMINATION_POLICY,
    LABEL_CONTAINER_NAME,
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    LABEL_POD_UID,
    ContainerSpec,
    EnvVar,
    RuntimePod,
    SandboxSpec,
)
from api.ids import Uid
from api.objects.container import Container
from api.objects.pod import Pod

OWNER = "nodeagent"
FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193
REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")


def log_directory(log_root: str, pod: Pod) -> str:
    """Return the absolute folder of the pod's logs."""
    meta = pod.metadata
    return f"{log_root}/{meta.namespace}_{meta.name}_{meta.uid}"


def sandbox_spec(pod: Pod, attempt: int, log_root: str) -> SandboxSpec:
    """Return the sandbox that `pod` needs."""
    meta, spec = pod.metadata, pod.spec
    labels = {
        **meta.labels,
        LABEL_POD_NAME: meta.name,
        LABEL_POD_NAMESPACE: meta.namespace,
        LABEL_POD_UID: meta.uid,
    }
    return SandboxSpec(
        uid=Uid(meta.uid),
        name=meta.name,
        namespace=meta.namespace,
        attempt=attempt,
        labels=pairs(labels),
        annotations=pairs({**meta.annotations, ANNOTATION_OWNER: OWNER}),
        hostname=(spec.hostname or meta.name)[:63].rstrip("-."),
        log_directory=log_directory(log_root, pod),
        host_network=spec.host_network,
        grace_s=own_grace_s(pod),
    )


def container_spec(pod: Pod, container: Container, attempt: int) -> ContainerSpec:
    """Return the container to make as attempt number `attempt`; command, args and env are expanded."""
    meta, spec = pod.metadata, pod.spec
    env = environment(container)
    values = {variable.name: variable.value for variable in env}
    annotations = {
        ANNOTATION_HASH: container_hash(container.name, container.image),
        ANNOTATION_RESTART_COUNT: str(attempt),
        ANNOTATION_TERMINATION_PATH: container.termination_message_path,
        ANNOTATION_TERMINATION_POLICY: container.termination_message_policy,
        ANNOTATION_POD_GRACE: str(own_grace_s(pod)),
    }
    labels = {
        LABEL_POD_NAME: meta.name,
        LABEL_POD_NAMESPACE: meta.namespace,
        LABEL_POD_UID: meta.uid,
        LABEL_CONTAINER_NAME: container.name,
    }
    own, pods = container.security_context, spec.security_context
    user = own.run_as_user if own and own.run_as_user is not None else (pods.run_as_user if pods else None)
    group = (
        own.run_as_group if own and own.run_as_group is not None else (pods.run_as_group if pods else None)
    )
    return ContainerSpec(
        name=container.name,
        attempt=attempt,
        image=container.image,
        command=tuple(expand(word, values) for word in container.command),
        args=tuple(expand(word, values) for word in container.args),
        working_dir=container.working_dir,
        env=env,
        labels=pairs(labels),
        annotations=pairs(annotations),
        log_path=f"{container.name}/{attempt}.log",
        user=user,
        group=group,
    )


def environment(container: Container) -> tuple[EnvVar, ...]:
    """Return the environment in definition order; a later variable may refer to earlier ones, the last of a name wins."""
    values: dict[str, str] = {}
    for variable in container.env:
        values[variable.name] = expand(variable.value, values)
    return tuple(EnvVar(name, value) for name, value in values.items())


def expand(text: str, values: dict[str, str]) -> str:
    """Replace ``$(NAME)`` by its value; ``$$`` is one dollar; an unknown name stays as it is (Kubernetes' rule)."""

    def replacement(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        return values.get(match.group(2), match.group(0))

    return REFERENCE.sub(replacement, text)


def own_grace_s(pod: Pod) -> int:
    """Return the pod's own grace period in seconds, before any override."""
    grace = pod.spec.termination_grace_period_seconds
    return 30 if grace is None else grace


def recorded_grace_s(observed: RuntimePod | None) -> int:
    """Return the grace that a pod's containers were made with: what counts when no source knows the pod any more."""
    texts = (
        dict(c.annotations).get(ANNOTATION_POD_GRACE, "") for c in (observed.containers if observed else ())
    )
    return max((int(text) for text in texts if text.isdigit()), default=30)


@lru_cache(maxsize=4096)
def container_hash(name: str, image: str) -> str:
    """Return the kubelet's hash of a container definition: FNV-1a 32 over a rendering of its name and image.

    Bit for bit the kubelet's (reference ``runtime-cri`` section 3.3), else taking over a node restarts every container.
    """
    text = json.dumps({"image": image, "name": name}, separators=(",", ":"), ensure_ascii=False)
    for plain, escaped in (
        ("&", r"\u0026"),
        ("<", r"\u003c"),
        (">", r"\u003e"),
        (chr(0x2028), r"\u2028"),
        (chr(0x2029), r"\u2029"),
    ):
        text = text.replace(plain, escaped)
    rendered = f"([]uint8)[{' '.join(str(byte) for byte in text.encode())}]"
    value = FNV_OFFSET
    for byte in rendered.encode():
        value = ((value ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return f"{value:x}"


def pairs(mapping: dict[str, str]) -> Pairs:
    """Return a mapping as sorted pairs."""
    return tuple(sorted(mapping.items()))
