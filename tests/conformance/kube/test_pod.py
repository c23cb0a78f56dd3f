"""Pods that are bound to a node: their status, their deletion in two steps, and mirror pods."""

from datetime import datetime

import pytest

from api.errors import AlreadyExistsError, ConflictError, DeniedError, NotFoundError, RejectedError
from tests.conformance.kube.asking import PODS, create, delete, get, patch, refused, uid, version
from tests.harness.cluster.clusteradmin import pod_body

MIRROR = "kubernetes.io/config.mirror"
FINALIZER = "example.com/keep"


def container(name, restarts=0):
    return {"name": name, "image": "i", "imageID": "", "ready": True, "restartCount": restarts}


def status_of(bench, status, **metadata):
    return patch(bench, bench.pod_path("status"), {"metadata": metadata, "status": status})["status"]


# ---------------------------------------------------------------- status


def test_a_status_is_patched_for_the_very_pod(bench):
    pod = bench.make_pod()
    assert pod["status"]["phase"] == "Pending"
    patched = patch(
        bench,
        bench.pod_path("status"),
        {
            "metadata": {"uid": uid(pod)},
            "spec": {"hostNetwork": True},
            "status": {"phase": "Running", "message": "m"},
        },
    )
    assert (patched["status"]["phase"], patched["status"]["message"]) == ("Running", "m")
    assert "hostNetwork" not in patched["spec"]
    assert version(patched) != version(pod)
    assert get(bench, bench.pod_path()) == patched
    assert "message" not in status_of(bench, {"message": None})


def test_a_status_for_a_pod_of_the_same_name_is_refused_as_invalid(bench):
    bench.make_pod()
    current = get(bench, bench.pod_path())
    body = {"metadata": {"uid": "another"}, "status": {"phase": "Failed"}}
    refused(RejectedError, "Invalid", patch, bench, bench.pod_path("status"), body)
    assert get(bench, bench.pod_path()) == current


def test_conditions_and_addresses_are_merged_and_container_statuses_replaced(bench):
    bench.make_pod()
    status_of(
        bench,
        {
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}],
            "containerStatuses": [container("app"), container("gone")],
            "initContainerStatuses": [container("init")],
        },
    )
    status = status_of(
        bench,
        {
            "conditions": [{"type": "Ready", "status": "False"}],
            "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "containerStatuses": [container("app", 1)],
        },
    )
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Ready": "False",
        "PodScheduled": "True",
    }
    assert sorted(one["ip"] for one in status["podIPs"]) == ["10.0.0.1", "fd00::1"]
    assert [(one["name"], one["restartCount"]) for one in status["containerStatuses"]] == [("app", 1)]
    assert [one["name"] for one in status["initContainerStatuses"]] == ["init"]
    status = status_of(bench, {"podIP": "10.0.0.2", "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.2"}]})
    assert status["podIPs"] == [{"ip": "10.0.0.2"}]
    status = status_of(bench, {"podIP": None, "podIPs": [{"$patch": "delete", "ip": "10.0.0.2"}]})
    assert not status.get("podIPs")


def test_the_address_of_a_pod_wins_over_the_list_of_them(bench):
    bench.make_pod()

    def addresses(**status):
        found = status_of(bench, status)
        return found.get("podIP"), [one["ip"] for one in found.get("podIPs", ())]

    assert addresses(podIPs=[{"ip": "10.0.0.1"}]) == ("10.0.0.1", ["10.0.0.1"])
    assert addresses(podIPs=[{"ip": "10.0.0.2"}]) == ("10.0.0.1", ["10.0.0.1"])
    assert addresses(podIP="10.0.0.4") == ("10.0.0.4", ["10.0.0.4"])
    assert addresses(podIP=None) == ("10.0.0.4", ["10.0.0.4"])
    assert addresses(podIPs=None) == ("10.0.0.4", ["10.0.0.4"])
    assert addresses(podIP=None, podIPs=None) == (None, [])


