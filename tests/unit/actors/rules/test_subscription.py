"""Listening again: waits that grow, what ends the row of failures, and what is news."""

import pytest

from actors.rules.retry import RetryPolicy
from actors.rules.subscription import RETRY, STEADY_S, Subscription, newly_failed
from api.errors import Failure, FailureKind

DENIED = Failure(kind=FailureKind.DENIED, message="may not be read")


def test_a_new_subscription_is_due_at_once_and_an_open_one_is_not():
    new = Subscription()
    assert new.is_due(0.0)
    opened = new.opened(5.0)
    assert (opened.is_open, opened.since, opened.is_due(1e9), opened.wakes()) == (True, 5.0, False, ())


def test_waits_double_up_to_a_limit_and_begin_again_after_a_steady_time():
    one, now, waits = Subscription(), 0.0, []
    for _ in range(12):
        one = one.opened(now)
        assert not one.is_due(now)
        assert one.wakes() == ()
        one = one.ended(DENIED, now)
        waits.append(one.retry.at - now)
        assert one.wakes() == (one.retry.at,)
        assert not one.is_due(one.retry.at - 0.01)
        assert one.is_due(one.retry.at)
        now = one.retry.at
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    one = one.opened(now).ended(None, now + STEADY_S)
    assert (one.retry.at, one.why) == (now + STEADY_S + RETRY.base_s, "the stream was closed")


def test_what_shows_that_a_stream_works_begins_the_waits_again():
    failed = Subscription().ended(DENIED, 0.0).opened(1.0).ended(DENIED, 1.0).opened(3.0)
    assert failed.retry.failures == 2
    assert failed.works().ended(DENIED, 4.0).retry.at == 5.0
    closed = failed.ended(DENIED, 4.0)
    assert closed.works().retry.at == closed.retry.at, "what came late opens nothing sooner"
    fresh = Subscription().opened(0.0)
    assert fresh.works() is fresh


@pytest.mark.parametrize(("steady_s", "failures"), [(10.0, 1), (float("inf"), 2)])
def test_each_stream_has_a_policy_and_a_steady_time_of_its_own(steady_s, failures):
    policy = RetryPolicy(base_s=3.0, limit_s=4.0)
    one = (
        Subscription().ended(DENIED, 0.0, policy, steady_s).opened(3.0).ended(DENIED, 13.0, policy, steady_s)
    )
    assert one.retry.failures == failures
    assert one.retry.at == 13.0 + policy.wait_s(failures)


def test_the_same_reason_again_is_no_news():
    first = Subscription().ended(DENIED, 0.0)
    again = first.opened(1.0).ended(DENIED, 1.0)
    other = again.opened(3.0).ended(None, 3.0)
    assert newly_failed(Subscription(), first)
    assert not newly_failed(first, first.opened(1.0))
    assert not newly_failed(first.opened(1.0), again)
    assert newly_failed(again, other)
