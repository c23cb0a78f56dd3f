"""Back-off after failures, once for all."""

from actors.rules.retry import Retry, RetryPolicy

POLICY = RetryPolicy(base_s=1.0, limit_s=60.0)


def test_each_failure_doubles_the_wait_up_to_the_limit():
    assert [POLICY.wait_s(failures) for failures in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_next_wait_follows_from_the_last_one():
    assert [POLICY.wait_after_s(wait_s) for wait_s in (1.0, 16.0, 32.0, 60.0, 90.0)] == [2, 32, 60, 60, 60]


def test_a_limit_below_the_base_holds_from_the_first_failure():
    assert RetryPolicy(base_s=10.0, limit_s=3.0).wait_s(1) == 3.0


def test_any_number_of_failures_waits_for_the_limit():
    assert RetryPolicy(base_s=0.5, limit_s=86_400.0).wait_s(10**9) == 86_400.0


def test_what_never_failed_is_due_at_once_and_each_failure_counts_from_when_it_happened():
    retry = Retry()
    assert (retry.failures, retry.at) == (0, float("-inf"))
    retry = retry.after(100.0, POLICY)
    assert (retry.failures, retry.at) == (1, 101.0)
    retry = retry.after(107.5, POLICY)
    assert (retry.failures, retry.at) == (2, 109.5)


def test_a_policy_may_change_between_failures():
    once = Retry().after(0.0, POLICY).after(0.0, POLICY)
    assert once.after(0.0, RetryPolicy(base_s=1.0, limit_s=2.0)).at == 2.0
    assert once.after(0.0, POLICY).at == 4.0
