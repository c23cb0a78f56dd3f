"""Our wire names against the Kubernetes client's own attribute maps, from V1Pod down."""

import inspect as introspection
import json
import re

import kubernetes.client
import msgspec
import pytest
from msgspec import inspect

from api.kube.objects.event import Event, EventList
from api.kube.objects.lease import NodeLease
from api.kube.objects.node import Node
from api.kube.objects.pod import Pod, PodList
from api.kube.objects.podstatus import ContainerStateTerminated, ContainerStatus
from api.kube.objects.signingrequest import CertificateSigningRequest
from api.kube.objects.wiretype import ApiObject

ROOTS = {
    "V1Pod": Pod,
    "V1PodList": PodList,
    "CoreV1Event": Event,
    "CoreV1EventList": EventList,
    "V1Node": Node,
    "V1Lease": NodeLease,
    "V1CertificateSigningRequest": CertificateSigningRequest,
}
WHO_ASKS = "the API server writes down who asks, which no node reads"
EXCEPTIONS = {
    **{
        ("V1CertificateSigningRequestSpec", field): WHO_ASKS
        for field in ("extra", "groups", "uid", "username")
    },
    ("V1ManagedFieldsEntry", "fieldsV1"): "the API server's own bookkeeping, which no node ever writes back",
    ("V1NodeSpec", "configSource"): "deprecated: a node that takes its configuration from the API server",
    ("V1NodeSpec", "externalID"): "deprecated: the API server ignores it",
    ("V1NodeStatus", "config"): "deprecated: a node that takes its configuration from the API server",
}
REFERENCE = re.compile(r"\b(?:Core)?V1[A-Z]\w+")


def struct_of(info):
    """Return the struct type that a field holds, alone, in a list or optionally."""
    match info:
        case inspect.StructType(cls=cls):
            return cls
        case inspect.VarTupleType(item_type=item):
            return struct_of(item)
        case inspect.UnionType(types=types):
            return next((found for found in map(struct_of, types) if found), None)
        case _:
            return None


def pairs():
    """Return each client class with our type, found by walking both side by side."""
    found = {}
    todo = list(ROOTS.items())
    while todo:
        name, ours = todo.pop()
        if name in found:
            assert found[name] is ours, (
                f"{name} is {found[name].__name__} in one place and {ours.__name__} in another"
            )
            continue
        found[name] = ours
        theirs = getattr(kubernetes.client, name)
        fields = {field.encode_name: field for field in inspect.type_info(ours).fields}
        for attribute, kind in theirs.openapi_types.items():
            wire = theirs.attribute_map[attribute]
            inner = REFERENCE.search(kind)
            if inner and wire in fields:
                ours_inner = struct_of(fields[wire].type)
                assert ours_inner is not None, f"{name}.{wire} is no object with us"
                todo.append((inner[0], ours_inner))
    return found


PAIRS = pairs()


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_every_field_of_the_client_has_its_wire_name_here(name):
    theirs = set(getattr(kubernetes.client, name).attribute_map.values())
    ours = set(PAIRS[name].__struct_encode_fields__)
    excepted = {field for (owner, field) in EXCEPTIONS if owner == name}
    assert theirs - ours == excepted


def test_the_walk_reaches_the_whole_pod():
    assert len(PAIRS) > 130
    assert {"V1Probe", "V1ISCSIVolumeSource", "V1ContainerStateTerminated", "V1PodAffinityTerm"} <= set(PAIRS)


def test_no_exception_is_listed_that_is_none():
    for owner, field in EXCEPTIONS:
        assert field in getattr(kubernetes.client, owner).attribute_map.values()
        assert field not in PAIRS[owner].__struct_encode_fields__


def filled(info, depth=0):
    """Return plain data with every field of a type set to something."""
    match info:
        case inspect.StructType(fields=fields):
            return {field.encode_name: filled(field.type, depth + 1) for field in fields}
        case inspect.VarTupleType(item_type=item):
            return [filled(item, depth + 1)]
        case inspect.DictType(value_type=value):
            return {"b": filled(value, depth + 1), "a": filled(value, depth + 1)}
        case inspect.UnionType(types=types):
            return filled(next(one for one in types if not isinstance(one, inspect.NoneType)), depth + 1)
        case inspect.Metadata(type=inner, extra=extra):
            special = {"time": "2024-05-01T12:00:00Z", "quantity": "250m"}
            return special.get((extra or {}).get("kubernetes"), filled(inner, depth + 1))
        case inspect.IntType():
            return 7
        case inspect.BoolType():
            return True
        case inspect.StrType():
            return "text"
        case inspect.BytesType():
            return "aGVsbG8="
        case _:
            raise AssertionError(info)


@pytest.mark.parametrize(("name", "ours"), sorted(ROOTS.items()))
def test_an_object_with_every_field_set_goes_in_and_out_unchanged(name, ours):
    raw = {**filled(inspect.type_info(ours)), "apiVersion": "v1", "kind": ours.__name__}
    value = msgspec.convert(raw, ours)
    assert json.loads(msgspec.json.encode(value)) == raw
    assert msgspec.json.decode(msgspec.json.encode(value), type=ours) == value
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=ours) == value
    assert isinstance(hash(value), int)


@pytest.mark.parametrize(("name", "ours"), sorted(ROOTS.items()))
def test_the_client_reads_what_we_write_and_loses_nothing(name, ours):
    raw = {**filled(inspect.type_info(ours)), "apiVersion": "v1", "kind": ours.__name__}
    text = msgspec.json.encode(msgspec.convert(raw, ours)).decode()
    client = kubernetes.client.ApiClient()
    if "content_type" in introspection.signature(client.deserialize).parameters:
        theirs = client.deserialize(text, name, "application/json")
    else:
        theirs = client.deserialize(type("Response", (), {"data": text}), name)
    back = json.loads(json.dumps(client.sanitize_for_serialization(theirs)).replace("+00:00", "Z"))
    assert known(back, raw) == raw


def known(back, raw):
    """Return `raw` as the client gave it back, fields newer than the client taken from `raw` itself."""
    if not isinstance(raw, dict):
        return [known(b, r) for b, r in zip(back, raw, strict=True)] if isinstance(raw, list) else back
    return {key: known(back[key], value) if key in back else value for key, value in raw.items()}


@pytest.mark.parametrize("ours", sorted(set(PAIRS.values()), key=lambda cls: cls.__name__))
def test_objects_are_frozen_and_written_without_what_is_unset(ours):
    config = ours.__struct_config__
    assert issubclass(ours, ApiObject)
    assert config.frozen
    assert config.omit_defaults


def test_a_new_container_status_says_what_kubernetes_always_says():
    assert json.loads(msgspec.json.encode(ContainerStatus(name="c"))) == {
        "name": "c",
        "image": "",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
    }
    assert json.loads(msgspec.json.encode(ContainerStateTerminated())) == {"exitCode": 0}
