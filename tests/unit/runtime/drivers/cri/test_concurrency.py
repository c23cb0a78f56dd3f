"""The bound on heavy calls."""

import pytest

from api.errors import FailureKind
from api.ports.runtime import QUEUE_S
from runtime.drivers.cri.concurrency import (
    CREATE,
    HUNG_S,
    LONGEST_S,
    PATIENCE_S,
    RUN,
    START,
    ConcurrencyLimit,
)


class Hall:
    """A limit, a clock that a test moves, and who entered."""

    def __init__(self, bound):
        self.now = 0.0
        self.due = []
        self.log = []
        self.slots = {}
        self.limit = ConcurrencyLimit(self.after, bound, usual_s=0.0, now=lambda: self.now)

    def after(self, seconds, then):
        assert seconds > 0
        self.due.append((self.now + seconds, then))

    def enter(self, name, rank=RUN):
        """Ask to be let in; return how to give up."""

        def answer(_result, failure):
            self.log.append(name if failure is None else failure.kind)

        slot = self.slots[name] = self.limit.enter(rank)
        return slot.begin(10.0, answer)

    def leave(self, name):
        self.slots[name].leave()

    def wait(self, seconds):
        """Let time go by, with all that is due meanwhile in its order."""
        until = self.now + seconds
        while ready := [one for one in self.due if one[0] <= until]:
            first = min(ready, key=lambda one: one[0])
            self.due.remove(first)
            self.now = first[0]
            first[1]()
        self.now = until


def test_no_more_than_the_bound_are_in_at_once():
    hall = Hall(2)
    for name in "abc":
        hall.enter(name)
    assert (hall.log, hall.limit.waiting) == (["a", "b"], 1)
    hall.leave("a")
    assert (hall.log, hall.limit.waiting) == (["a", "b", "c"], 0)


def test_those_of_one_rank_enter_in_the_order_of_their_coming():
    hall = Hall(1)
    for name in "abcd":
        hall.enter(name)
    for name in "abc":
        hall.leave(name)
    assert hall.log == ["a", "b", "c", "d"]


def test_a_pod_that_is_nearly_there_does_not_wait_behind_those_that_have_not_begun():
    hall = Hall(1)
    hall.enter("first")
    hall.enter("run", RUN)
    hall.enter("create", CREATE)
    hall.enter("start", START)
    for name in ("first", "start", "create"):
        hall.leave(name)
    assert hall.log == ["first", "start", "create", "run"]


def test_who_gives_up_waiting_is_told_and_takes_no_place():
    hall = Hall(1)
    hall.enter("a")
    give_up = hall.enter("b")
    hall.enter("c")
    give_up()
    give_up()
    hall.leave("a")
    assert hall.log == ["a", FailureKind.CANCELLED, "c"]


def test_who_is_in_cannot_be_taken_out_by_giving_up():
    hall = Hall(1)
    hall.enter("a")()
    hall.enter("b")
    assert hall.log == ["a"]


def test_a_free_place_is_taken_again():
    hall = Hall(1)
    hall.enter("a")
    hall.leave("a")
    hall.enter("b")
    assert hall.log == ["a", "b"]


def test_a_call_that_has_been_in_for_long_gives_its_place_to_the_next():
    hall = Hall(2)
    for name in ("hung", "hung too", "c", "d", "e"):
        hall.enter(name)
    hall.wait(PATIENCE_S * 0.9)
    assert hall.log == ["hung", "hung too"]
    hall.wait(PATIENCE_S * 0.2)
    assert hall.log == ["hung", "hung too", "c", "d"]
    hall.leave("c")
    assert hall.log[-1] == "e"


def test_calls_that_take_long_and_get_on_keep_their_places():
    hall = Hall(2)
    for name in range(6):
        hall.enter(name)
    for name in range(4):
        hall.wait(PATIENCE_S * 0.9)
        assert hall.log == list(range(2 + name))
        hall.leave(name)
    assert hall.now > 3 * PATIENCE_S


def test_one_that_hangs_gives_its_place_away_also_while_others_get_on():
    hall = Hall(2)
    for name in ("hung", *range(20)):
        hall.enter(name)
    for number in range(4):
        assert len(hall.log) == 2 + number
        hall.wait(LONGEST_S / 4)
        hall.leave(number)
    assert hall.log == ["hung", 0, 1, 2, 3, 4, 5], "two that get on are in"


def test_where_calls_usually_take_long_they_keep_their_places_for_longer():
    hall = Hall(2)
    for name in range(40):
        hall.enter(name)
        hall.wait(4 * LONGEST_S)
        hall.leave(name)
    for name in "abcd":
        hall.enter(name)
    hall.wait(1.9 * LONGEST_S)
    assert hall.log[-2:] == ["a", "b"]
    hall.wait(0.2 * LONGEST_S)
    assert hall.log[-2:] == ["c", "d"], "none has left for half as long as each usually takes"


def test_those_that_hung_teach_no_patience():
    hall = Hall(1)
    for number in range(20):
        hall.enter(number)
        hall.wait(HUNG_S)
        hall.leave(number)
    hall.enter("hung"), hall.enter("next")
    hall.wait(PATIENCE_S)
    assert hall.log[-1] == "next"


def test_a_place_that_was_given_away_is_not_freed_a_second_time():
    hall = Hall(1)
    for name in ("hung", "b", "c"):
        hall.enter(name)
    hall.wait(PATIENCE_S)
    hall.leave("hung")
    assert hall.log == ["hung", "b"]
    hall.leave("b")
    assert hall.log == ["hung", "b", "c"]


def test_a_call_that_is_in_for_long_while_nobody_waits_keeps_its_place_no_longer_than_until_somebody_comes():
    hall = Hall(1)
    hall.enter("hung")
    hall.wait(10 * PATIENCE_S)
    assert not hall.due, "nothing is looked after while nobody waits"
    hall.enter("b")
    assert hall.log == ["hung", "b"]


def test_however_many_hang_each_patience_lets_in_as_many_as_the_bound():
    hall = Hall(8)
    for number in range(100):
        hall.enter(number)
    for rounds in range(1, 13):
        assert hall.log == list(range(8 * rounds))
        hall.wait(PATIENCE_S)
    assert hall.log == list(range(100))


@pytest.mark.parametrize("rank", [RUN, CREATE])
def test_nobody_waits_for_longer_than_a_deadline_allows_for(rank):
    hall = Hall(1)
    hall.enter("first")
    hall.enter("late", rank)
    count = 0
    while hall.log[-1] != "late":
        # One that is nearly there comes as often as somebody leaves.
        hall.enter(count, START)
        hall.leave(hall.log[-1])
        hall.wait(PATIENCE_S / 2)
        count += 1
        assert hall.now <= QUEUE_S + PATIENCE_S
    assert hall.now >= QUEUE_S


def test_one_review_at_a_time_is_waited_for():
    hall = Hall(1)
    for name in range(50):
        hall.enter(name)
    hall.wait(PATIENCE_S)
    assert len(hall.due) == 1
