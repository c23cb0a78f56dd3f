"""Pod in, defaulted pod out: pairs written by hand from the rule that each begins with."""

import pathlib

import pytest

from api.kube.poddefault import default_pod
from api.kube.scheme import SCHEME
from runtime.drivers.host.manifests.yamltext import read_document

FOLDER = pathlib.Path(__file__).parent / "poddefault"
PAIRS = sorted(path.name.removesuffix(".in.yaml") for path in FOLDER.glob("*.in.yaml"))


def pod_of(path):
    """Return the pod of a file as it is written."""
    document = read_document(path.read_bytes(), path.name)
    assert document.problems == ()
    decoded = SCHEME.decode(document.json, path.name)
    assert decoded.problems == ()
    assert decoded.unknown_fields == ()
    return decoded.object


@pytest.mark.parametrize("name", PAIRS)
def test_a_pod_gets_the_defaults_of_an_api_server(name):
    given, expected = pod_of(FOLDER / f"{name}.in.yaml"), pod_of(FOLDER / f"{name}.out.yaml")
    assert default_pod(given) == expected
    assert default_pod(expected) == expected
    assert SCHEME.encode(default_pod(given)) == SCHEME.encode(expected)
    assert SCHEME.read(SCHEME.encode(given), name).problems == ()


def test_there_are_pairs():
    assert len(PAIRS) >= 6
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{name}.{end}.yaml" for name in PAIRS for end in ("in", "out")
    }
