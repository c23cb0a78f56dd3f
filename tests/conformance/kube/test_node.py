"""A node's own Node: made, read, and its status patched; what is not its own is refused."""

import pytest

from api.errors import AlreadyExistsError, ConflictError, DeniedError, NotFoundError, RejectedError
from api.ports.kube import ObjectPath
from tests.conformance.kube.asking import NODES, create, delete, get, patch, refused, replace, uid, version


def test_a_node_makes_itself_with_labels_taints_and_status(bench):
    taint = {"key": "example.com/new", "effect": "NoSchedule"}
    status = {"capacity": {"cpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}
    body = {
        "metadata": {"name": bench.node, "labels": {"a": "b"}},
        "spec": {"taints": [taint]},
        "status": status,
    }
    made = create(bench, NODES, body)
    assert (made["kind"], made["apiVersion"], made["metadata"]["name"]) == ("Node", "v1", bench.node)
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert uid(made)
    assert version(made)
    keys = [one["key"] for one in made["spec"]["taints"]]
    assert sorted(keys) == ["example.com/new", "node.kubernetes.io/not-ready"]
    assert made["status"]["capacity"] == {"cpu": "2"}
    assert made["status"]["conditions"][0]["status"] == "True"
    assert get(bench, bench.node_path()) == made
    assert bench.admin.read(bench.node_path())["metadata"]["uid"] == uid(made)


def test_a_node_that_is_there_is_not_made_again(bench):
    bench.make_node()
    text = refused(
        AlreadyExistsError, "AlreadyExists", create, bench, NODES, {"metadata": {"name": bench.node}}
    )
    assert bench.node in text


def test_a_node_that_is_not_there(bench):
    path, status = bench.node_path(), bench.node_path("status")
    refused(NotFoundError, "NotFound", get, bench, path)
    refused(NotFoundError, "NotFound", patch, bench, status, {"status": {"capacity": {"cpu": "1"}}})
    refused(NotFoundError, "NotFound", replace, bench, path, {"metadata": {"name": bench.node}})
    bench.make_node()
    bench.admin.delete(path)
    refused(NotFoundError, "NotFound", get, bench, path)


def test_a_node_may_make_and_change_no_other_and_delete_not_even_itself(bench):
    bench.make_node()
    other = f"{bench.node}-other"
    bench.admin.create(NODES, {"metadata": {"name": other}})
    refused(DeniedError, "Forbidden", create, bench, NODES, {"metadata": {"name": f"{bench.node}-third"}})
    path = ObjectPath(plural="nodes", name=other, subresource="status")
    refused(DeniedError, "Forbidden", patch, bench, path, {"status": {"capacity": {"cpu": "1"}}})
    refused(DeniedError, "Forbidden", delete, bench, bench.node_path())


@pytest.mark.parametrize("subresource", ["", "status"])
def test_a_node_may_not_change_taints_nor_labels_of_others(bench, subresource):
    bench.make_node()
    path = bench.node_path(subresource)
    refused(
        DeniedError,
        "Forbidden",
        patch,
        bench,
        path,
        {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}},
    )
    for label in ("node-restriction.kubernetes.io/x", "example.kubernetes.io/x", "k8s.io/x"):
        refused(DeniedError, "Forbidden", patch, bench, path, {"metadata": {"labels": {label: "y"}}})


def test_labels_and_annotations_may_be_patched_with_the_status(bench):
    made = bench.make_node()
    labels = {
        "kubernetes.io/os": "linux",
        "x.kubelet.kubernetes.io/x": "y",
        "node.kubernetes.io/x": "y",
        "example.com/x": "y",
        "plain": "z",
    }
    patched = patch(
        bench, bench.node_path("status"), {"metadata": {"labels": labels, "annotations": {"a": "b"}}}
    )
    assert patched["metadata"]["labels"] == labels
    assert patched["metadata"]["annotations"] == {"a": "b"}
    assert version(patched) != version(made)
    removed = patch(
        bench, bench.node_path("status"), {"metadata": {"labels": {"plain": None}, "annotations": None}}
    )
    assert "plain" not in removed["metadata"]["labels"]
    assert "annotations" not in removed["metadata"]


def statuses(bench, *patches):
    """Return the status after these patches of the status of a new node."""
    bench.make_node()
    for one in patches:
        patched = patch(bench, bench.node_path("status"), {"status": one})
    assert get(bench, bench.node_path()) == patched
    return patched["status"]


def by(key, value, *items):
    return {item[key]: item.get(value) for item in items}


def test_conditions_are_merged_by_their_type(bench):
    status = statuses(
        bench,
        {"conditions": [{"type": "A", "status": "True", "reason": "R"}, {"type": "B", "status": "True"}]},
        {"conditions": [{"type": "A", "status": "False"}, {"type": "C", "status": "True"}]},
        {"conditions": [{"type": "B", "$patch": "delete"}]},
    )
    assert by("type", "status", *status["conditions"]) == {"A": "False", "C": "True"}
    assert by("type", "reason", *status["conditions"])["A"] == "R"


@pytest.mark.parametrize(
    ("before", "patch_", "after"),
    [
        ("ABC", "C", "ABc"),
        ("ABC", "CA", "Bca"),
        ("ABC", "D", "dABC"),
        ("ABC", "BD", "AbdC"),
        ("ABC", "DB", "dAbC"),
        ("ABC", "DBEA", "dbeaC"),
        ("ABC", "DD", "dABC"),
        ("ABC", "CBA", "cba"),
    ],
)
def test_merged_items_stand_in_the_order_of_the_patch_and_the_others_between_them(
    bench, before, patch_, after
):
    status = statuses(
        bench,
        {"conditions": [{"type": name, "status": "True"} for name in before]},
        {"conditions": [{"type": name, "status": "False"} for name in patch_]},
    )
    seen = [one["type"] if one["status"] == "True" else one["type"].lower() for one in status["conditions"]]
    assert "".join(seen) == after


def test_of_several_addresses_of_a_type_the_first_is_merged_and_all_are_deleted(bench):
    several = [{"type": "A", "address": "1"}, {"type": "A", "address": "2"}, {"type": "B", "address": "3"}]
    status = statuses(bench, {"addresses": several}, {"addresses": [{"type": "A", "address": "x"}]})
    assert [one["address"] for one in status["addresses"]] == ["x", "2", "3"]
    patched = patch(
        bench, bench.node_path("status"), {"status": {"addresses": [{"type": "A", "$patch": "delete"}]}}
    )
    assert [one["address"] for one in patched["status"]["addresses"]] == ["3"]


def test_what_pods_may_use_is_what_there_is_until_it_is_said(bench):
    status = statuses(bench, {"capacity": {"cpu": "2"}}, {"capacity": {"cpu": "4"}})
    assert (status["capacity"], status["allocatable"]) == ({"cpu": "4"}, {"cpu": "2"})


def test_a_map_is_replaced_where_the_patch_says_so(bench):
    status = statuses(
        bench, {"capacity": {"cpu": "2", "pods": "110"}}, {"capacity": {"$patch": "replace", "cpu": "4"}}
    )
    assert status["capacity"] == {"cpu": "4"}


def test_finalizers_are_added_to(bench):
    bench.make_node()
    for one in ("example.com/a", "example.com/b", "example.com/a"):
        patched = bench.admin.patch(bench.node_path(), {"metadata": {"finalizers": [one]}})
    assert sorted(patched["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    bench.admin.delete(bench.node_path())
    assert get(bench, bench.node_path())["metadata"]["deletionTimestamp"]
    bench.admin.patch(bench.node_path(), {"metadata": {"finalizers": None}})
    refused(NotFoundError, "NotFound", get, bench, bench.node_path())


def test_addresses_are_merged_by_their_type_unless_they_are_replaced(bench):
    status = statuses(
        bench,
        {"addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"}]},
        {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]},
    )
    assert by("type", "address", *status["addresses"]) == {"Hostname": "h", "InternalIP": "10.0.0.2"}
    both = [{"type": "InternalIP", "address": "10.0.0.3"}, {"type": "InternalIP", "address": "fd00::3"}]
    patched = patch(
        bench, bench.node_path("status"), {"status": {"addresses": [{"$patch": "replace"}, *both]}}
    )
    assert patched["status"]["addresses"] == both


