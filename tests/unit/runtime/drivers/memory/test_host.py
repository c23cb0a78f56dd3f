"""The machine in memory: a power cut, and what URLs answer."""

import pytest

from api.errors import DeniedError, UnavailableError
from api.ports.ledger import Forget, RecallAll, Remember
from api.ports.urls import FetchManifests
from runtime.drivers.memory.host import MemoryLedger, MemoryUrls


def test_a_power_cut_keeps_what_was_durable_and_may_lose_the_rest():
    seen = set()
    for seed in range(40):
        ledger = MemoryLedger(seed=seed)
        ledger.perform(Remember(section="p", key="safe", data=b"1", durable=True), 5)
        ledger.perform(Remember(section="p", key="changed", data=b"old", durable=True), 5)
        ledger.perform(Remember(section="p", key="changed", data=b"new"), 5)
        ledger.perform(Remember(section="p", key="fresh", data=b"2"), 5)
        ledger.perform(Remember(section="p", key="gone", data=b"3", durable=True), 5)
        ledger.perform(Forget(section="p", key="gone"), 5)
        ledger.perform(Remember(section="p", key="over", data=b"4", durable=True), 5)
        ledger.perform(Forget(section="p", key="over", durable=True), 5)
        ledger.lose_power()
        entries = dict(ledger.perform(RecallAll(section="p"), 5).entries)
        assert entries.pop("safe") == b"1"
        seen.add(tuple(sorted(entries.items())))
        ledger.lose_power()
        assert dict(ledger.perform(RecallAll(section="p"), 5).entries) == entries | {"safe": b"1"}
    assert len(seen) == 8


def test_what_was_written_back_survives_a_power_cut():
    for seed in range(10):
        ledger = MemoryLedger(seed=seed)
        ledger.perform(Remember(section="p", key="a", data=b"1"), 5)
        ledger.write_back()
        ledger.lose_power()
        assert ledger.perform(RecallAll(section="p"), 5).entries == (("a", b"1"),)


def test_a_url_answers_with_its_document_and_says_when_it_did_not_change():
    urls = MemoryUrls()
    urls.put("http://h/pods", b'{ "kind": "PodList" }')
    first = urls.perform(FetchManifests(url="http://h/pods"), 5)
    assert first.document == b'{"kind":"PodList"}'
    again = urls.perform(FetchManifests(url="http://h/pods", known_digest=first.digest), 5)
    assert (again.unchanged, again.document) == (True, None)


def test_an_empty_body_is_no_document_and_no_problem():
    urls = MemoryUrls()
    urls.put("http://h/pods", b"")
    fetched = urls.perform(FetchManifests(url="http://h/pods"), 5)
    assert (fetched.document, fetched.problems, fetched.unchanged) == (None, (), False)


@pytest.mark.parametrize(
    ("status", "kind"), [(500, UnavailableError), (404, UnavailableError), (401, DeniedError)]
)
def test_a_status_other_than_200_is_a_failure_that_names_it(status, kind):
    urls = MemoryUrls()
    urls.put("http://h/pods", b"{}", status=status)
    with pytest.raises(kind, match=str(status)):
        urls.perform(FetchManifests(url="http://h/pods"), 5)


def test_an_unreachable_url_is_unavailable_and_headers_stay_secret():
    call = FetchManifests(url="http://h/pods", headers=(("Authorization", "swordfish"),))
    with pytest.raises(UnavailableError) as failed:
        MemoryUrls().perform(call, 5)
    assert "swordfish" not in str(failed.value)
