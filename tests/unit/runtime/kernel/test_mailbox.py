"""The mailbox as data: lanes, bounds, conflation, and accounts that always balance."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel.mailbox import Mailbox, Offer
from tests.harness.kernel import Level, Note

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("note"), st.integers(0, 9)),
        st.tuples(st.just("level"), st.sampled_from(["a", "b", "c"])),
        st.tuples(st.just("post"), st.booleans()),
        st.tuples(st.just("command"), st.none()),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("hold"), st.booleans()),
    ),
    max_size=60,
)


def really_pending(box):
    return len(box.control) + len(box.ordinary)


def apply(box, action, number):
    """Do one thing to a mailbox; return what was taken."""
    match action:
        case ("note", _):
            box.offer(Note(n=number), None, number)
        case ("level", key):
            box.offer(Level(key=key, n=number), key, number)
        case ("post", ordered):
            box.post(Note(n=number), number, ordered=ordered)
        case ("command", _):
            box.command(lambda: None)
        case ("take", times):
            return [box.take() for _ in range(times)]
        case ("hold", held):
            box.hold() if held else box.release()
    return []


def opened(limit=256):
    box = Mailbox(limit)
    box.release()
    return box


@given(ACTIONS, st.integers(0, 5), st.booleans())
def test_accounts_balance_whatever_happens(actions, limit, gone):
    box = opened(limit)
    for number, action in enumerate(actions):
        apply(box, action, number)
        accounts = box.accounts()
        assert accounts.balanced
        assert accounts.pending == really_pending(box)
        assert box.high_water >= accounts.pending
    before = box.accounts()
    left = box.close(Offer.GONE if gone else Offer.STOPPING)
    after = box.accounts()
    assert len(left) == before.pending
    assert after.pending == really_pending(box) == 0
    assert after.dead_lettered == before.dead_lettered + len(left)
    refused = Offer.GONE if gone else Offer.STOPPING
    assert box.offer(Note(), None, 0) is refused
    assert box.post(Note(), 0) is refused
    assert box.accounts().balanced


@given(ACTIONS)
def test_nothing_is_lost_doubled_or_reordered_within_a_lane(actions):
    box = opened()
    taken = []
    for number, action in enumerate(actions):
        taken += apply(box, action, number)
    box.release()
    while (item := box.take()) is not None:
        taken.append(item)
    numbers = [item[1].n for item in taken if isinstance(item, tuple)]
    assert len(set(numbers)) == len(numbers)
    posted = {n for n, action in enumerate(actions) if action == ("post", False)}
    ordinary = [n for n in numbers if n not in posted]
    assert ordinary == sorted(ordinary)
    assert [n for n in numbers if n in posted] == sorted(posted)
    notes = {n for n, action in enumerate(actions) if action[0] == "note" or action == ("post", True)}
    assert notes <= set(numbers)


@given(ACTIONS)
def test_a_cell_is_queued_once_until_it_finds_nothing(actions):
    box = opened()
    queued = False
    for number, action in enumerate(actions):
        match action:
            case ("note", _):
                offer = box.offer(Note(n=number), None, number)
            case ("command", _):
                offer = box.command(lambda: None)
            case ("take", _):
                if queued and box.take() is None:
                    queued = False
                continue
            case _:
                continue
        assert offer is (Offer.QUEUED if queued else Offer.WAKE)
        queued = True


def test_only_ordinary_messages_count_against_the_bound():
    box = opened(2)
    offers = [box.offer(Note(n=n), None, n) for n in range(4)]
    assert offers == [Offer.WAKE, Offer.QUEUED, Offer.FULL, Offer.FULL]
    assert box.offer(Level(key="k", n=1), "k", 0) is Offer.QUEUED
    assert box.post(Note(n=9), 0) is Offer.QUEUED
    assert box.take()[1] == Note(n=9)
    assert box.take()[1] == Note(n=0)
    assert box.offer(Note(n=5), None, 0) is Offer.QUEUED


def test_commands_are_taken_even_while_held():
    box = opened()
    box.offer(Note(n=1), None, 0)
    box.hold()
    assert box.take() is None
    ran = []
    assert box.command(lambda: ran.append(1)) is Offer.WAKE
    box.take()()
    assert ran == [1]
    assert box.take() is None
    assert box.pending == 1


def test_superseded_levels_do_not_pile_up():
    box = opened()
    for n in range(10_000):
        box.offer(Level(key="k", n=n), "k", n)
    assert len(box.ordinary) == 1
    assert box.take()[1] == Level(key="k", n=9_999)
    assert box.take() is None
    assert box.accounts().conflated == 9_999


def test_the_oldest_pending_is_known():
    box = opened()
    assert box.oldest() is None
    for at in (3.0, 4.0):
        box.offer(Note(), None, at)
    assert box.oldest() == 3.0
    box.take()
    assert box.oldest() == 4.0