def test_maps_are_merged_null_removes_and_other_lists_are_replaced(bench):
    status = statuses(
        bench,
        {
            "capacity": {"cpu": "2", "memory": "1Gi"},
            "images": [{"names": ["a"], "sizeBytes": 1}],
            "volumesInUse": ["a"],
            "nodeInfo": {"bootID": "x", "osImage": "y"},
        },
        {
            "capacity": {"memory": None, "pods": "110"},
            "images": [{"names": ["b"], "sizeBytes": 1}],
            "volumesInUse": ["b"],
            "nodeInfo": {"bootID": "z"},
        },
    )
    assert status["capacity"] == {"cpu": "2", "pods": "110"}
    assert status["images"] == [{"names": ["b"], "sizeBytes": 1}]
    assert status["volumesInUse"] == ["b"]
    assert (status["nodeInfo"]["bootID"], status["nodeInfo"]["osImage"]) == ("z", "y")
    assert "images" not in patch(bench, bench.node_path("status"), {"status": {"images": None}})["status"]


def test_a_patch_of_the_node_leaves_its_status_and_one_of_the_status_its_spec(bench):
    bench.make_node()
    status = bench.node_path("status")
    patch(bench, status, {"status": {"capacity": {"cpu": "2"}}})
    assert patch(bench, bench.node_path(), {"status": {"capacity": {"cpu": "9"}}})["status"]["capacity"] == {
        "cpu": "2"
    }
    assert "providerID" not in patch(bench, status, {"spec": {"providerID": "a://b"}})["spec"]
    assert patch(bench, bench.node_path(), {"spec": {"providerID": "a://b"}})["spec"]["providerID"] == "a://b"


