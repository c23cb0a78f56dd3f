"""Seeds of a node that runs short now and then: pods, images and evictions together, under faults."""

import pytest

from tests.harness.world.kind import Kind
from tests.harness.world.seed import SeedRun, run_seed
from tests.harness.world.simulate import covered, failure_text, run_all, summary


def hold(seeds):
    results = list(run_all(seeds, 2, kind=Kind.EVICTION))
    failed = [failure_text(result) for result in results if result.broken]
    assert not failed, "\n\n".join(failed)
    return results


@pytest.mark.timeout(600)
def test_six_seeds_evict_collect_and_recover_and_each_is_the_same_in_another_process():
    results = hold(range(6))
    counts = covered(results).counts
    evicted = sum(count for (kind, _), count in counts.items() if kind == "evicted for")
    collected = sum(count for (kind, _), count in counts.items() if kind == "images for")
    assert evicted >= len(results)
    assert collected >= len(results)
    assert counts["world", "image removed"] >= len(results)
    assert all(result.lives >= 2 for result in results), "every seed kills the agent at least once"
    assert run_seed(3, kind=Kind.EVICTION).digest == results[3].digest
    assert "6 seeds of a node that runs short" in summary(results, 1.0)
    assert "--eviction --seed 3" in failure_text(results[3])


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_sixty_seeds_evict_collect_and_recover():
    results = hold(range(1000, 1060))
    assert not covered(results).missing(Kind.EVICTION)


def test_a_seed_of_a_node_that_runs_short_watches_every_signal_and_is_another_than_without():
    plain, short = SeedRun(4), SeedRun(4, kind=Kind.EVICTION)
    assert plain.world.settings.eviction != short.world.settings.eviction
    watched = {
        one.signal
        for seed in range(10)
        for one in SeedRun(seed, kind=Kind.EVICTION).world.settings.eviction.thresholds
    }
    assert len(watched) == 7
