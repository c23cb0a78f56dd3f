"""Pods and what a runtime shows of them, as short as a test needs them."""

import msgspec

from actors.pod.spec.identity import container_hash
from api.ids import Uid
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.pod import Container as Wanted
from api.kube.objects.pod import Pod, PodSpec
from api.kube.poddefault import default_pod
from api.ports.runtime import (
    ANNOTATION_HASH,
    ANNOTATION_OWNER,
    ANNOTATION_POD_GRACE,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
    Sandbox,
    SandboxState,
)

NS = 1_000_000_000
WALL = 1_700_000_000 * NS
UID = Uid("u1")
IMAGE = "example/app:1"


def wanted(*containers, policy="Always", grace=30, uid=UID, name="web", source="file", **spec):
    """Return a defaulted pod; a container is given by its name or whole."""
    annotations = {"kubernetes.io/config.source": source} if source else {}
    return default_pod(
        Pod(
            metadata=ObjectMeta(name=name, namespace="default", uid=uid, annotations=annotations),
            spec=PodSpec(
                restart_policy=policy,
                termination_grace_period_seconds=grace,
                containers=tuple(
                    Wanted(name=c, image=IMAGE) if isinstance(c, str) else c for c in containers or ("a",)
                ),
                **spec,
            ),
        )
    )


def from_fields(*containers, name="p", uid=UID, labels=None, annotations=None, **spec):
    """Return a defaulted pod from fields as a manifest has them; a container is `c` of image `x` unless its fields say else."""
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": uid,
        "labels": labels or {},
        "annotations": annotations or {},
    }
    whole = [{"name": "c", "image": "x", **fields} for fields in containers]
    return default_pod(msgspec.convert({"metadata": metadata, "spec": {"containers": whole, **spec}}, Pod))


def init(name, policy=""):
    """Return an init container."""
    return Wanted(name=name, image=IMAGE, restart_policy=policy)


def instance(name="a", state="running", attempt=0, *, code=None, at=0, sandbox="s0", grace=30, **more):
    """Return an instance of a container; `at` is seconds after `WALL` at which it started or ended."""
    state = RuntimeContainerState(state)
    exited = state is RuntimeContainerState.EXITED
    more.setdefault(
        "annotations",
        ((ANNOTATION_HASH, container_hash(name, IMAGE)), (ANNOTATION_POD_GRACE, str(grace))),
    )
    return RuntimeContainer(
        id=f"tiny://{name}{attempt}",
        sandbox_id=sandbox,
        name=name,
        attempt=attempt,
        image=IMAGE,
        state=state,
        created_at=WALL + attempt,
        started_at=None if state is RuntimeContainerState.CREATED else WALL,
        finished_at=WALL + at * NS if exited else None,
        exit_code=(0 if code is None else code) if exited else None,
        **more,
    )


def box(attempt=0, state="ready", *, host_network=False):
    """Return a sandbox."""
    return Sandbox(
        id=f"s{attempt}",
        uid=UID,
        name="web",
        namespace="default",
        attempt=attempt,
        state=SandboxState(state),
        created_at=WALL,
        ips=("10.0.0.7",) if state == "ready" else (),
        host_network=host_network,
        annotations=((ANNOTATION_OWNER, "nodeagent"),),
    )


def shown(*parts, uid=UID):
    """Return what a runtime shows: sandboxes and instances as given, newest first."""
    return RuntimePod(
        uid=uid,
        name="web",
        namespace="default",
        sandboxes=tuple(p for p in parts if isinstance(p, Sandbox)),
        containers=tuple(p for p in parts if isinstance(p, RuntimeContainer)),
    )
