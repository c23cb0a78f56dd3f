"""Listening again: pauses that grow, and what is news."""

from actors.rules.ear import (
    RETRY,
    STEADY_S,
    Ear,
    deaf,
    fell_deaf,
    is_due,
    listening,
    wakes,
)
from api.errors import Failure, FailureKind

DENIED = Failure(kind=FailureKind.DENIED, message="may not be read")


def test_pauses_double_up_to_a_limit_and_begin_anew_after_a_steady_time():
    ear, now, pauses = Ear(), 0.0, []
    for _ in range(12):
        ear = listening(ear, now)
        assert not is_due(ear, now)
        assert wakes(ear) == ()
        ear = deaf(ear, DENIED, now)
        pauses.append(ear.retry_at - now)
        assert wakes(ear) == (ear.retry_at,)
        assert not is_due(ear, ear.retry_at - 0.01)
        assert is_due(ear, ear.retry_at)
        now = ear.retry_at
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    ear = deaf(listening(ear, now), None, now + STEADY_S)
    assert (ear.retry_at, ear.why) == (now + STEADY_S + RETRY.base_s, "it was closed")


def test_the_same_reason_again_is_no_news():
    first = deaf(Ear(), DENIED, 0.0)
    again = deaf(listening(first, 1.0), DENIED, 1.0)
    other = deaf(listening(again, 3.0), None, 3.0)
    assert fell_deaf(Ear(), first)
    assert not fell_deaf(first, listening(first, 1.0))
    assert not fell_deaf(listening(first, 1.0), again)
    assert fell_deaf(again, other)
