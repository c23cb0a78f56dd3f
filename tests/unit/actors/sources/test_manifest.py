"""What a document means on this node: a table of the reference's rules (pod lifecycle, section 3.2)."""

import copy
import re

import msgspec
import pytest

from actors.sources.manifest import FILE, HTTP, Origin, read_pod, read_pods
from api.kube.objects.placement import Toleration

ORIGIN = Origin(source=FILE, where="/m/web.yaml", shown="web.yaml", node_name="node-1")
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def changed(**paths):
    """Return the pod with values set at dotted paths (``__`` for dots)."""
    raw = copy.deepcopy(POD)
    for path, value in paths.items():
        *way, last = path.split("__")
        inner = raw
        for key in way:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return raw


def read(raw, origin=ORIGIN):
    return read_pod(msgspec.json.encode(raw), origin)


def read_all(raw, source=HTTP):
    origin = Origin(source=source, where="http://u:p@h/x", shown="http://h/x", node_name="n")
    return read_pods(msgspec.json.encode(raw), origin)


def test_a_static_pod_gets_what_a_node_adds():
    pod = read(changed(metadata__annotations={"own": "1"})).pod
    uid = pod.metadata.uid
    assert re.fullmatch("[0-9a-f]{32}", uid)
    assert (pod.metadata.name, pod.metadata.namespace) == ("web-node-1", "default")
    assert pod.spec.node_name == "node-1"
    assert pod.metadata.annotations == {
        "own": "1",
        "kubernetes.io/config.hash": uid,
        "kubernetes.io/config.source": "file",
    }
    assert pod.status.phase == "Pending"
    assert Toleration(operator="Exists", effect="NoExecute") in pod.spec.tolerations
    assert pod.spec.termination_grace_period_seconds == 30


def test_only_files_get_the_toleration():
    (pod,) = read_all(POD).pods
    assert pod.spec.tolerations == ()
    assert pod.metadata.annotations["kubernetes.io/config.source"] == "http"


@pytest.mark.parametrize(
    ("raw", "origin"),
    [
        (changed(metadata__labels={"a": "b"}), {}),
        (changed(spec__containers=[{"name": "c", "image": "j"}]), {}),
        (POD, {"where": "/m/other.yaml"}),
        (POD, {"node_name": "node-2"}),
        (POD, {"source": HTTP}),
    ],
)
def test_another_content_path_node_or_kind_of_source_is_another_uid(raw, origin):
    assert read(raw).pod.metadata.uid == read(raw).pod.metadata.uid
    other = read(raw, msgspec.structs.replace(ORIGIN, **origin)).pod
    assert other.metadata.uid != read(POD).pod.metadata.uid


def test_the_order_of_keys_is_no_content():
    turned = dict(reversed(POD.items()))
    assert read(turned).pod.metadata.uid == read(POD).pod.metadata.uid


def test_a_uid_of_the_user_is_kept_and_is_the_hash_too():
    pod = read(changed(metadata__uid="my-uid")).pod
    assert pod.metadata.uid == "my-uid"
    assert pod.metadata.annotations["kubernetes.io/config.hash"] == "my-uid"


@pytest.mark.parametrize("uid", ["../../etc", ".", "..", "a/b", "a b", "x" * 201, "a_b", "a\n"])
def test_a_uid_that_cannot_name_a_folder_is_refused(uid):
    result = read(changed(metadata__uid=uid))
    assert result.pod is None
    assert result.problems[0].where == "web.yaml: metadata.uid"


def test_a_copy_of_a_running_or_mirror_pod_is_a_new_pod():
    raw = changed(
        metadata__annotations={"kubernetes.io/config.mirror": "x", "kubernetes.io/config.seen": "y"},
        metadata__deletionTimestamp="2024-01-01T00:00:00Z",
        metadata__deletionGracePeriodSeconds=3,
        metadata__resourceVersion="8",
        status={"phase": "Failed", "reason": "Evicted"},
    )
    pod = read(raw).pod
    assert "kubernetes.io/config.mirror" not in pod.metadata.annotations
    assert "kubernetes.io/config.seen" not in pod.metadata.annotations
    assert pod.metadata.deletion_timestamp is None
    assert pod.metadata.deletion_grace_period_seconds is None
    assert (pod.status.phase, pod.status.reason) == ("Pending", "")


@pytest.mark.parametrize(
    ("raw", "where", "words"),
    [
        ({**POD, "kind": "Deployment"}, "kind", "Pod"),
        ({**POD, "apiVersion": "v2"}, "kind", "apiVersion is v1"),
        ({"items": [], "kind": "PodList", "apiVersion": "v1"}, "kind", "a file holds one pod"),
        ({}, "apiVersion", "v1"),
        ([], "", "an object"),
        (changed(metadata__name=""), "metadata.name", "a name"),
        (changed(metadata__generateName="x", metadata__name=""), "metadata.name", "API server"),
        (changed(metadata__name="Bad_Name"), "metadata.name", ""),
        (changed(spec__containers=[]), "spec.containers", ""),
        (changed(spec__containers="c"), "spec.containers", "a list"),
        (
            changed(spec__terminationGracePeriodSeconds="x"),
            "spec.terminationGracePeriodSeconds",
            "an integer",
        ),
        (
            changed(spec__volumes=[{"name": "s", "secret": {"secretName": "x"}}]),
            "spec.volumes[0].secret",
            "static pods may not reference secrets",
        ),
        (
            changed(spec__serviceAccountName="x"),
            "spec.serviceAccountName",
            "static pods may not reference serviceaccounts",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_path(raw, where, words):
    result = read(raw)
    assert result.pod is None
    told = {problem.where: problem.message for problem in result.problems}
    place = f"web.yaml: {where}" if where else "web.yaml"
    assert place in told, told
    assert words in told[place]


def test_an_unknown_field_is_a_warning_with_its_path():
    result = read(changed(spec__restartpolicy="Never"))
    assert result.pod is not None
    (warning,) = result.warnings
    assert warning.where == "web.yaml: spec.restartpolicy"
    assert "restartPolicy" in warning.message


def test_lists_of_pods_are_read_whole():
    item = {key: value for key, value in POD.items() if key not in ("kind", "apiVersion")}
    for raw in (
        {"apiVersion": "v1", "kind": "PodList", "items": [item, changed(metadata__name="b")]},
        {"apiVersion": "v1", "kind": "List", "items": [POD, changed(metadata__name="b")]},
    ):
        assert [pod.metadata.name for pod in read_all(raw).pods] == ["web-n", "b-n"]
    assert read_all({"apiVersion": "v1", "kind": "PodList", "items": None}).pods == ()


def test_one_wrong_pod_spoils_its_list_and_is_named():
    bad = changed(metadata__name="Bad_Name")
    result = read_all({"apiVersion": "v1", "kind": "List", "items": [POD, bad, "x", {**POD, "kind": "Node"}]})
    assert result.pods == ()
    places = [problem.where for problem in result.problems]
    assert places[0].startswith("http://h/x: items[1]: metadata.name")
    assert "http://h/x: items[2]" in places
    assert "http://h/x: items[3]: kind" in places


def test_a_list_whose_items_are_no_list_is_told():
    result = read_all({"apiVersion": "v1", "kind": "PodList", "items": {}})
    assert [problem.where for problem in result.problems] == ["http://h/x: items"]
