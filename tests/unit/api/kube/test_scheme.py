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


def test_type_errors_and_broken_rules_are_reported_together_each_once():
    spec = {"containers": [{"name": 5, "image": " i"}, {"name": "B", "image": "i"}], "restartPolicy": "x"}
    decoded = SCHEME.read({**POD, "spec": spec}, "web.yaml")
    assert decoded.object is None
    assert [(problem.where, problem.message.rpartition(", not ")[2]) for problem in decoded.located()] == [
        ("web.yaml: spec.containers[0].name", "5"),
        ("web.yaml: spec.containers[0].image", '" i"'),
        ("web.yaml: spec.containers[1].name", '"B"'),
        ("web.yaml: spec.restartPolicy", '"x"'),
    ]


def test_unknown_fields_are_warnings_with_their_place():
    decoded = SCHEME.read({**POD, "Spec": {}}, "web.yaml")
    assert isinstance(decoded.object, Pod)
    assert [(one.where, one.message) for one in decoded.warnings()] == [
        (
            "web.yaml: Spec",
            "unknown field, ignored (did you mean 'spec'?)",
        )
    ]


@pytest.mark.parametrize(
    ("document", "path", "found", "expected"),
    [
        (b"{", "", "invalid JSON", "one JSON object"),
        (b"[]", "", "a list", "an object such as a Pod"),
        (b"{}", "apiVersion", "nothing", "a string, for Pod (v1)"),
        (b'{"apiVersion":"v1","kind":""}', "kind", "an empty string", "a string"),
        (b'{"apiVersion":"v1","kind":7}', "kind", "7", "a string"),
        (b'{"apiVersion":"apps/v1","kind":"Deployment"}', "kind", "Deployment (apps/v1)", "a node does not run a Deployment; give a Pod"),
        (b'{"apiVersion":"v2","kind":"Pod"}', "kind", "Pod (v2)", "a Pod's apiVersion is v1"),
        (b'{"apiVersion":"v1","kind":"Secret"}', "kind", "Secret (v1)", "Pod (v1)"),
    ],
)  # fmt: skip
def test_a_document_that_is_not_a_known_object_says_what_is_accepted(document, path, found, expected):
    decoded = SCHEME.decode(document, "x")
    assert decoded.object is None
    assert decoded.problems[0].path == path
    assert decoded.problems[0].found == found
    assert expected in decoded.problems[0].expected


def test_only_the_requested_kinds_are_accepted():
    decoded = SCHEME.read({**POD, "kind": "PodList", "items": []}, "x", kinds=("Pod",))
    assert [str(problem) for problem in decoded.problems] == ["kind: must be Pod (v1), not PodList (v1)"]


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
