"""Seeds of a node of a cluster: users, outages, faults and kills together; in the end API server and node say the same."""

import pytest

from tests.harness.world.kind import Kind
from tests.harness.world.simulate import covered, failure_text, run_all, summary

QUICK = (8_200_014, 8_200_017, 8_200_020, 8_200_008, 8_200_011)
"""Among the cheapest of their neighbours."""


def hold(seeds):
    results = list(run_all(seeds, 2, kind=Kind.CLUSTER))
    failed = [failure_text(result) for result in results if result.broken]
    assert not failed, "\n\n".join(failed)
    return results


@pytest.mark.timeout(600)
def test_five_seeds_keep_every_rule_and_one_that_is_run_again_is_the_same():
    results = hold([*QUICK, QUICK[0]])
    counts = covered(results).counts
    assert counts["cluster", "last delete"] >= len(results)
    assert counts["cluster", "outage"] >= len(results)
    assert all(result.lives >= 2 for result in results), "every seed kills the agent at least once"
    assert results[0].digest == results[-1].digest
    assert "6 seeds of a node of a cluster" in summary(results, 1.0)
    assert f"--cluster --seed {QUICK[0]}" in failure_text(results[0])


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_fifty_seeds_keep_every_rule_and_reach_every_point():
    results = hold(range(8_201_000, 8_201_050))
    assert not covered(results).missing(Kind.CLUSTER)