def test_an_address_that_is_only_added_leaves_one_too_many_of_its_family(bench):
    bench.make_pod()
    status_of(bench, {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]})
    body = {"status": {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}]}}
    refused(RejectedError, "Invalid", patch, bench, bench.pod_path("status"), body)


def test_annotations_may_be_patched_with_the_status_and_labels_may_not(bench):
    bench.make_pod()
    path = bench.pod_path("status")
    assert patch(bench, path, {"metadata": {"annotations": {"a": "b"}}})["metadata"]["annotations"] == {
        "a": "b"
    }
    refused(DeniedError, "Forbidden", patch, bench, path, {"metadata": {"labels": {"a": "b"}}})
    refused(
        DeniedError, "Forbidden", patch, bench, bench.pod_path(), {"metadata": {"annotations": {"a": "c"}}}
    )


def test_pods_of_another_node_are_none_of_its_business(bench):
    bench.make_node()
    bench.make_pod(node=f"{bench.node}-other")
    refused(DeniedError, "Forbidden", patch, bench, bench.pod_path("status"), {"status": {"phase": "Failed"}})
    refused(DeniedError, "Forbidden", delete, bench, bench.pod_path(), grace_s=0)


def test_a_pod_that_is_not_there(bench):
    assert bench.admin.read(bench.pod_path()) is None
    refused(
        NotFoundError, "NotFound", patch, bench, bench.pod_path("status"), {"status": {"phase": "Failed"}}
    )
    refused(NotFoundError, "NotFound", delete, bench, bench.pod_path(), grace_s=0)


# ---------------------------------------------------------------- deletion


def marks(bench):
    metadata = get(bench, bench.pod_path())["metadata"]
    return metadata.get("deletionGracePeriodSeconds"), metadata.get("deletionTimestamp")


def test_a_pod_is_marked_first_and_removed_by_its_node(bench):
    pod = bench.make_pod(terminationGracePeriodSeconds=45)
    assert marks(bench) == (None, None)
    bench.admin.delete(bench.pod_path())
    grace, at = marks(bench)
    assert grace == 45
    made = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    assert 44 <= (datetime.fromisoformat(at) - made).total_seconds() <= 75
    refused(ConflictError, "Conflict", delete, bench, bench.pod_path(), uid="another", grace_s=0)
    assert marks(bench) == (grace, at)
    delete(bench, bench.pod_path(), uid=uid(pod), grace_s=0)
    assert bench.admin.read(bench.pod_path()) is None
    refused(NotFoundError, "NotFound", delete, bench, bench.pod_path(), uid=uid(pod), grace_s=0)


def test_the_generation_counts_what_is_asked_of_a_pod_and_its_deletion(bench):
    def generation():
        return bench.admin.read(bench.pod_path())["metadata"]["generation"]

    first = bench.make_pod()["metadata"].get("generation")
    if first is None:
        pytest.skip("an API server before 1.33 does not count the generations of pods")
    assert first == 1
    patch(bench, bench.pod_path("status"), {"status": {"message": "m"}})
    bench.admin.patch(bench.pod_path(), {"metadata": {"labels": {"a": "b"}}})
    assert generation() == 1
    bench.admin.patch(bench.pod_path(), {"spec": {"activeDeadlineSeconds": 900}})
    assert generation() == 2
    bench.admin.delete(bench.pod_path())
    assert generation() == 3
    bench.admin.delete(bench.pod_path(), grace_s=5)
    assert generation() == 3


def test_a_grace_is_shortened_and_never_extended(bench):
    bench.make_pod()
    bench.admin.delete(bench.pod_path())
    _, first = marks(bench)
    bench.admin.delete(bench.pod_path(), grace_s=60)
    assert marks(bench) == (30, first)
    bench.admin.delete(bench.pod_path(), grace_s=5)
    grace, second = marks(bench)
    assert grace == 5
    assert (datetime.fromisoformat(first) - datetime.fromisoformat(second)).total_seconds() == 25
    delete(bench, bench.pod_path())
    assert marks(bench) == (5, second)


