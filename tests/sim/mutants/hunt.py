"""Hunts mutants: runs seeds until each is caught."""

# ruff: noqa: T201  # a command line prints

from __future__ import annotations

from collections.abc import Iterable

from tests.harness.seed import Result, run_seed
from tests.harness.simulate import progress
from tests.sim.mutants.catalogue import MUTANTS, Mutant


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Result | None:
    """Run seeds until one catches the mutant; None when it lives."""
    with mutant.planted():
        return next((result for result in map(run_seed, seeds) if result.broken), None)


def hunt_all(seeds: range) -> int:
    """Hunt every mutant, tell by which seed and rule it was caught; return the exit status."""
    alive = []
    for index, mutant in enumerate(MUTANTS):
        progress(f"{index}/{len(MUTANTS)} mutants, hunting {mutant.name}")
        result = hunt(mutant, seeds)
        progress("")
        if result is None:
            alive.append(mutant.name)
            print(f"{mutant.name:16} LIVES after {len(seeds)} seeds: {mutant.what}", flush=True)
        else:
            print(f"{mutant.name:16} caught by seed {result.seed}: {result.broken[:120]}", flush=True)
    print(f"{len(MUTANTS) - len(alive)} of {len(MUTANTS)} mutants caught")
    return 1 if alive else 0
