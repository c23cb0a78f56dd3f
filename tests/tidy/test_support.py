"""The published table of what is honoured is the one that decides."""

from tests.tidy.support import PAGE, rendered


def test_the_page_says_what_the_table_says():
    assert PAGE.read_text() == rendered(), "run: python -m tests.tidy.support"
