"""Which static pod a mirror shows, when it must go, and what a new one is."""

from msgspec.structs import replace

from actors.mirrors.state import MirrorsState
from actors.rules.mirror import ANNOTATION_MIRROR, mirrored_hash, static_hash
from api.kube.objects.meta import ObjectMeta, OwnerReference
from api.kube.objects.pod import Pod, PodStatus
from api.kube.objects.strmap import StrMap


def full_name(pod: Pod) -> str:
    """Return ``namespace/name``."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def static_of(state: MirrorsState, name: str, shown: Pod | None) -> Pod | None:
    """Return the static pod of a name: the one that is shown, where several want it, else the first that came."""
    found = [one.pod for one in state.wanted.values() if full_name(one.pod) == name]
    mirrored = mirrored_hash(shown) if shown is not None else ""
    return next((pod for pod in found if static_hash(pod) == mirrored), found[0] if found else None)


def must_go(state: MirrorsState, mirror: Pod, static: Pod | None) -> bool:
    """Return whether a mirror must be deleted: it has no static pod, or shows another version, or somebody deleted it.

    While the pod that it shows still ends it stays, so that users see it until then.
    """
    running = state.running
    still = running is None or mirrored_hash(mirror) in running.uids
    if static is None:
        return state.sources.all_ready and running is not None and running.whole and not still
    if mirrored_hash(mirror) != static_hash(static):
        return not still
    if mirror.metadata.deletion_timestamp is not None:
        return True
    node_uid = state.node.uid if state.node is not None else ""
    return bool(node_uid) and not is_owned(mirror, node_uid)


def is_owned(mirror: Pod, node_uid: str) -> bool:
    """Return whether the Node of this UID controls a mirror: another Node's mirrors are about to be collected."""
    owners = mirror.metadata.owner_references
    return len(owners) == 1 and owners[0].uid == node_uid and owners[0].controller is True


def mirror_of(static: Pod, node_name: str, node_uid: str) -> Pod:
    """Return the mirror of a static pod."""
    meta = static.metadata
    owner = OwnerReference(api_version="v1", kind="Node", name=node_name, uid=node_uid, controller=True)
    metadata = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        labels=meta.labels,
        annotations=StrMap({**meta.annotations, ANNOTATION_MIRROR: static_hash(static)}),
        owner_references=(owner,),
    )
    return replace(static, metadata=metadata, status=PodStatus())
