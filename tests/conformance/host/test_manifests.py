"""The port ``manifests`` and its changes: a folder or a file, each document as compact JSON or with its problem."""

import time
from hashlib import sha256
from threading import Event

import pytest

from api.ports.manifests import MANIFEST_LIMIT_BYTES, FileSettled, ManifestListing, ReadManifests
from tests.conformance.host.manifests import MANIFESTS


@pytest.fixture(params=sorted(MANIFESTS))
def bench(request, tmp_path):
    return MANIFESTS[request.param](tmp_path / "manifests")


def read(bench, path=None):
    return bench.port.perform(ReadManifests(path=str(path or bench.folder)), 5.0)


def heard(condition):
    ends_at = time.monotonic() + 5
    while not condition() and time.monotonic() < ends_at:
        Event().wait(0.005)
    return condition()


def test_a_path_that_does_not_exist_is_said_to_be_missing(bench):
    assert read(bench) == ManifestListing(missing=True)


def test_files_are_read_by_name_as_compact_json_with_the_digest_of_their_content(bench):
    paths = [bench.put(name, b'{ "kind" : "Pod" }') for name in ("b.json", "a.yaml", "c.yml")]
    listing = read(bench)
    assert [f.path for f in listing.files] == sorted(paths)
    for file in listing.files:
        assert file.document == b'{"kind":"Pod"}'
        assert file.digest == sha256(b'{ "kind" : "Pod" }').hexdigest()
        assert file.problems == ()


def test_one_file_can_be_the_whole_path(bench):
    path = bench.put("a.json", b'{"kind":"Pod"}')
    bench.put("b.json", b'{"kind":"Pod"}')
    assert [f.path for f in read(bench, path).files] == [path]


def test_a_file_is_read_whatever_its_suffix_and_backups_are_ignored_and_said_to_be(bench):
    for name in ("a.manifest", "b", "c.json"):
        bench.put(name, b'{"kind":"Pod"}')
    for name in (".c.json.swp", "4913", "c.json~"):
        bench.put(name, b'{"kind":"Pod"}')
    listing = read(bench)
    assert [file.path.rpartition("/")[2] for file in listing.files] == ["a.manifest", "b", "c.json"]
    assert {file.document for file in listing.files} == {b'{"kind":"Pod"}'}
    assert sorted(p.where.rpartition("/")[2] for p in listing.ignored) == [".c.json.swp", "4913", "c.json~"]


def test_a_file_that_cannot_be_decoded_is_a_problem_beside_the_others(bench):
    bench.put("a.json", b'{"kind": ')
    bench.put("b.json", b'{"kind":"Pod"}')
    broken, sound = read(bench).files
    assert broken.document is None
    assert "a.json" in broken.problems[0].where
    assert sound.document is not None


def test_a_file_over_the_limit_is_refused_unread(bench):
    bench.put("a.json", b'"' + b"x" * MANIFEST_LIMIT_BYTES + b'"')
    (file,) = read(bench).files
    assert file.document is None
    assert str(MANIFEST_LIMIT_BYTES) in file.problems[0].message


def test_a_removed_file_is_no_longer_read(bench):
    bench.put("a.json", b"{}")
    bench.remove("a.json")
    listing = read(bench)
    assert (listing.files, listing.missing) == ((), False)


def test_each_change_brings_the_path_that_settled(bench):
    path = bench.put("a.json", b"{}")
    items = []
    close = bench.changes.open(items.append, lambda _failure: None)
    try:
        bench.put("a.json", b'{"kind":"Pod"}')
        assert heard(lambda: FileSettled(path=path) in items)
        items.clear()
        bench.remove("a.json")
        assert heard(lambda: FileSettled(path=path) in items)
    finally:
        close()
        close()
