"""The scheme: what a document may be, and what is said of one that may not."""

import json

import pytest

from api.kube.objects.event import Event
from api.kube.objects.pod import Pod, PodList
from api.kube.scheme import SCHEME

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def test_decode_gives_the_object_as_written_and_read_fills_in_defaults():
    document = json.dumps(POD).encode()
    assert SCHEME.decode(document, "a.yaml").object.spec.restart_policy == ""
    read = SCHEME.read(document, "a.yaml")
    assert isinstance(read.object, Pod)
    assert read.object.spec.restart_policy == "Always"
    assert read.problems == ()


def test_type_errors_and_broken_rules_are_told_together_each_once():
    spec = {"containers": [{"name": 5, "image": " i"}, {"name": "B", "image": "i"}], "restartPolicy": "x"}
    decoded = SCHEME.read({**POD, "spec": spec}, "web.yaml")
    assert decoded.object is None
    assert [(problem.where, problem.message.split(",")[0]) for problem in decoded.told()] == [
        ("web.yaml: spec.containers[0].name", "found the number 5"),
        ("web.yaml: spec.containers[0].image", 'found " i"'),
        ("web.yaml: spec.containers[1].name", 'found "B"'),
        ("web.yaml: spec.restartPolicy", 'found "x"'),
    ]


def test_unknown_fields_are_warnings_with_their_place():
    decoded = SCHEME.read({**POD, "Spec": {}}, "web.yaml")
    assert isinstance(decoded.object, Pod)
    assert [(one.where, one.message) for one in decoded.warned()] == [
        (
            "web.yaml: Spec",
            "is not a field that Kubernetes knows here; it is ignored (did you mean 'spec'?)",
        )
    ]


@pytest.mark.parametrize(
    ("document", "path", "found", "expected"),
    [
        (b"{", "", "no JSON", "one JSON object"),
        (b"[]", "", "a list", "an object such as a Pod"),
        (b"{}", "apiVersion", "nothing", "a text, for Pod (v1)"),
        (b'{"apiVersion":"v1","kind":""}', "kind", "an empty text", "a text"),
        (b'{"apiVersion":"v1","kind":7}', "kind", "the number 7", "a text"),
        (b'{"apiVersion":"apps/v1","kind":"Deployment"}', "kind", "Deployment (apps/v1)", "not something a node runs; give a Pod, or let a control plane"),
        (b'{"apiVersion":"v2","kind":"Pod"}', "kind", "Pod (v2)", "a Pod's apiVersion is v1"),
        (b'{"apiVersion":"v1","kind":"Secret"}', "kind", "Secret (v1)", "Pod (v1)"),
    ],
)  # fmt: skip
def test_what_is_no_object_of_ours_is_told_with_what_would_be(document, path, found, expected):
    decoded = SCHEME.decode(document, "x")
    assert decoded.object is None
    assert decoded.problems[0].path == path
    assert decoded.problems[0].found == found
    assert expected in decoded.problems[0].expected


def test_only_the_kinds_asked_for_are_taken():
    decoded = SCHEME.read({**POD, "kind": "PodList", "items": []}, "x", kinds=("Pod",))
    assert [str(problem) for problem in decoded.problems] == ["kind: found PodList (v1), expected Pod (v1)"]


def test_a_list_as_tools_print_it_becomes_a_list_of_pods():
    item = {key: value for key, value in POD.items() if key not in ("apiVersion", "kind")}
    decoded = SCHEME.read({"apiVersion": "v1", "kind": "List", "items": [POD, item]}, "x")
    assert isinstance(decoded.object, PodList)
    assert [pod.spec.dns_policy for pod in decoded.object.items] == ["ClusterFirst"] * 2


def test_problems_inside_a_list_name_the_item():
    items = [POD, {**POD, "metadata": {"name": "A"}}, {**POD, "kind": "Service"}]
    decoded = SCHEME.read({"apiVersion": "v1", "kind": "PodList", "items": items}, "x")
    assert [problem.path for problem in decoded.problems] == ["items[1].metadata.name", "items[2]"]


def test_an_event_of_either_version_is_the_same_object():
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "a"},
        "note": "pulled",
        "reportingController": "kubelet",
        "deprecatedCount": 3,
    }
    event = SCHEME.decode(new, "x").object
    assert isinstance(event, Event)
    assert (event.involved_object.name, event.message, event.reporting_component, event.count) == (
        "a",
        "pulled",
        "kubelet",
        3,
    )
    back = json.loads(SCHEME.encode(event, api_version="events.k8s.io/v1"))
    assert {key: back[key] for key in new} == new | {"regarding": back["regarding"]}
    assert json.loads(SCHEME.encode(event))["involvedObject"]["name"] == "a"


def test_an_object_has_no_version_that_is_not_registered():
    with pytest.raises(KeyError):
        SCHEME.encode(Pod(), api_version="v2")


def test_managed_fields_of_an_api_server_are_no_unknown_field():
    entry = {"manager": "kubectl", "fieldsV1": {"f:spec": {}}}
    decoded = SCHEME.decode({**POD, "metadata": {"name": "a", "managedFields": [entry]}}, "x")
    assert decoded.unknown_fields == ()
    assert decoded.object.metadata.managed_fields[0].manager == "kubectl"
