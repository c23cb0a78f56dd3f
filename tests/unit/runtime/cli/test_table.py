"""Tables: aligned, never wider than the terminal, nothing that a terminal would obey."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cli.table import Column, Screen, TableCell, age, clean, columns_of, cut, size, table

COLUMNS = (Column("NAME", least=6), Column("N", right=True), Column("WHY", least=5))


@given(
    st.lists(
        st.tuples(st.text(max_size=30), st.integers(0, 10**6).map(str), st.text(max_size=60)), max_size=6
    ),
    st.integers(1, 100),
)
def test_no_line_is_wider_than_the_terminal(rows, width):
    out = table(COLUMNS, list(rows), Screen(width=width))
    assert all(columns_of(line) <= width for line in out.split("\n"))
    assert out.count("\n") == len(rows) + 1


def test_piped_tables_cut_nothing_and_align_their_columns():
    out = table(COLUMNS, [("a" * 90, "1", "b" * 200), ("c", "234", "d")], Screen()).splitlines()
    assert out[1] == f"{'a' * 90}    1  {'b' * 200}"
    assert out[2] == f"c{' ' * 89}  234  d"


def test_the_widest_column_shrinks_first_and_shows_that_something_is_missing():
    out = table(COLUMNS, [("name", "1", "x" * 80)], Screen(width=40)).splitlines()
    assert out[1] == f"name  1  {'x' * 30}…"


def test_colour_does_not_change_the_alignment():
    row = (TableCell("abc", "bad"), "1", TableCell("why", "good"))
    plain = table(COLUMNS, [row], Screen(width=80))
    painted = table(COLUMNS, [row], Screen(width=80, colour=True))
    assert "\x1b[31mabc\x1b[0m" in painted
    assert "\x1b" not in plain
    assert (
        painted.replace("\x1b[31m", "").replace("\x1b[32m", "").replace("\x1b[1m", "").replace("\x1b[0m", "")
        == plain
    )


def test_control_characters_do_not_reach_the_terminal():
    assert clean("a\x1b[2Jb\nc\x00") == "a\N{REPLACEMENT CHARACTER}[2Jb c\N{REPLACEMENT CHARACTER}"


def test_wide_characters_count_as_two_columns():
    assert columns_of("日本") == 4
    assert columns_of(cut("日本語", 5)) <= 5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0s"),
        (0.0042, "4ms"),
        (59.9, "59s"),
        (119, "119s"),
        (312, "5m12s"),
        (600, "10m"),
        (3600, "1h"),
        (7530, "2h5m"),
        (9 * 3600 + 60, "9h"),
        (90000, "1d1h"),
        (40 * 86400, "40d"),
        (-5, "0s"),
    ],
)
def test_ages_read_as_people_say_them(seconds, text):
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0B"), (912, "912B"), (1434, "1.4KiB"), (187_654_321, "179MiB")]
)
def test_sizes_read_as_people_say_them(count, text):
    assert size(count) == text


def test_optional_columns_go_before_the_others_are_lost():
    columns = (Column("NAME"), Column("CLASS", optional=True), Column("WHY", least=4))
    assert (
        table(columns, [("pod-name", "class-name", "because")], Screen(width=16))
        == "NAME      WHY\npod-name  becau…\n"
    )
