"""The port ``ledger``: what was remembered is recalled, whole and in order, or reported as damaged."""

import pytest

from api.errors import ExhaustedError, RejectedError
from api.ports.call import Done
from api.ports.ledger import Forget, Recall, RecallAll, Recalled, RecalledAll, Remember
from api.ports.podfiles import LEDGER_LIMIT_BYTES
from tests.conformance.host.ledger import LEDGERS


@pytest.fixture(params=sorted(LEDGERS))
def bench(request, tmp_path, monkeypatch):
    return LEDGERS[request.param](tmp_path, monkeypatch)


def ask(bench, call):
    return bench.port.perform(call, 5.0)


@pytest.mark.parametrize("durable", [False, True])
def test_what_was_remembered_is_recalled_by_a_new_driver(bench, durable):
    call = Remember(section="pods", key="uid-1", data=b"\x00state\xff", durable=durable)
    assert ask(bench, call) == Done()
    assert ask(bench, Recall(section="pods", key="uid-1")) == Recalled(data=b"\x00state\xff")
    bench.reopen()
    assert ask(bench, Recall(section="pods", key="uid-1")) == Recalled(data=b"\x00state\xff")


def test_the_last_writing_of_an_entry_is_what_counts(bench):
    for data in (b"long old state", b"", b"new"):
        ask(bench, Remember(section="pods", key="uid-1", data=data, durable=True))
        assert ask(bench, Recall(section="pods", key="uid-1")) == Recalled(data=data)


def test_what_was_never_remembered_is_missing_and_not_damaged(bench):
    assert ask(bench, Recall(section="pods", key="uid-1")) == Recalled()
    assert ask(bench, RecallAll(section="pods")) == RecalledAll()


def test_what_was_forgotten_is_missing(bench):
    ask(bench, Remember(section="pods", key="uid-1", data=b"x"))
    ask(bench, Remember(section="pods", key="uid-2", data=b"y"))
    assert ask(bench, Forget(section="pods", key="uid-1")) == Done()
    assert ask(bench, Forget(section="pods", key="uid-1")) == Done()
    assert ask(bench, Forget(section="nothing", key="here")) == Done()
    assert ask(bench, RecallAll(section="pods")) == RecalledAll(entries=(("uid-2", b"y"),))


def test_a_section_is_recalled_by_key_and_apart_from_others(bench):
    for key in ("b", "a-2", "A", "a.1"):
        ask(bench, Remember(section="pods", key=key, data=key.encode()))
    ask(bench, Remember(section="node", key="boot", data=b"id"))
    keys = [key for key, _ in ask(bench, RecallAll(section="pods")).entries]
    assert keys == ["A", "a-2", "a.1", "b"]
    assert ask(bench, RecallAll(section="node")) == RecalledAll(entries=(("boot", b"id"),))


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/b", "/etc", ".hidden", "a\0b", "a b", "x" * 201, "a.damaged-1", "a\n", "-x"],
)
def test_a_name_that_is_no_plain_file_name_is_refused(bench, name):
    for call in (
        Remember(section="pods", key=name, data=b"x"),
        Remember(section=name, key="key", data=b"x"),
        Recall(section="pods", key=name),
        Recall(section=name, key="key"),
        Forget(section="pods", key=name),
        Forget(section=name, key="key"),
        RecallAll(section=name),
    ):
        with pytest.raises(RejectedError):
            ask(bench, call)


def test_a_damaged_entry_is_reported_once_and_then_missing(bench):
    ask(bench, Remember(section="pods", key="uid-1", data=b"state"))
    bench.damage("pods", "uid-1")
    recalled = ask(bench, Recall(section="pods", key="uid-1"))
    assert recalled.data is None
    assert "uid-1" in recalled.damaged
    assert ask(bench, Recall(section="pods", key="uid-1")) == Recalled()


def test_a_damaged_entry_does_not_keep_the_others_from_being_recalled(bench):
    for key in ("a", "b", "c"):
        ask(bench, Remember(section="pods", key=key, data=key.encode()))
    bench.damage("pods", "b")
    recalled = ask(bench, RecallAll(section="pods"))
    assert recalled.entries == (("a", b"a"), ("c", b"c"))
    [(key, why)] = recalled.damaged
    assert (key, "b is damaged" in why) == ("b", True)
    assert ask(bench, RecallAll(section="pods")) == RecalledAll(entries=(("a", b"a"), ("c", b"c")))


def test_who_only_looks_leaves_a_damaged_entry_to_its_owner(bench):
    for key in ("a", "b"):
        ask(bench, Remember(section="pods", key=key, data=key.encode()))
    bench.damage("pods", "b")
    for _ in range(2):
        looked = ask(bench, RecallAll(section="pods", only_look=True))
        assert looked.entries == (("a", b"a"),)
        assert [key for key, _ in looked.damaged] == ["b"]
    assert "b" in ask(bench, Recall(section="pods", key="b")).damaged
    assert ask(bench, RecallAll(section="pods", only_look=True)) == RecalledAll(entries=(("a", b"a"),))


def test_a_damaged_entry_can_be_written_again(bench):
    ask(bench, Remember(section="pods", key="a", data=b"old"))
    bench.damage("pods", "a")
    ask(bench, Remember(section="pods", key="a", data=b"new"))
    assert ask(bench, Recall(section="pods", key="a")) == Recalled(data=b"new")


def test_a_full_disk_is_said_to_be_full_and_the_old_entry_stays(bench):
    ask(bench, Remember(section="pods", key="a", data=b"old"))
    bench.fill()
    with pytest.raises(ExhaustedError, match=r"(?i)no space left"):
        ask(bench, Remember(section="pods", key="a", data=b"new", durable=True))
    assert ask(bench, RecallAll(section="pods")) == RecalledAll(entries=(("a", b"old"),))


def test_an_entry_over_the_limit_is_refused(bench):
    with pytest.raises(RejectedError, match="limit"):
        ask(bench, Remember(section="pods", key="a", data=bytes(LEDGER_LIMIT_BYTES + 1)))
    ask(bench, Remember(section="pods", key="a", data=bytes(LEDGER_LIMIT_BYTES)))
    assert len(ask(bench, Recall(section="pods", key="a")).data) == LEDGER_LIMIT_BYTES
