"""No message repeats more than the beginning of what it found, whatever is wrong and wherever it stands."""

import copy
from types import NoneType, UnionType
from typing import Annotated, Union, get_args, get_origin

import msgspec
import pytest

from actors.sources.manifest import FILE, Origin, read_pods
from api import duration
from api.config.settings import Flags, Machine, configure
from api.kube import quantity
from api.kube.objects.kubeletconfiguration import KubeletConfiguration
from api.kube.objects.pod import Pod
from api.kube.scheme import KUBELET_V1BETA1, SCHEME
from runtime.drivers.host.manifests.yamltext import read_document

MESSAGE = 700
"""Characters of the longest message: those that list all that is allowed are long, and repeat little of what was found."""
LONG = "x" * 20_000
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "a", "image": "b"}]},
}
CONFIGURATION = {"apiVersion": KUBELET_V1BETA1, "kind": "KubeletConfiguration"}
MACHINE = Machine(is_root=True, hostname="node", state_home="/s", working_directory="/w")
VALUES = {
    "a long text": LONG,
    "a long text of blanks": " \n" * 10_000,
    "a long path": "/.." * 10_000,
    "a long amount": "9" * 20_000 + "Gi",
    "a long reference": f"metadata.labels['{LONG}']",
    "a long number": 10**390,
    "a very long number": -(10**4200),
    "a list of long texts": [LONG, LONG, f"b{LONG}", {LONG: LONG}],
    "a list of many": ["x"] * 100,
    "an object with a long name": {LONG: LONG},
    "an object of long amounts": {"cpu": LONG, LONG: "1", "pids.available": LONG, f"hugepages-{LONG}": LONG},
    "an object of many": {f"x{number}": LONG for number in range(20)},
}  # fmt: skip


def places(hint, above=()):
    """Yield a maker of raw data for each place in a type: given what stands there, it returns the whole."""
    kind, args = get_origin(hint), get_args(hint)
    yield lambda value: value
    if kind is Annotated:
        yield from places(args[0], above)
    elif kind in (Union, UnionType):
        for member in args:
            if member is not NoneType:
                yield from places(member, above)
    elif kind is tuple:
        for place in places(args[0], above):
            yield lambda value, place=place: [place(value), place(value)]
    elif args:
        for place in places(args[1], above):
            yield lambda value, place=place: {"name": place(value)}
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in above:
        for field in msgspec.structs.fields(hint):
            for place in places(field.type, (*above, hint)):
                yield lambda value, name=field.encode_name, place=place: {name: place(value)}


def over(base, raw):
    """Return `raw` laid over `base`, so that only what is wrong is wrong."""
    if isinstance(base, dict) and isinstance(raw, dict):
        return {**base, **{key: over(base.get(key), value) for key, value in raw.items()}}
    if isinstance(base, list) and isinstance(raw, list) and base and raw and isinstance(raw[0], dict):
        return [over(base[0], one) for one in raw]
    return raw


def check(problems):
    for problem in problems:
        if max(len(problem.where), len(problem.message)) > MESSAGE:
            pytest.fail(f"{problem.where[:300]}: {problem.message[:300]}")


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_no_problem_of_a_pod_repeats_a_long_value(value):
    found = 0
    for place in places(Pod):
        raw = over(copy.deepcopy(POD), place(value))
        decoded = SCHEME.read(raw, "x.yaml")
        check((*decoded.located(), *decoded.warnings()))
        found += bool(decoded.problems)
    assert found > 100


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_no_problem_of_a_static_pod_repeats_a_long_value(value):
    origin = Origin(source=FILE, where="/x.yaml", shown="x.yaml", node_name="node")
    documents = [{**POD, field: value} for field in ("apiVersion", "kind", "metadata", "spec", "items", LONG)]
    documents += [
        {"apiVersion": "v1", "kind": "PodList", "items": value},
        {"apiVersion": "v1", "kind": "List", "items": [value, POD]},
    ]
    documents += [over(copy.deepcopy(POD), {"metadata": {"uid": value, "name": value, "namespace": value}})]
    documents += [
        over(
            copy.deepcopy(POD),
            {"spec": {"serviceAccountName": value, "hostname": value, "volumes": [{"name": value}]}},
        )
    ]
    for document in documents:
        read = read_document(msgspec.json.encode(document), "x.yaml")
        check(read.problems)
        if read.json is not None:
            pods = read_pods(read.json, origin)
            check((*pods.problems, *pods.warnings))


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_no_problem_of_a_configuration_repeats_a_long_value(value):
    found = 0
    for place in places(KubeletConfiguration):
        raw = over(CONFIGURATION, place(value))
        outcome = configure(msgspec.json.encode(raw), Flags(config="/c.yaml"), MACHINE)
        check((*outcome.problems, *outcome.warnings))
        found += bool(outcome.problems)
    assert found > 50 or isinstance(value, int)


def test_no_problem_of_a_flag_repeats_a_long_value():
    texts = {
        field.name: LONG
        for field in msgspec.structs.fields(Flags)
        if field.type in (str, str | None) and field.name != "config"
    }
    for name in texts:
        check(configure(None, Flags(**{name: f"{LONG}={LONG}:{LONG}"}), MACHINE).problems)
    outcome = configure(None, Flags(**texts, manifest_url_header=(LONG,)), MACHINE)
    assert outcome.problems
    check(outcome.problems)


DOCUMENTS = [
    f"{{{LONG}: 1",
    f'{{"{LONG}": 1, "{LONG}": 2}}',
    f"{LONG}: 1\n{LONG}: 2\n",
    f"a: !{LONG} b",
    f"a: !!{LONG} b",
    f"a: !!int {LONG}",
    f"a: *{LONG}",
    f"a: &{LONG} b\nc: *{LONG}x",
    f'a: "{LONG}',
    f"%{LONG}\n---\na: b",
    f"a: 1{'0' * 20_000}.inf",
    f"a: .nan{LONG}",
    f"[{'1' * 5000}]",
    f'{{"a": {"1" * 5000}}}',
    f'{{"a": 1e{"9" * 5000}}}',
    f"? {{{LONG}: 1}}\n: 2",
    f"<<: {LONG}",
    f"a: |{LONG}\n b",
    "---\na: b\n" * 5000,
    f"a: b\n\t{LONG}",
    f"a: {LONG}: b",
    f"@{LONG}",
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda text: text[:12])
def test_no_problem_of_a_document_repeats_a_long_value(document):
    read = read_document(document.encode(), "x.yaml")
    check(read.problems)
    if read.json is not None:
        decoded = SCHEME.read(read.json, "x.yaml")
        check((*decoded.located(), *decoded.warnings()))


@pytest.mark.parametrize("text", [LONG, "9" * 200 + "hx", "9" * 600 + "x", "1" * 20_000])
def test_no_error_of_a_duration_or_an_amount_repeats_a_long_value(text):
    for parse, kind in ((duration.parse, duration.DurationError), (quantity.parse, quantity.QuantityError)):
        with pytest.raises(kind) as caught:
            parse(text)
        assert len(str(caught.value)) < 250
