"""Rows in turn: one that hangs costs its own row only."""

import threading

import pytest

from api.errors import DeniedError, ExhaustedError, TimedOutError
from runtime.drivers.host.usage import turn
from runtime.drivers.host.usage.turn import RowReader
from tests.harness.wait import until

ROW_S, ALL_S = 0.2, 60.0


@pytest.fixture
def gate():
    opened = threading.Event()
    yield opened
    opened.set()


def hanging(gate):
    def read():
        gate.wait(60)
        return "late"

    return read


def test_all_rows_are_read_in_order():
    turns = RowReader("rows")
    assert turns.run([(str(n), lambda n=n: n) for n in range(100)], ROW_S, ALL_S) == list(range(100))
    assert turns.run([], ROW_S, ALL_S) == []


def test_a_row_that_hangs_costs_its_own_row_only(gate):
    turns = RowReader("rows")
    first, hung, last = turns.run([("a", lambda: 1), ("b", hanging(gate)), ("c", lambda: 3)], ROW_S, ALL_S)
    assert (first, last) == (1, 3)
    assert isinstance(hung, TimedOutError)
    assert turns.hung == ("b",)


def test_what_hangs_is_not_tried_again_until_it_came_back(gate):
    turns = RowReader("rows")
    turns.run([("b", hanging(gate))], ROW_S, ALL_S)
    threads = threading.active_count()
    for _ in range(5):
        [again] = turns.run([("b", lambda: "new")], ROW_S, ALL_S)
        assert "still hangs" in str(again)
    assert threading.active_count() == threads
    gate.set()
    until(lambda: turns.hung == (), "the hung row has come back")
    assert turns.run([("b", lambda: "new")], ROW_S, ALL_S) == ["new"]


def test_several_may_hang_and_then_no_more_are_begun(gate, monkeypatch):
    monkeypatch.setattr(turn, "HUNG_LIMIT", 2)
    turns = RowReader("rows")
    jobs = [(name, hanging(gate)) for name in "abcd"]
    results = turns.run(jobs, 0.05, ALL_S)
    assert [type(result) for result in results] == [TimedOutError] * 2 + [ExhaustedError] * 2


def test_what_comes_after_the_end_is_named_too(gate):
    turns = RowReader("rows")
    results = turns.run([("a", hanging(gate)), ("b", lambda: 1)], 60.0, 0.1)
    assert [type(result) for result in results] == [TimedOutError, TimedOutError]


def test_an_error_is_its_rows_result():
    def refuse():
        raise DeniedError("not yours")

    results = RowReader("rows").run([("a", refuse), ("b", lambda: 1)], ROW_S, ALL_S)
    assert isinstance(results[0], DeniedError)
    assert results[1] == 1
