"""Answers kept for the very same object."""

import msgspec
import pytest

from actors.rules.identity import kept_for_last


class Thing(msgspec.Struct, frozen=True):
    number: int


def asked():
    """Return a function that counts how often it really answers, and the count."""
    calls = []

    @kept_for_last
    def double(thing, factor):
        calls.append((thing, factor))
        return thing.number * factor

    return double, calls


def test_the_same_object_is_asked_about_once():
    double, calls = asked()
    thing = Thing(3)
    assert [double(thing, 2), double(thing, 2)] == [6, 6]
    assert len(calls) == 1


def test_an_equal_object_and_another_argument_are_asked_about_anew():
    double, calls = asked()
    thing = Thing(3)
    assert [double(thing, 2), double(Thing(3), 2), double(thing, 4), double(thing, 2)] == [6, 6, 12, 6]
    assert len(calls) == 4


def test_a_failure_is_not_kept():
    failures = iter((ValueError("no"),))

    @kept_for_last
    def once_bad(thing):
        for failure in failures:
            raise failure
        return thing.number

    thing = Thing(1)
    with pytest.raises(ValueError, match="no"):
        once_bad(thing)
    assert once_bad(thing) == 1
