"""YAML and JSON as Kubernetes reads them."""

import json
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.drivers.host.manifests.scalar import key_text, plain
from runtime.drivers.host.manifests.yamltext import DEPTH_LIMIT, read_document

SCALARS = {
    # no base 60, no dates, no versions
    "22:22": "22:22", "1:30:00": "1:30:00", "2024-01-01": "2024-01-01", "2024-01-01T10:00:00Z": "2024-01-01T10:00:00Z", "1.2.3": "1.2.3",
    # whole numbers
    "0": 0, "5": 5, "+5": 5, "-5": -5, "0644": 420, "0o644": 420, "0O17": 15, "0x1F": 31, "-0x10": -16, "0b101": 5, "-0b11": -3, "1_000": 1000, "00": 0, "007": 7,
    # floats, written as JSON does when they are whole
    "08": 8, "1e3": 1000, "1E3": 1000, "1.0": 1, ".5": 0.5, "5.": 5, "-.5": -0.5, "+1.5": 1.5, "1e-2": 0.01, "09.5": 9.5, "1_0.5": 10.5,
    # not numbers
    "0x": "0x", "0xg": "0xg", "0o9": "0o9", "1e": "1e", "1e999": "1e999", "--1": "--1", "+": "+", "-": "-", ".": ".", "1 2": "1 2", "._5": "._5", "250m": "250m", "1Gi": "1Gi",
    # words
    "yes": True, "Yes": True, "YES": True, "y": True, "Y": True, "on": True, "true": True, "True": True, "no": False, "n": False, "off": False, "Off": False, "FALSE": False,
    "yEs": "yEs", "oN": "oN", "tRUE": "tRUE", "null": None, "Null": None, "~": None, "": None, "nUll": "nUll", "none": "none",
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SCALARS.items(), ids=[repr(text) for text in SCALARS])
def test_a_plain_scalar_means_what_it_means_to_kubernetes(text, value):
    assert plain(text) == value
    assert type(plain(text)) is type(value)


def read(text):
    """Return the data of a good document."""
    document = read_document(text.encode() if isinstance(text, str) else text, "web.yaml")
    assert document.problems == ()
    return json.loads(document.json)


def problem(text):
    """Return place and message of the one problem of a bad document."""
    document = read_document(text.encode() if isinstance(text, str) else text, "web.yaml")
    assert document.json is None
    (only,) = document.problems
    return only.where, only.message


def test_quoted_block_and_tagged_scalars_keep_their_meaning():
    text = 'a: "yes"\nb: \'0644\'\nc: !!str 5\nd: !!int "5"\ne: |\n  yes\nf: !!float 1\ng: !!binary aGk=\nh: !own 5\n'
    assert read(text) == {
        "a": "yes",
        "b": "0644",
        "c": "5",
        "d": 5,
        "e": "yes\n",
        "f": 1,
        "g": "hi",
        "h": "5",
    }


def test_keys_become_texts():
    assert read("1: a\ntrue: b\n1.5: c\n0x10: d\n22:22: e\n") == {
        "1": "a",
        "true": "b",
        "1.5": "c",
        "16": "d",
        "22:22": "e",
    }
    assert read("y: 1\n") == {"true": 1}
    assert key_text(None) is None


def test_anchors_and_merges_are_resolved_and_what_is_written_wins():
    text = "base: &b {p: 1, q: 2}\nuse:\n  <<: *b\n  q: 3\nmany:\n  <<: [{p: 9}, *b]\nsame: *b\n'<<': text\n"
    assert read(text) == {
        "base": {"p": 1, "q": 2},
        "use": {"p": 1, "q": 3},
        "many": {"p": 9, "q": 2},
        "same": {"p": 1, "q": 2},
        "<<": "text",
    }


GOOD = {
    "\ufeffa: 1": {"a": 1},
    "---\na: 1\n": {"a": 1},
    "---\na: 1\n---\n": {"a": 1},
    "# text\n---\n# text\n---\na: 1\n...\n": {"a": 1},
    "%YAML 1.2\n---\na: 1": {"a": 1},
    "a: 1\r\nb: 2\r\n": {"a": 1, "b": 2},
    "{a: 1, b: [x]}": {"a": 1, "b": ["x"]},
    '{"a": 1e3, "b": 1.0, "c": "\\ud83d\\ude00", "d": "\\/"}': {"a": 1000, "b": 1, "c": "😀", "d": "/"},
    '{\n\t"a": 1\n}': {"a": 1},
    "a: 123456789012345678901234567890": {"a": 123456789012345678901234567890},
    "a:\n- b\n-\n": {"a": ["b", None]},
}


@pytest.mark.parametrize(("text", "value"), GOOD.items(), ids=[repr(text) for text in GOOD])
def test_a_document_is_read(text, value):
    assert read(text) == value


