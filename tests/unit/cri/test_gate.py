"""The bound on heavy calls."""

from api.errors import FailureKind
from runtime.drivers.cri.gate import CREATE, RUN, START, Gate


def enter(gate, rank, log, name):
    def answer(_result, failure):
        log.append(name if failure is None else failure.kind)

    return gate.enter(rank).begin(10.0, answer)


def test_no_more_than_the_bound_are_in_at_once():
    gate, log = Gate(2), []
    for name in "abc":
        enter(gate, RUN, log, name)
    assert (log, gate.waiting) == (["a", "b"], 1)
    gate.leave()
    assert (log, gate.waiting) == (["a", "b", "c"], 0)


def test_those_of_one_rank_enter_in_the_order_of_their_coming():
    gate, log = Gate(1), []
    for name in "abcd":
        enter(gate, RUN, log, name)
    for _ in "abc":
        gate.leave()
    assert log == ["a", "b", "c", "d"]


def test_a_pod_that_is_nearly_there_does_not_wait_behind_those_that_have_not_begun():
    gate, log = Gate(1), []
    enter(gate, RUN, log, "first")
    enter(gate, RUN, log, "run")
    enter(gate, CREATE, log, "create")
    enter(gate, START, log, "start")
    for _ in range(3):
        gate.leave()
    assert log == ["first", "start", "create", "run"]


def test_who_gives_up_waiting_is_told_and_takes_no_place():
    gate, log = Gate(1), []
    enter(gate, RUN, log, "a")
    give_up = enter(gate, RUN, log, "b")
    enter(gate, RUN, log, "c")
    give_up()
    give_up()
    gate.leave()
    assert log == ["a", FailureKind.CANCELLED, "c"]


def test_who_is_in_cannot_be_taken_out_by_giving_up():
    gate, log = Gate(1), []
    enter(gate, RUN, log, "a")()
    enter(gate, RUN, log, "b")
    assert log == ["a"]


def test_a_free_place_is_taken_again():
    gate, log = Gate(1), []
    enter(gate, RUN, log, "a")
    gate.leave()
    enter(gate, RUN, log, "b")
    assert log == ["a", "b"]
