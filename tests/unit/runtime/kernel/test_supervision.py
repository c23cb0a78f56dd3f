"""The verdict over a death: a pure function of policy, history and time."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel.actor import Restart
from runtime.kernel.supervision import judge

POLICY = Restart(max_restarts=3, window_s=60.0, delay_s=0.1, growth=2.0, delay_limit_s=0.3)


def verdicts(policy, instants):
    deaths, delays = (), []
    for at in instants:
        verdict = judge(policy, deaths, at)
        deaths = verdict.deaths
        delays.append(verdict.delay_s)
    return delays


def test_delays_grow_up_to_their_limit_and_then_the_budget_is_spent():
    assert verdicts(POLICY, [0.0, 1.0, 2.0, 3.0]) == [0.1, 0.2, 0.3, None]


def test_deaths_outside_the_window_are_forgiven():
    assert verdicts(POLICY, [0.0, 61.0, 122.0, 183.0, 244.0]) == [0.1] * 5


def test_a_budget_of_none_gives_up_at_once():
    assert verdicts(Restart(max_restarts=0), [0.0]) == [None]


@given(st.lists(st.floats(0, 30), max_size=40), st.integers(0, 5), st.floats(1.0, 3.0))
def test_never_more_restarts_within_a_window_than_the_budget(gaps, budget, growth):
    policy = Restart(max_restarts=budget, window_s=60.0, delay_s=0.1, growth=growth, delay_limit_s=5.0)
    now, deaths, restarts = 0.0, (), []
    for gap in gaps:
        now += gap
        verdict = judge(policy, deaths, now)
        deaths = verdict.deaths
        if verdict.delay_s is None:
            break
        assert 0.1 <= verdict.delay_s <= 5.0
        restarts.append(now)
        assert len([at for at in restarts if now - at < 60.0]) <= budget
        assert len(deaths) <= budget
