"""Amounts compare by value, both ways of asking."""

from api.quantity import parse


def test_equal_amounts_are_not_unequal():
    assert parse("1") == parse("1000m")
    assert not parse("1") != parse("1000m")  # noqa: SIM202  # the other operator is what is tested
    assert parse("1") != parse("2")