def test_a_longer_grace_than_the_specs_may_be_asked_for_at_first(bench):
    bench.make_pod()
    bench.admin.delete(bench.pod_path(), grace_s=90)
    assert marks(bench)[0] == 90
    bench.admin.delete(bench.pod_path())
    assert marks(bench)[0] == 90


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_goes_at_once(bench, phase):
    bench.make_pod()
    status_of(bench, {"phase": phase})
    bench.admin.delete(bench.pod_path())
    assert bench.admin.read(bench.pod_path()) is None


def test_a_pod_that_ends_while_it_is_being_deleted_waits_for_its_node(bench):
    bench.make_pod()
    bench.admin.delete(bench.pod_path())
    status_of(bench, {"phase": "Succeeded"})
    bench.admin.delete(bench.pod_path())
    assert marks(bench)[0] == 30
    delete(bench, bench.pod_path(), grace_s=0)
    assert bench.admin.read(bench.pod_path()) is None


def test_a_pod_with_a_finalizer_stays_until_that_is_gone(bench):
    pod = bench.make_pod(metadata={"finalizers": [FINALIZER]})
    delete(bench, bench.pod_path(), uid=uid(pod), grace_s=0)
    grace, at = marks(bench)
    assert (grace, bool(at)) == (0, True)
    delete(bench, bench.pod_path(), uid=uid(pod), grace_s=0)
    assert status_of(bench, {"phase": "Failed"})["phase"] == "Failed"
    bench.admin.patch(bench.pod_path(), {"metadata": {"finalizers": None}})
    assert bench.admin.read(bench.pod_path()) is None


def test_a_pod_whose_finalizer_goes_first_waits_for_its_node(bench):
    bench.make_pod(metadata={"finalizers": [FINALIZER]})
    bench.admin.delete(bench.pod_path())
    bench.admin.patch(bench.pod_path(), {"metadata": {"finalizers": None}})
    assert marks(bench)[0] == 30
    delete(bench, bench.pod_path(), grace_s=0)
    assert bench.admin.read(bench.pod_path()) is None


# ---------------------------------------------------------------- mirror pods


def mirror(bench, node_uid, **spec):
    owner = {"apiVersion": "v1", "kind": "Node", "name": bench.node, "uid": node_uid, "controller": True}
    body = pod_body(bench.pod, bench.node, **spec)
    body["metadata"] |= {"annotations": {MIRROR: "hash"}, "ownerReferences": [owner]}
    return body


def test_a_mirror_pod_is_made_by_its_node_and_deleted(bench):
    made = create(bench, PODS, {**mirror(bench, uid(bench.make_node())), "status": {"phase": "Running"}})
    assert made["metadata"]["annotations"] == {MIRROR: "hash"}
    assert made["metadata"]["namespace"] == "default"
    assert made["status"]["phase"] == "Pending"
    assert get(bench, bench.pod_path()) == made
    refused(ConflictError, "Conflict", delete, bench, bench.pod_path(), uid="another", grace_s=0)
    delete(bench, bench.pod_path(), uid=uid(made), grace_s=0)
    assert bench.admin.read(bench.pod_path()) is None


def test_a_mirror_pod_that_is_there_is_not_made_again(bench):
    body = mirror(bench, uid(bench.make_node()))
    create(bench, PODS, body)
    refused(AlreadyExistsError, "AlreadyExists", create, bench, PODS, body)


def test_a_node_makes_no_pod_but_mirrors_of_its_own(bench):
    node_uid = uid(bench.make_node())
    plain, without_owner = mirror(bench, node_uid), mirror(bench, node_uid)
    del plain["metadata"]["annotations"]
    del without_owner["metadata"]["ownerReferences"]
    elsewhere = mirror(bench, node_uid, nodeName=f"{bench.node}-other")
    for body in (plain, without_owner, elsewhere, mirror(bench, "another")):
        refused(DeniedError, "Forbidden", create, bench, PODS, body)
    assert bench.admin.read(bench.pod_path()) is None
