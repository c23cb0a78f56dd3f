"""Maps of objects: frozen, sorted, hashable, on the wire a JSON object."""

import copy
import pickle

import msgspec
import pytest

from api.kube.objects.meta import ObjectMeta
from api.kube.objects.pod import Container, EnvVar, HTTPHeader, Pod
from api.kube.objects.strmap import NO_ENTRIES, StrMap


def test_a_map_iterates_in_the_order_of_its_keys_and_never_changes():
    labels = ObjectMeta(labels={"b": "1", "a": "2"}).labels
    assert list(labels) == ["a", "b"]
    assert labels.get("c", "none") == "none"
    for change in (
        lambda: labels.__setitem__("c", "1"),
        lambda: labels.update(c="1"),
        lambda: labels.pop("a"),
        labels.clear,
        lambda: labels.setdefault("c", "1"),
        lambda: labels.__delitem__("a"),
        labels.popitem,
        lambda: labels.__ior__({"c": "1"}),
    ):
        with pytest.raises(TypeError, match="never changes"):
            change()
    assert labels == {"a": "2", "b": "1"}


def test_an_empty_map_is_one_object_and_not_written():
    meta = msgspec.json.decode(b'{"labels":{},"name":"n"}', type=ObjectMeta)
    assert meta.labels is NO_ENTRIES
    assert msgspec.json.encode(meta) == b'{"name":"n"}'


def test_changed_copies_are_new_maps():
    labels = StrMap({"b": "1"})
    assert labels.without("b") == NO_ENTRIES
    assert labels == {"b": "1"}


def test_maps_and_objects_survive_copies_and_pickles():
    pod = Pod(metadata=ObjectMeta(name="n", labels={"b": "1", "a": "2"}))
    assert copy.deepcopy(pod) == pod
    again = pickle.loads(pickle.dumps(pod.metadata.labels))
    assert again == pod.metadata.labels
    assert type(again) is StrMap


def test_no_text_made_of_an_object_shows_a_value_of_the_environment():
    container = Container(name="c", env=(EnvVar(name="PASSWORD", value="hunter2"),))
    header = HTTPHeader(name="Authorization", value="hunter2")
    applied = ObjectMeta(
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "a": "shown"}
    )
    for thing in (container, header, applied):
        assert "hunter2" not in repr(thing)
        assert "hunter2" not in str(thing)
    assert "PASSWORD" in repr(container)
    assert "shown" in repr(applied)
