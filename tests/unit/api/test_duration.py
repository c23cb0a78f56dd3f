"""Durations as Go reads and writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.duration import DurationError, parse, parse_seconds, write

TEXTS = {
    "0": "0s", "0s": "0s", "-0": "0s", "+5s": "5s", "20s": "20s", "90s": "1m30s", "1m30s": "1m30s", "2m40s": "2m40s", "1h": "1h0m0s", "36h": "36h0m0s",
    "300ms": "300ms", "1.5s": "1.5s", ".5s": "500ms", "1.s": "1s", "1500us": "1.5ms", "1µs": "1µs", "1μs": "1µs", "15ns": "15ns",
    "-1.5h": "-1h30m0s", "1h1ns": "1h0m0.000000001s", "0.000000001s": "1ns", "1s1s": "2s",
}  # fmt: skip


@pytest.mark.parametrize(("text", "written"), TEXTS.items())
def test_a_duration_is_written_as_go_writes_it(text, written):
    assert write(parse(text)) == written


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1x", "1 s", "-", ".s", "1m 30s", "1d", "1e3s", "300" * 100 + "s", "300000h" * 9]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(DurationError):
        parse(text)


def test_seconds_are_exact_for_whole_ones():
    assert parse_seconds("2m40s") == 160
    assert parse_seconds("300ms") == 0.3


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_every_duration_survives_being_written(nanoseconds):
    assert parse(write(nanoseconds)) == nanoseconds
