"""Calls as generators: one answer, whatever happens."""

import msgspec
import pytest

from api.errors import Failure, FailureKind, NotFoundError, OperatingError
from runtime.drivers.cri.opencall import OpenCall, Together, nothing


class Word(msgspec.Struct, frozen=True):
    """A result."""

    text: str


class Asked:
    """Something that a test answers by hand."""

    def __init__(self):
        self.undone = 0

    def begin(self, left_s, answer):
        self.left_s, self.answer = left_s, answer

        def undo():
            self.undone += 1
            answer(None, Failure(kind=FailureKind.CANCELLED, message="taken back"))

        return undo


def run(steps, deadline_s=10.0, *, cancellable=True):
    answers = []
    call = OpenCall(
        steps, deadline_s, lambda r, f: answers.append(r or f), what="Call", cancellable=cancellable
    )
    call.start()
    return call, answers


def test_steps_go_on_with_each_answer():
    first, second = Asked(), Asked()

    def steps():
        one = yield first
        two = yield second
        return Word(one + two)

    _, answers = run(steps())
    first.answer("a", None)
    assert answers == []
    second.answer("b", None)
    assert answers == [Word("ab")]


def test_a_failure_is_raised_where_the_answer_was_awaited():
    asked = Asked()

    def steps():
        try:
            yield asked
        except NotFoundError as error:
            return Word(str(error))

    _, answers = run(steps())
    asked.answer(None, Failure(kind=FailureKind.NOT_FOUND, message="gone"))
    assert answers == [Word("gone")]


def test_a_failure_that_nobody_expects_is_the_calls_own():
    asked = Asked()

    def steps():
        yield asked

    _, answers = run(steps())
    failure = Failure(kind=FailureKind.DENIED, message="no", reason="Why")
    asked.answer(None, failure)
    assert answers == [failure]


def test_a_cancelled_call_takes_back_what_it_asked_for_and_answers_once():
    asked = Asked()

    def steps():
        yield asked

    call, answers = run(steps())
    call.cancel()
    call.cancel()
    assert asked.undone == 1
    assert [a.kind for a in answers] == [FailureKind.CANCELLED]


def test_a_call_that_must_be_seen_through_is_not_cancelled():
    asked = Asked()

    def steps():
        return Word((yield asked))

    call, answers = run(steps(), cancellable=False)
    call.cancel()
    assert (asked.undone, answers) == (0, [])
    asked.answer("done", None)
    assert answers == [Word("done")]


def test_what_is_asked_for_late_gets_the_time_that_is_left():
    asked = Asked()

    def steps():
        yield asked

    run(steps(), deadline_s=5.0)
    assert 4.0 < asked.left_s <= 5.0


def test_no_more_is_asked_for_when_the_time_is_up():
    asked = Asked()

    def steps():
        yield asked

    _, answers = run(steps(), deadline_s=0.0)
    assert not hasattr(asked, "answer")
    assert [a.kind for a in answers] == [FailureKind.TIMED_OUT]


def test_a_bug_in_the_steps_answers_too():
    def steps():
        raise ZeroDivisionError
        yield

    answers = []
    call = OpenCall(steps(), 1.0, lambda r, f: answers.append(r or f), what="Call", cancellable=True)
    with pytest.raises(ZeroDivisionError):
        call.start()
    assert [a.kind for a in answers] == [FailureKind.UNAVAILABLE]


def test_things_asked_together_are_answered_together_in_their_order():
    first, second, log = Asked(), Asked(), []
    Together((first, second)).begin(1.0, lambda result, failure: log.append((result, failure)))
    second.answer("b", None)
    assert log == []
    first.answer(None, Failure(kind=FailureKind.NOT_FOUND, message="gone"))
    [([one, two], failure)] = log
    assert (type(one), str(one), two, failure) == (NotFoundError, "gone", "b", None)


def test_nothing_asked_together_is_answered_at_once():
    log = []
    assert Together(()).begin(1.0, lambda result, _failure: log.append(result)) is nothing
    assert log == [[]]


def test_every_kind_of_failure_can_be_raised():
    from runtime.drivers.cri.opencall import ERRORS  # noqa: PLC0415

    assert set(ERRORS) == set(FailureKind)
    assert all(issubclass(error, OperatingError) for error in ERRORS.values())