BAD = {
    "": ("web.yaml", "the file is empty"),
    "  \n\n": ("web.yaml", "the file is empty"),
    "# only\n": ("web.yaml", "only comments"),
    "---\n---\n": ("web.yaml", "only comments"),
    "a: 1\n---\nb: 1\n": ("web.yaml:2", "must be one document, not 2 (lines 1, 2)"),
    "hello": ("web.yaml", "must be an object such as a Pod, not a string"),
    "- a\n": ("web.yaml", "must be an object such as a Pod, not a list"),
    "[1]": ("web.yaml", "must be an object such as a Pod, not a list"),
    "a:\n  b: 1\n\tc: 1\n": ("web.yaml:3", "a tab indents this line; YAML allows only spaces"),
    "a: 1\n b: 2\n": ("web.yaml:2", "not valid YAML"),
    "a: [1\nb: 2\n": ("web.yaml:2", "not valid YAML"),
    'a: "x\n': ("web.yaml:2", "not valid YAML"),
    "a: b: c\n": ("web.yaml:1", "not valid YAML"),
    "a: *b\n": ("web.yaml:1", "a string that begins with * needs quotes"),
    "a: &a [*a]\n": ("web.yaml:1", "an alias refers to an object that contains it"),
    "a: .inf\n": ("web.yaml:1", "is not a JSON number"),
    "a: .nan\n": ("web.yaml:1", "is not a JSON number"),
    "~: a\n": ("web.yaml:1", "a key must be a string, not nothing"),
    "? [a]\n: b\n": ("web.yaml:1", "a key must be a string, not a list or an object"),
    "{{ name }}: b\n": ("web.yaml:1", "a key must be a string, not a list or an object"),
    "a: !!int x\n": ("web.yaml:1", "does not fit its tag !!int"),
    "a: !!binary '*'\n": ("web.yaml:1", "!!binary must be base64"),
    "a:\n  <<: 5\n": ("web.yaml:2", "<< takes an object"),
    '{"a": 1': ("web.yaml:1", "not valid JSON"),
    '{\n "a": 1,\n "b" 2\n}': ("web.yaml:3", "not valid JSON"),
    '{"a": 1, "a": 2}': ("web.yaml", "duplicate key 'a'"),
    '{"a": NaN}': ("web.yaml", "NaN is not a JSON number"),
    '{"a": 1e999}': ("web.yaml", "larger than a JSON number"),
    '{"a": "\\ud83d"}': ("web.yaml", "half a character"),
    '{"a": ' + "9" * 5000 + "}": ("web.yaml", "more digits"),
}


@pytest.mark.parametrize(("text", "told"), BAD.items(), ids=[repr(text[:30]) for text in BAD])
def test_what_is_no_document_is_told_with_its_line(text, told):
    where, message = problem(text)
    assert (where, told[1] in message) == (told[0], True), message


def test_bytes_that_are_no_text_are_told_with_their_line():
    assert problem(b"a: 1\nb: \xff\n") == ("web.yaml:2", "byte 0xff is not UTF-8; save the file as UTF-8")
    assert problem(b"a: 1\n\0") == (
        "web.yaml:2",
        "the file is binary (it holds a NUL byte); a manifest is UTF-8 text",
    )


def test_every_duplicate_key_is_told_with_its_line():
    text = "a: 1\nb:\n  c: 1\n  c: 2\na: 2\n1: x\n'1': y\n"
    document = read_document(text.encode(), "web.yaml")
    assert [(one.where, one.message.split(":")[0]) for one in document.problems] == [
        ("web.yaml:4", "duplicate key 'c'"),
        ("web.yaml:5", "duplicate key 'a'"),
        ("web.yaml:7", "duplicate key '1'"),
    ]


def test_many_problems_are_counted_not_all_told():
    text = "a: 1\n" * 100
    problems = read_document(text.encode(), "web.yaml").problems
    assert len(problems) == 21
    assert problems[-1].message == "and 79 more problems"


BOMBS = {
    "doubling": "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)),
    "one long text": "a: &a '" + "x" * 100_000 + "'\nb: [" + "*a, " * 1000 + "]\n",
    "merges": "a: &a {" + ", ".join(f"k{n}: 1" for n in range(5000)) + "}\nb:\n" + "- <<: *a\n" * 5000,
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_aliases_do_not_explode(name):
    assert "aliases make the document too large" in problem(BOMBS[name])[1]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "a: " + "{a: " * 500,
        "\n".join(" " * n + "a:" for n in range(300)),
        '{"a":' * 200 + "1" + "}" * 200,
    ],
)
def test_nesting_is_bounded(text):
    assert f"deeper than {DEPTH_LIMIT} levels" in problem(text)[1]


def test_a_manifest_of_the_largest_size_is_read_in_reasonable_time():
    text = ("apiVersion: v1\nitems:\n" + "- name: abc\n  value: 'x'\n  n: 5\n" * 32_000).encode()
    started = time.process_time()
    document = read_document(text, "web.yaml")
    assert document.problems == ()
    assert time.process_time() - started < 5


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_any_json_object_is_read_as_itself(value):
    assert read(msgspec.json.encode(value)) == value


@settings(max_examples=200)
@given(st.text() | st.text("{}[]:-&*!|>'\"#%@, \n\tab01<?"))
def test_any_text_is_read_or_told_never_raised(text):
    document = read_document(text.encode("utf-8", "replace"), "x")
    assert (document.json is None) == bool(document.problems)


@settings(max_examples=100)
@given(st.binary())
def test_any_bytes_are_read_or_told_never_raised(data):
    document = read_document(data, "x")
    assert (document.json is None) == bool(document.problems)