def test_a_patch_that_changes_nothing_makes_no_new_version(bench):
    bench.make_node()
    changed = patch(bench, bench.node_path("status"), {"status": {"capacity": {"cpu": "2"}}})
    assert patch(bench, bench.node_path("status"), {"status": {"capacity": {"cpu": "2"}}}) == changed


def test_a_patch_of_an_old_version_or_of_another_object_is_refused(bench):
    made = bench.make_node()
    path, status = bench.node_path("status"), {"status": {"capacity": {"cpu": "2"}}}
    current = patch(bench, path, {"metadata": {"resourceVersion": version(made), "uid": uid(made)}, **status})
    status = {"status": {"capacity": {"cpu": "3"}}}
    refused(
        ConflictError,
        "Conflict",
        patch,
        bench,
        path,
        {"metadata": {"resourceVersion": version(made)}, **status},
    )
    refused(RejectedError, "Invalid", patch, bench, path, {"metadata": {"uid": "another"}, **status})
    assert get(bench, bench.node_path()) == current


def test_a_replaced_node_keeps_its_identity(bench):
    made = bench.make_node()
    body = {**made, "metadata": {"name": bench.node, "labels": {"a": "b"}}}
    replaced = replace(bench, bench.node_path(), body)
    assert replaced["metadata"]["labels"] == {"a": "b"}
    assert (uid(replaced), replaced["spec"]) == (uid(made), made["spec"])
    assert version(replaced) != version(made)
    body["metadata"] |= {"resourceVersion": version(made)}
    refused(ConflictError, "Conflict", replace, bench, bench.node_path(), body)
    body["metadata"] = {"name": bench.node, "uid": "another"}
    refused(ConflictError, "Conflict", replace, bench, bench.node_path(), body)


@pytest.mark.parametrize("body", [b"{", b"[]", b"", b"\xff", b"[" * 20_000])
def test_what_is_no_object_is_refused(bench, body):
    bench.make_node()
    refused(RejectedError, "BadRequest", create, bench, NODES, body)
    refused(RejectedError, "BadRequest", patch, bench, bench.node_path("status"), body)
    refused(RejectedError, "BadRequest", replace, bench, bench.node_path(), body)


def test_what_fits_no_node_is_refused(bench):
    bench.make_node()
    refused(RejectedError, "BadRequest", create, bench, NODES, {"apiVersion": "v1", "kind": "Pod"})
    refused(RejectedError, "BadRequest", replace, bench, bench.node_path(), {"metadata": {"name": "another"}})
    refused(
        RejectedError, "Invalid", patch, bench, bench.node_path("status"), {"status": {"conditions": "x"}}
    )
    refused(DeniedError, "Forbidden", create, bench, NODES, {"metadata": {}})
