"""Events: made by the node, counted by patches, and never read."""

from api.errors import AlreadyExistsError, DeniedError, NotFoundError, RejectedError
from api.ports.kube import ObjectPath
from tests.conformance.kube.asking import create, delete, get, patch, refused


def event_path(name=""):
    return ObjectPath(plural="events", namespace="default", name=name)


def body(bench, name):
    return {
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": bench.pod, "uid": "uid-1"},
        "reason": "Started",
        "message": "Started container main",
        "type": "Normal",
        "count": 1,
    }


def test_an_event_is_made_and_counted(bench):
    name = f"{bench.pod}.1"
    made = create(bench, event_path(), body(bench, name))
    assert (made["kind"], made["count"]) == ("Event", 1)
    refused(AlreadyExistsError, "AlreadyExists", create, bench, event_path(), body(bench, name))
    counted = patch(bench, event_path(name), {"count": 2, "message": "again"})
    assert (counted["count"], counted["message"], counted["reason"]) == (2, "again", "Started")
    assert counted["involvedObject"] == made["involvedObject"]


def test_one_that_expired_is_not_counted(bench):
    refused(NotFoundError, "NotFound", patch, bench, event_path(f"{bench.pod}.2"), {"count": 2})


def test_an_event_is_in_the_namespace_of_its_object(bench):
    wrong = {**body(bench, f"{bench.pod}.3"), "involvedObject": {"kind": "Pod", "namespace": "other"}}
    refused(RejectedError, "Invalid", create, bench, event_path(), wrong)


def test_a_node_reads_and_removes_no_events(bench):
    name = f"{bench.pod}.4"
    create(bench, event_path(), body(bench, name))
    refused(DeniedError, "Forbidden", get, bench, event_path(name))
    refused(DeniedError, "Forbidden", delete, bench, event_path(name))
