"""Who is due when: against a plain list, and in how much of it a turn looks at."""

from hypothesis import given
from hypothesis import strategies as st

from actors.rules.agenda import Agenda
from api.ids import Uid

ENTRIES = st.tuples(st.floats(min_value=0, max_value=20, allow_nan=False), st.sampled_from("abcdef").map(Uid))


@given(st.lists(st.lists(ENTRIES, max_size=12), max_size=5), st.lists(st.floats(0, 25), max_size=4))
def test_who_is_due_is_told_once_and_in_order(turns, looks):
    agenda, left = Agenda(), set()
    for entries in turns:
        agenda = agenda.plus(entries)
        left |= set(entries)
    for now in sorted(looks):
        found, agenda = agenda.due(now)
        assert list(found) == sorted(entry for entry in left if entry[0] <= now)
        left -= set(found)
        assert agenda.first(lambda _entry: True)[0] == min((at for at, _ in left), default=None)


@given(st.lists(ENTRIES, max_size=20), st.sets(ENTRIES, max_size=10))
def test_the_first_entry_that_stands_counts_and_the_ones_before_it_are_left_out(entries, fallen):
    agenda = Agenda().plus(entries)
    standing = sorted(set(entries) - fallen)
    at, after = agenda.first(lambda entry: entry not in fallen)
    assert at == (standing[0][0] if standing else None)
    left, _ = after.due(100.0)
    assert [entry for entry in left if entry not in fallen] == standing
    assert not standing or left[0] == standing[0]


def test_an_agenda_that_is_used_no_more_is_not_changed():
    before = Agenda().plus([(1.0, Uid("a"))])
    before.plus([(1.5, Uid("b"))])
    before.due(5.0)
    before.first(lambda _entry: False)
    assert before == Agenda().plus([(1.0, Uid("a"))])


def test_a_turn_looks_at_no_entry_that_is_not_due():
    agenda = Agenda().plus((60.0 + number, Uid(str(number))) for number in range(5000))
    asked = []

    def stands(entry):
        asked.append(entry)
        return True

    found, after = agenda.due(61.0)
    assert [uid for _, uid in found] == ["0", "1"]
    assert after.first(stands)[0] == 62.0
    assert len(asked) == 1
