"""Seeds of a node that runs short now and then: pods, images and evictions together, under faults."""

import pytest

from tests.harness.seed import SeedRun, run_seed
from tests.harness.simulate import covered, failure_text, run_all, summary


def hold(seeds):
    results = list(run_all(seeds, 2, eviction=True))
    failed = [failure_text(result) for result in results if result.broken]
    assert not failed, "\n\n".join(failed)
    return results


@pytest.mark.timeout(600)
def test_a_dozen_seeds_evict_collect_and_recover():
    results = hold(range(12))
    counts = covered(results).counts
    evicted = sum(count for (kind, _), count in counts.items() if kind == "evicted for")
    collected = sum(count for (kind, _), count in counts.items() if kind == "images for")
    assert evicted >= len(results)
    assert collected >= len(results)
    assert counts["world", "image removed"] >= len(results)
    assert "12 seeds of a node that runs short" in summary(results, 1.0)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_two_hundred_seeds_evict_collect_and_recover():
    results = hold(range(1000, 1200))
    assert not covered(results).missing(eviction=True)


def test_a_seed_of_a_node_that_runs_short_is_the_same_each_time_and_another_than_without():
    first, again = run_seed(3, eviction=True), run_seed(3, eviction=True)
    assert first.digest == again.digest
    assert first.eviction
    assert SeedRun(3).world.settings.eviction != SeedRun(3, eviction=True).world.settings.eviction
