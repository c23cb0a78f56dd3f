"""Raw data against the types: every error and every unknown field, each by its path."""

import pytest

from api.kube.objects.pod import Pod
from api.kube.shape import fit


def problems(raw):
    """Return path and words of each problem."""
    return {problem.path: problem.text() for problem in fit(raw, Pod).problems}


def test_all_type_errors_are_told_at_once_with_path_found_and_expected():
    assert problems(
        {
            "metadata": {"name": 5, "labels": {"a": 1.5, "b/c": True}},
            "spec": {
                "hostNetwork": "yes",
                "terminationGracePeriodSeconds": "30",
                "containers": [
                    {"name": "a", "ports": [{"containerPort": 80.5}], "command": "run me"},
                    {"name": "b", "resources": {"limits": {"cpu": "many"}}, "livenessProbe": []},
                ],
            },
        }
    ) == {
        "metadata.name": 'must be a string (put it in quotes: "..."), not 5',
        "metadata.labels.a": 'must be a string (put it in quotes: "..."), not 1.5',
        "metadata.labels[b/c]": 'must be a string (put it in quotes: "..."), not true',
        "spec.hostNetwork": 'must be true or false, not "yes"',
        "spec.terminationGracePeriodSeconds": 'must be an integer (without quotes), not "30"',
        "spec.containers[0].ports[0].containerPort": "must be an integer, not 80.5",
        "spec.containers[0].command": "must be a list, not a string",
        "spec.containers[1].resources.limits.cpu": 'must be a quantity such as 250m, 1.5 or 64Mi, not "many"',
        "spec.containers[1].livenessProbe": "must be an object (Probe), not a list",
    }


def test_no_problem_repeats_the_value_of_a_variable_or_header():
    raw = {
        "spec": {
            "containers": [
                {
                    "env": [{"name": "PIN", "value": 4711}],
                    "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Token", "value": 4711}]}},
                }
            ]
        }
    }
    found = problems(raw)
    assert list(found) == [
        "spec.containers[0].env[0].value",
        "spec.containers[0].livenessProbe.httpGet.httpHeaders[0].value",
    ]
    assert "4711" not in str(found)


def test_unknown_fields_are_told_by_path_with_what_was_probably_meant():
    raw = {
        "Metadata": {},
        "spec": {
            "containers": [{"imagepullpolicy": "Always", "comand": ["x"], "zzz": 1}],
            "volumes": [{"hostpath": {}}],
        },
        "status": {"podIp": "1.2.3.4"},
    }
    assert [str(field) for field in fit(raw, Pod).unknown] == [
        "Metadata (did you mean 'metadata'?)",
        "spec.containers[0].imagepullpolicy (did you mean 'imagePullPolicy'?)",
        "spec.containers[0].comand (did you mean 'command'?)",
        "spec.containers[0].zzz",
        "spec.volumes[0].hostpath (did you mean 'hostPath'?)",
        "status.podIp (did you mean 'podIP'?)",
    ]


def test_null_is_unset_in_an_object_and_the_zero_of_its_type_in_a_list_or_map():
    raw = {
        "metadata": {"labels": None, "annotations": {"a": None}, "creationTimestamp": None},
        "spec": {"containers": [None, {"command": [None, "b"]}]},
    }
    fitted = fit(raw, Pod)
    assert fitted.problems == ()
    assert fitted.value == {
        "metadata": {"annotations": {"a": ""}},
        "spec": {"containers": [{}, {"command": ["", "b"]}]},
    }


@pytest.mark.parametrize(("given", "text"), [(1, "1"), (0.5, "0.5"), (2.0, "2"), ("64Mi", "64Mi")])
def test_an_amount_may_be_a_number_and_becomes_its_text(given, text):
    raw = {"spec": {"containers": [{"resources": {"limits": {"cpu": given}}}]}}
    fitted = fit(raw, Pod)
    assert fitted.problems == ()
    assert fitted.value["spec"]["containers"][0]["resources"]["limits"] == {"cpu": text}


@pytest.mark.parametrize(
    ("given", "fits"), [(80, True), ("http", True), (8.5, False), (True, False), ([], False)]
)
def test_a_port_is_a_number_or_a_name(given, fits):
    raw = {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": given}}}]}}
    assert (fit(raw, Pod).problems == ()) is fits


def test_an_item_that_does_not_fit_leaves_the_places_of_the_others():
    assert list(problems({"spec": {"containers": ["x", {"name": 1}]}})) == [
        "spec.containers[0]",
        "spec.containers[1].name",
    ]


def test_a_whole_number_has_64_bits():
    assert problems({"metadata": {"generation": 2**63}})
    assert not problems({"metadata": {"generation": 2**63 - 1}})
