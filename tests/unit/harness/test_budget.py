"""The table of budgets: what is missed is never shown as met."""

from tests.harness.budget import Row, show


def test_a_row_is_met_only_when_each_of_its_budgets_is():
    row = Row(what="fan-out", ours=200.0, unit="/s", ratio=4.0, at_least=100.0, ratio_at_least=20.0)
    assert not row.met
    assert "NO" in show([row])
    assert ">= 100/s, >= 20.0x" in show([row])


def test_a_ratio_that_was_not_measured_misses_its_budget():
    assert not Row(what="fan-out", ours=200.0, unit="/s", ratio_at_least=1.0).met


def test_a_limit_itself_is_still_within():
    assert Row(what="idle", ours=2.0, unit="%", at_most=2.0).met
    assert not Row(what="idle", ours=2.01, unit="%", at_most=2.0).met


def test_a_figure_without_a_budget_gets_no_verdict():
    lines = show([Row(what="gather", ours=5.0, unit="s")], beside="").splitlines()
    assert lines[1].split() == ["gather", "5.00", "s"]
