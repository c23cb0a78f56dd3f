"""The objects of an API server in memory: nodes, pods and leases, with what it does to each write.

Everything is JSON, as on the wire. An identity is a node's name, or `ADMIN`, who may do everything.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from api.errors import AlreadyExistsError, ConflictError, NotFoundError, RejectedError
from api.ids import WallNs
from api.ports.kube import CORE, LEASES, ObjectPath
from runtime.drivers.memory.kubemerge import Object, merge
from runtime.drivers.memory.kuberule import require_own, require_role, section
from runtime.drivers.memory.kubeshape import settled

ADMIN = ""
RUNTIME_CLASSES = "node.k8s.io/v1"
KINDS = {
    "nodes": (CORE, "Node"),
    "pods": (CORE, "Pod"),
    "leases": (LEASES, "Lease"),
    "events": (CORE, "Event"),
    "services": (CORE, "Service"),
    "runtimeclasses": (RUNTIME_CLASSES, "RuntimeClass"),
}
STATUS = "status"
GRACE_S = 30
UID_REST = "-0000-4000-8000-a91e5e47e500"
"""After the number of an object: no part of a UID is what another driver in memory numbers its own with."""
STAMP = "%Y-%m-%dT%H:%M:%SZ"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
SERVERS_OWN = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "name",
    "namespace",
    "generation",
)
"""Fields of the metadata that no update changes."""
ENDED = ("Succeeded", "Failed")

Key = tuple[str, str, str]
"""Plural, namespace, name."""


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """One object, and what is often asked of it."""

    body: bytes
    version: str
    node: str = ""
    """The node that a pod is bound to."""


class KubeServer:
    """Answers requests; raises an `OperatingError` whose reason is that of the server's Status."""

    def __init__(self, wall: Callable[[], WallNs]) -> None:
        self._wall = wall
        self._objects: dict[Key, StoredObject] = {}
        self._version = 0
        self._count = 0

    def stored(self, key: Key) -> StoredObject | None:
        """Return an object, None when there is none."""
        return self._objects.get(key)

    def all_of(self, plural: str) -> dict[Key, StoredObject]:
        """Return the objects of a kind, by namespace and name."""
        return {key: self._objects[key] for key in sorted(self._objects) if key[0] == plural}

    def pods_of(self, node: str) -> dict[Key, StoredObject]:
        """Return the pods that are bound to a node, by namespace and name."""
        return {key: one for key, one in self.all_of("pods").items() if one.node == node}

    # ------------------------------------------------------------ requests

    def get(self, who: str, path: ObjectPath) -> bytes:
        """Return an object."""
        self._require_known(who, "get", path)
        return self._known(path).body

    def create(self, who: str, path: ObjectPath, body: bytes) -> bytes:
        """Add an object to a collection."""
        self._require_known(who, "create", path)
        made = self._decoded(body, path)
        metadata = section(made, "metadata")
        name = str(metadata.get("name") or "")
        path = msgspec.structs.replace(path, name=name)
        if who:
            require_own(who, path, None, made, self._uid_of_node(who))
        if not name:
            raise _invalid(path, "metadata.name: Required value: name or generateName is required")
        key = _key(path)
        if key in self._objects:
            raise AlreadyExistsError(f'{path.plural} "{name}" already exists', reason="AlreadyExists")
        self._count += 1
        metadata |= {"uid": f"{self._count:08x}{UID_REST}", "creationTimestamp": self._stamp(0)}
        if path.namespace:
            metadata["namespace"] = path.namespace
        if path.plural == "pods":
            made[STATUS] = {"phase": "Pending"}
            metadata["generation"] = 1
        if path.plural == "nodes":
            spec = section(made, "spec")
            taints = spec.get("taints")
            listed = taints if isinstance(taints, list) else []
            made["spec"] = {**spec, "taints": [*listed, *([] if NOT_READY in listed else [NOT_READY])]}
        return self._store(key, settled(path.plural, {**made, "metadata": metadata}))

    def replace(self, who: str, path: ObjectPath, body: bytes) -> bytes:
        """Put an object in the place of one; a lease also where there is none."""
        self._require_known(who, "update", path)
        after = self._decoded(body, path)
        metadata = section(after, "metadata")
        if metadata.get("name") != path.name:
            raise RejectedError(
                f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({path.name})",
                reason="BadRequest",
            )
        uid = metadata.get("uid")
        if path.plural == "leases" and _key(path) not in self._objects:
            if uid:
                raise _conflict(
                    path, f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
                )
            return self.create(who, msgspec.structs.replace(path, name=""), body)
        before = self._object(path)
        own = section(before, "metadata").get("uid")
        if uid and uid != own:
            raise _conflict(
                path, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
            )
        if path.plural == "leases" and not metadata.get("resourceVersion"):
            raise _invalid(
                path, "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
            )
        return self._update(who, path, before, after)

    def patch(self, who: str, path: ObjectPath, body: bytes) -> bytes:
        """Merge a patch into an object."""
        self._require_known(who, "update", path)
        patch = self._decoded(body, path)
        before = self._object(path)
        return self._update(who, path, before, merge(before, patch))

    def delete(self, who: str, path: ObjectPath, uid: str = "", grace_s: int | None = None) -> bytes:
        """Delete an object at once, or mark it: a pod for its grace, what has finalizers until they are gone."""
        self._require_known(who, "delete", path)
        before = self._object(path)
        if who:
            require_own(who, path, before, None, "")
        metadata = section(before, "metadata")
        if uid and uid != metadata.get("uid"):
            raise _conflict(
                path,
                f"the UID in the precondition ({uid}) does not match the UID in record ({metadata.get('uid')})",
            )
        given = self._grace_s(before, grace_s) if path.plural == "pods" else 0
        stamp = self._stamp(given)
        pending, at = metadata.get("deletionGracePeriodSeconds"), metadata.get("deletionTimestamp")
        if isinstance(pending, int) and isinstance(at, str):
            # Once it is being deleted its grace can only become shorter.
            if grace_s is None or grace_s >= pending:
                return self._known(path).body
            stamp = (
                datetime.strptime(at, STAMP).replace(tzinfo=UTC) + timedelta(seconds=given - pending)
            ).strftime(STAMP)
        marked = {**metadata, "deletionTimestamp": stamp, "deletionGracePeriodSeconds": given}
        if at is None and path.plural == "pods":
            marked |= next_generation(metadata)
        return self._store(_key(path), {**before, "metadata": marked})

    # ------------------------------------------------------------ rules

    def _update(self, who: str, path: ObjectPath, before: Object, after: Object) -> bytes:
        if who:
            require_own(who, path, before, after, "")
        old, new = section(before, "metadata"), section(after, "metadata")
        given = new.get("resourceVersion")
        if given and given != old.get("resourceVersion"):
            raise _conflict(
                path, "the object has been modified; please apply your changes to the latest version"
            )
        if new.get("uid") not in (None, "", old.get("uid")):
            raise _invalid(path, f'metadata.uid: Invalid value: "{new.get("uid")}": field is immutable')
        fixed = "spec" if path.subresource == STATUS else STATUS
        names = ("kind", "apiVersion", fixed)
        kept = {name: old[name] for name in (*SERVERS_OWN, "resourceVersion") if name in old}
        if path.plural == "pods" and fixed != "spec" and before.get("spec") != after.get("spec"):
            kept |= next_generation(old)
        changed = settled(
            path.plural,
            {
                **{name: value for name, value in before.items() if name in names},
                **_without(after, names),
                "metadata": {**_without(new, SERVERS_OWN), **kept},
            },
        )
        return self._known(path).body if changed == before else self._store(_key(path), changed)

    def _store(self, key: Key, body: Object) -> bytes:
        """Keep an object in its new version, or remove it if it was only waiting for that; return it."""
        self._version += 1
        api_version, kind = KINDS[key[0]]
        metadata = {**section(body, "metadata"), "resourceVersion": str(self._version)}
        whole = {
            "kind": kind,
            "apiVersion": api_version,
            **_without(body, ("kind", "apiVersion")),
            "metadata": metadata,
        }
        encoded = msgspec.json.encode(whole)
        is_marked = bool(metadata.get("deletionTimestamp"))
        if is_marked and not metadata.get("deletionGracePeriodSeconds") and not metadata.get("finalizers"):
            self._objects.pop(key, None)
        else:
            node = section(body, "spec").get("nodeName") if key[0] == "pods" else ""
            self._objects[key] = StoredObject(body=encoded, version=str(self._version), node=str(node or ""))
        return encoded

    def _grace_s(self, pod: Object, asked: int | None) -> int:
        spec = section(pod, "spec")
        if not spec.get("nodeName") or section(pod, STATUS).get("phase") in ENDED:
            return 0
        if asked is not None:
            return asked
        given = spec.get("terminationGracePeriodSeconds")
        return given if isinstance(given, int) else GRACE_S

    def _require_known(self, who: str, verb: str, path: ObjectPath) -> None:
        if path.plural not in KINDS or KINDS[path.plural][0] != path.api_version:
            raise NotFoundError("the server could not find the requested resource", reason="NotFound")
        if who:
            require_role(who, verb, path)

    def _known(self, path: ObjectPath) -> StoredObject:
        found = self._objects.get(_key(path))
        if found is None:
            raise NotFoundError(f'{path.plural} "{path.name}" not found', reason="NotFound")
        return found

    def _object(self, path: ObjectPath) -> Object:
        found: Object = msgspec.json.decode(self._known(path).body)
        return found

    def _decoded(self, body: bytes, path: ObjectPath) -> Object:
        try:
            found = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise RejectedError("the body is not JSON", reason="BadRequest") from None
        if not isinstance(found, dict) or not isinstance(found.get("metadata", {}), dict):
            raise RejectedError("the body is not an object in JSON", reason="BadRequest")
        if found.get("kind", KINDS[path.plural][1]) != KINDS[path.plural][1]:
            raise RejectedError(
                f"{found['kind']} cannot be handled as a {KINDS[path.plural][1]}", reason="BadRequest"
            )
        return found

    def _uid_of_node(self, name: str) -> str:
        found = self._objects.get(("nodes", "", name))
        return (
            str(section(msgspec.json.decode(found.body), "metadata").get("uid")) if found is not None else ""
        )

    def _stamp(self, later_s: int) -> str:
        return datetime.fromtimestamp(self._wall() // 1_000_000_000 + later_s, UTC).strftime(STAMP)


def next_generation(metadata: Object) -> Object:
    """Return the generation of a pod that is asked for otherwise than before."""
    now = metadata.get("generation")
    return {"generation": now + 1 if isinstance(now, int) else 1}


def _key(path: ObjectPath) -> Key:
    return path.plural, path.namespace, path.name


def _without(body: Object, names: tuple[str, ...]) -> Object:
    return {name: value for name, value in body.items() if name not in names}


def _conflict(path: ObjectPath, why: str) -> ConflictError:
    return ConflictError(
        f'Operation cannot be fulfilled on {path.plural} "{path.name}": {why}', reason="Conflict"
    )


def _invalid(path: ObjectPath, why: str) -> RejectedError:
    return RejectedError(f'{path.plural} "{path.name}" is invalid: {why}', reason="Invalid")
