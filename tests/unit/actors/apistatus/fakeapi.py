"""A small API server in memory: pods, strategic merge of a status, deletion, and mistakes that others make."""

import itertools
import json

from api.errors import Failure, FailureKind
from api.kube.scheme import SCHEME
from api.messages.kernel import Outcome
from api.ports.kube import CreateObject, DeleteObject, KubeObject, PatchObject

KEYS = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip"}
ORDER = "$setElementOrder/"


class FakeApi:
    """Pods by namespace and name, as JSON. `drops`: fields of a status that this server does not know."""

    def __init__(self, drops=()):
        self.objects, self.drops = {}, tuple(drops)
        self.versions, self.uids = itertools.count(100), itertools.count(1)
        self.shown = {}
        self.writes = []

    def put(self, namespace="d", name="a", *, uid=None, status=None, **meta):
        """Add a pod as a user or scheduler does, and return its UID."""
        uid = uid or f"uid-{next(self.uids)}"
        self.objects[namespace, name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "uid": uid, **meta},
            "status": status or {"phase": "Pending", "qosClass": "BestEffort"},
        }
        self.touch(namespace, name)
        return uid

    def touch(self, namespace, name):
        self.objects[namespace, name]["metadata"]["resourceVersion"] = str(next(self.versions))

    def status(self, name="a", namespace="d"):
        return self.objects[namespace, name]["status"]

    def set_status(self, name="a", namespace="d", **fields):
        """Change a status as somebody else does."""
        self.status(name, namespace).update(fields)
        self.touch(namespace, name)

    def ask_to_delete(self, name="a", namespace="d", grace=30):
        """Delete a pod as a user does: it stays until its node ends it."""
        self.objects[namespace, name]["metadata"] |= {
            "deletionTimestamp": "2024-05-06T07:08:09Z",
            "deletionGracePeriodSeconds": grace,
        }
        self.touch(namespace, name)

    def pods(self):
        """Return all pods; one that did not change is the same object as before."""
        before, self.shown = self.shown, {}
        for key, raw in sorted(self.objects.items()):
            version = (raw["metadata"]["uid"], raw["metadata"]["resourceVersion"])
            pod = before[key][1] if key in before and before[key][0] == version else decoded(raw)
            self.shown[key] = (version, pod)
        return tuple(pod for _, pod in self.shown.values())

    def perform(self, call):
        """Carry out a call: a KubeObject, or a Failure."""
        key = (call.path.namespace, call.path.name)
        if isinstance(call, CreateObject):
            return self.create(call)
        raw = self.objects.get(key)
        if raw is None:
            return Failure(kind=FailureKind.NOT_FOUND, message=f'pods "{key[1]}" not found')
        if isinstance(call, DeleteObject):
            return self.delete(call, key, raw)
        assert isinstance(call, PatchObject)
        assert (call.path.plural, call.path.subresource) == ("pods", "status")
        body = json.loads(call.body)
        assert set(body) == {"metadata", "status"}
        assert set(body["metadata"]) == {"uid"}
        if body["metadata"]["uid"] != raw["metadata"]["uid"]:
            return Failure(kind=FailureKind.CONFLICT, message="Precondition failed: UID in precondition")
        merged = merge(raw["status"], body["status"])
        merged = {field: value for field, value in merged.items() if field not in self.drops}
        if merged != raw["status"]:
            raw["status"] = merged
            self.touch(*key)
        self.writes.append((key, body["status"]))
        return KubeObject(body=json.dumps(raw).encode())

    def create(self, call):
        raw = json.loads(call.body)
        meta = raw["metadata"]
        key = (call.path.namespace, meta["name"])
        if key in self.objects:
            return Failure(kind=FailureKind.ALREADY_EXISTS, message=f'pods "{meta["name"]}" already exists')
        assert meta["namespace"] == call.path.namespace
        assert "uid" not in meta
        raw["metadata"]["uid"] = f"uid-{next(self.uids)}"
        raw["status"] = {"phase": "Pending"}
        self.objects[key] = raw
        self.touch(*key)
        return KubeObject(body=json.dumps(raw).encode())

    def delete(self, call, key, raw):
        assert call.grace_s == 0
        assert call.uid, "a delete without a precondition may hit another pod"
        if call.uid != raw["metadata"]["uid"]:
            return Failure(kind=FailureKind.CONFLICT, message="Precondition failed: UID in precondition")
        self.writes.append((key, None))
        if raw["metadata"].get("finalizers"):
            raw["metadata"].setdefault("deletionTimestamp", "2024-05-06T07:08:09Z")
            self.touch(*key)
        else:
            del self.objects[key]
        return KubeObject(body=json.dumps(raw).encode())


def decoded(raw):
    found = SCHEME.decode(json.dumps(raw).encode(), "fake", kinds=("Pod",))
    assert found.object is not None, found.problems
    return found.object


def merge(old, patch):
    """Merge a status as the API server does."""
    result = json.loads(json.dumps(old))
    for field, value in patch.items():
        if field.startswith(ORDER):
            continue
        if value is None:
            result.pop(field, None)
        elif field in KEYS:
            result[field] = merge_list(result.get(field, []), value, KEYS[field])
        elif isinstance(value, dict) and isinstance(result.get(field), dict):
            result[field] = merge(result[field], value)
        else:
            result[field] = value
    for field, order in patch.items():
        if field.startswith(ORDER):
            name, key = field[len(ORDER) :], KEYS[field[len(ORDER) :]]
            place = [one[key] for one in order]
            result[name] = sorted(
                result.get(name, []), key=lambda one: place.index(one[key]) if one[key] in place else -1
            )
    return {field: value for field, value in result.items() if value != []}


def merge_list(old, patch, key):
    items = {one[key]: one for one in old}
    for change in patch:
        name = change[key]
        if change.get("$patch") == "delete":
            items.pop(name, None)
        else:
            merged = {**items.get(name, {}), **change}
            items[name] = {field: value for field, value in merged.items() if value is not None}
    return list(items.values())


def outcome(op, call, answer, at):
    """Return the end of a call as the kernel sends it."""
    failure = answer if isinstance(answer, Failure) else None
    return Outcome(
        op=op,
        call=type(call).__name__,
        result=None if failure else answer,
        failure=failure,
        started_at=at,
        ended_at=at,
    )
