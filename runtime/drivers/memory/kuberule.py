"""What a node may not do at an API server: the Node authorizer and the admission plugin NodeRestriction, as far as we meet them."""

from api.errors import DeniedError
from api.ports.kube import ObjectPath
from runtime.drivers.memory.kubemerge import Object

LEASE_NAMESPACE = "kube-node-lease"
MIRROR = "kubernetes.io/config.mirror"
NOT_FOR_NODES = {("nodes", "delete"), ("pods", "update"), ("events", "get"), ("events", "delete")}
"""Resource and verb that the role of nodes does not have."""
FREE_LABELS = (
    "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type", "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os", "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
)  # fmt: skip
"""Labels of Kubernetes' own names that a node sets itself."""
FREE_LABEL_NAMES = ("kubelet.kubernetes.io", "node.kubernetes.io")


def section(body: Object, name: str) -> Object:
    """Return a part of an object, empty when it has none."""
    found = body.get(name)
    return found if isinstance(found, dict) else {}


def require_role(node: str, verb: str, path: ObjectPath) -> None:
    """Refuse what no node may ask for, before any object is looked at. Raises `DeniedError`."""
    if (path.plural, verb) in NOT_FOR_NODES and not path.subresource:
        raise _forbidden(path, f'User "system:node:{node}" cannot {verb} resource "{path.plural}"')
    if path.plural != "leases":
        return
    if path.namespace != LEASE_NAMESPACE:
        raise _forbidden(path, f'can only access leases in the "{LEASE_NAMESPACE}" system namespace')
    if path.name and path.name != node:
        raise _forbidden(path, "can only access node lease with the same name as the requesting node")


def require_own(
    node: str, path: ObjectPath, before: Object | None, after: Object | None, node_uid: str
) -> None:
    """Refuse a change, creation (`before` None) or deletion (`after` None) of what is not this node's. Raises `DeniedError`."""
    now = after or before or {}
    name = section(now, "metadata").get("name")
    match path.plural:
        case "leases" if name != node:
            raise _forbidden(path, "can only access node lease with the same name as the requesting node")
        case "nodes":
            if name != node:
                raise _forbidden(path, f'node "{node}" is not allowed to modify node "{name}"')
            _require_free_fields(node, path, before, now)
        case "pods":
            if before is None:
                _require_mirror(node, path, now, node_uid)
            elif section(before, "spec").get("nodeName") != node:
                what = "update pod status for" if after is not None else "delete"
                raise _forbidden(path, f'node "{node}" can only {what} pods with spec.nodeName set to itself')
            elif after is not None and _labels(before) != _labels(after):
                raise _forbidden(path, f'node "{node}" cannot update labels through pod status')


def _require_free_fields(node: str, path: ObjectPath, before: Object | None, after: Object) -> None:
    if before is not None and _taints(before) != _taints(after):
        raise _forbidden(path, f'node "{node}" is not allowed to modify taints')
    old, new = _labels(before or {}), _labels(after)
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    refused = [key for key in changed if not _is_free(key)]
    if refused:
        raise _forbidden(path, f"is not allowed to modify labels: {', '.join(refused)}")


def _require_mirror(node: str, path: ObjectPath, pod: Object, node_uid: str) -> None:
    metadata = section(pod, "metadata")
    if MIRROR not in section(metadata, "annotations"):
        raise _forbidden(
            path, f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
        )
    if section(pod, "spec").get("nodeName") != node:
        raise _forbidden(path, f'node "{node}" can only create pods with spec.nodeName set to itself')
    owners = metadata.get("ownerReferences")
    match owners:
        case [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": True}] if (
            name == node
        ):
            if uid != node_uid:
                raise _forbidden(path, f"node {node} UID mismatch: expected {uid} got {node_uid}")
        case _:
            raise _forbidden(
                path, f'node "{node}" can only create pods with an owner reference set to itself'
            )


def _is_free(label: str) -> bool:
    prefix, slash, _ = label.partition("/")
    reserved = bool(slash) and any(
        prefix == name or prefix.endswith(f".{name}") for name in ("kubernetes.io", "k8s.io")
    )
    ours = any(prefix == name or prefix.endswith(f".{name}") for name in FREE_LABEL_NAMES)
    return not reserved or label in FREE_LABELS or ours


def _labels(body: Object) -> Object:
    return section(section(body, "metadata"), "labels")


def _taints(body: Object) -> object:
    return section(body, "spec").get("taints") or []


def _forbidden(path: ObjectPath, why: str) -> DeniedError:
    return DeniedError(f'{path.plural} "{path.name}" is forbidden: {why}', reason="Forbidden")
