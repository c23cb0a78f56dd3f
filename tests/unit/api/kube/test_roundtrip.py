"""Round trips over randomly filled objects: what goes in comes out, by every way it can take."""

import string
from functools import cache

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from api.kube.objects.event import Event
from api.kube.objects.kubeletconfiguration import KubeletConfiguration
from api.kube.objects.pod import Pod
from api.kube.poddefault import default_pod
from api.kube.scheme import SCHEME
from api.kube.shape import fit
from api.kube.validation import static_pod_problems, validate_pod
from runtime.drivers.host.manifests.yamltext import read_document

TEXT = st.text(max_size=6) | st.sampled_from(
    ["yes", "0644", "22:22", "1e3", "~", "a\nb", " x ", "{", "- a", "#", "<<"]
)
KEY = st.text(string.ascii_letters + "./-_", min_size=1, max_size=5) | st.sampled_from(["y", "1", "null"])
SPECIAL = {
    "quantity": st.sampled_from(["0", "250m", "64Mi", "1.5", "1e3", "-1"]),
    "time": st.sampled_from(["2024-05-01T12:00:00Z", "2024-05-01T12:00:00.123456+02:00"]),
    "duration": st.sampled_from(["0s", "20s", "1m30s", "300ms"]),
    "secret": TEXT,
}


def values(info):
    """Return a strategy for plain data of a type."""
    match info:
        case inspect.StructType():
            return st.deferred(lambda: objects(info.cls))
        case inspect.VarTupleType(item_type=item):
            return st.lists(values(item), max_size=2)
        case inspect.DictType(value_type=value):
            return st.dictionaries(KEY, values(value), max_size=2)
        case inspect.UnionType(types=types):
            return st.one_of([values(one) for one in types if not isinstance(one, inspect.NoneType)])
        case inspect.Metadata(extra=extra, type=inner):
            kind = (extra or {}).get("kubernetes")
            return SPECIAL[kind] if kind in SPECIAL else values(inner)
        case inspect.IntType():
            return st.integers(-(2**63), 2**63 - 1)
        case inspect.FloatType():
            return st.floats(0, 1)
        case inspect.BoolType():
            return st.booleans()
        case inspect.StrType():
            return TEXT
        case _:
            raise AssertionError(info)


@cache
def objects(cls):
    """Return a strategy for a type with a few of its fields filled."""
    fields = {field.encode_name: values(field.type) for field in inspect.type_info(cls).fields}
    fields.pop("apiVersion", None)
    return st.sets(st.sampled_from(sorted(fields)), max_size=4).flatmap(
        lambda names: st.fixed_dictionaries({name: fields[name] for name in sorted(names)})
    )


def named(cls, api_version="v1"):
    """Return a strategy for whole objects."""
    return objects(cls).map(lambda raw: {**raw, "apiVersion": api_version, "kind": cls.__name__})


@settings(max_examples=150)
@given(named(Pod))
def test_a_pod_survives_every_codec_unchanged(raw):
    fitted = fit(raw, Pod)
    assert not fitted.problems
    assert not fitted.unknown
    pod = msgspec.convert(fitted.value, Pod)
    assert msgspec.json.decode(msgspec.json.encode(pod), type=Pod) == pod
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(pod), type=Pod) == pod
    assert SCHEME.decode(SCHEME.encode(pod), "x").object == pod
    assert read_document(msgspec.json.encode(raw), "x").json == msgspec.json.encode(raw)


@settings(max_examples=100)
@given(named(Pod))
def test_equal_pods_hash_and_encode_alike_whatever_the_order_of_their_keys(raw):
    pod = msgspec.convert(raw, Pod)
    other = msgspec.convert(turned(raw), Pod)
    assert pod == other
    assert hash(pod) == hash(other)
    assert msgspec.json.encode(pod) == msgspec.json.encode(other)


def turned(value):
    """Return plain data with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=150)
@given(named(Pod))
def test_defaults_are_idempotent_and_rules_never_fail_on_any_pod(raw):
    pod = default_pod(msgspec.convert(raw, Pod))
    assert default_pod(pod) == pod
    paths = [problem.path for problem in (*validate_pod(pod), *static_pod_problems(pod))]
    assert all(path.startswith(("metadata.", "spec.")) for path in paths)


@settings(max_examples=60)
@given(named(Event))
def test_an_event_survives_the_way_through_its_other_version(raw):
    event = SCHEME.decode(raw, "x").object
    assert SCHEME.decode(SCHEME.encode(event, api_version="events.k8s.io/v1"), "x").object == event


@settings(max_examples=60)
@given(named(KubeletConfiguration, "kubelet.config.k8s.io/v1beta1"))
def test_a_configuration_survives_and_its_rules_never_fail(raw):
    decoded = SCHEME.decode(raw, "x")
    assert not decoded.problems
    assert SCHEME.decode(SCHEME.encode(decoded.object), "x").object == decoded.object
    SCHEME.read(raw, "x")


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | TEXT
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from([*Pod.__struct_encode_fields__, "Spec", "x"]), PLAIN))
def test_whatever_stands_in_a_document_is_fitted_or_told_never_raised(raw):
    decoded = SCHEME.read({"apiVersion": "v1", "kind": "Pod", **raw}, "x")
    assert (decoded.object is None) == bool(decoded.problems)
