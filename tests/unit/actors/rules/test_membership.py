"""A turn changes copies: what the turn before left stays as it was."""

from types import SimpleNamespace

from actors.rules.membership import sort_member
from api.ids import Uid

QUESTIONS = (("even", lambda one: one % 2 == 0), ("big", lambda one: one > 9))


def test_a_member_goes_where_its_entry_belongs_and_the_last_turn_keeps_its_sets():
    kept = SimpleNamespace(even={Uid("a"): None}, big={})
    members = {"even": kept.even, "big": kept.big}
    sort_member(members, kept, QUESTIONS, Uid("a"), 11)
    assert (members, kept.even, kept.big) == ({"even": {}, "big": {"a": None}}, {"a": None}, {})
    copied = members["big"]
    sort_member(members, kept, QUESTIONS, Uid("b"), 12)
    assert members == {"even": {"b": None}, "big": {"a": None, "b": None}}
    assert members["big"] is copied, "one copy a turn is enough"
    sort_member(members, kept, QUESTIONS, Uid("a"), None)
    assert members == {"even": {"b": None}, "big": {"b": None}}


def test_what_does_not_change_is_not_copied():
    kept = SimpleNamespace(even={Uid("a"): None}, big={})
    members = {"even": kept.even, "big": kept.big}
    sort_member(members, kept, QUESTIONS, Uid("a"), 2)
    assert members["even"] is kept.even
    assert members["big"] is kept.big
