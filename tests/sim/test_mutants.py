"""Every planted mutant is caught: what the checks of the simulation are worth."""

import pytest

from tests.sim.mutants.hunt import ALL, hunt

SEEDS = range(2, 142)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_planted_mutant_is_caught(mutant):
    assert hunt(mutant, SEEDS) is not None, f"{mutant.what}: nobody noticed in {len(SEEDS)} seeds"


def test_there_are_ten_mutants_or_more_and_each_says_what_it_is():
    assert len({mutant.name for mutant in ALL}) == len(ALL) >= 10
    assert all(mutant.what for mutant in ALL)
