"""Hunts mutants: runs seeds until each is caught."""

# ruff: noqa: T201  # a command line prints

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain

from tests.harness.world.kind import Kind
from tests.harness.world.seed import Result, run_seed
from tests.harness.world.simulate import progress
from tests.sim.mutants.catalogue import MUTANTS, Mutant
from tests.sim.mutants.cluster import CLUSTER_MUTANTS
from tests.sim.mutants.eviction import EVICTION_MUTANTS

ALL = (*MUTANTS, *EVICTION_MUTANTS, *CLUSTER_MUTANTS)


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Result | None:
    """Run seeds until one catches the mutant; None when it lives."""
    with mutant.planted():
        run = partial(run_seed, kind=mutant.kind)
        order = seeds if mutant.first is None else chain((mutant.first,), seeds)
        return next((result for result in map(run, order) if result.broken), None)


def hunt_all(seeds: range, kind: Kind = Kind.PLAIN) -> int:
    """Hunt every mutant, or those of one kind, tell by which seed and rule each was caught; return the exit status."""
    alive = []
    mutants = [one for one in ALL if kind in (Kind.PLAIN, one.kind)]
    for index, mutant in enumerate(mutants):
        progress(f"{index}/{len(mutants)} mutants, hunting {mutant.name}")
        result = hunt(mutant, seeds)
        progress("")
        if result is None:
            alive.append(mutant.name)
            print(f"{mutant.name:16} LIVES after {len(seeds)} seeds: {mutant.what}", flush=True)
        else:
            print(f"{mutant.name:16} caught by seed {result.seed}: {result.broken[:120]}", flush=True)
    print(f"{len(mutants) - len(alive)} of {len(mutants)} mutants caught")
    return 1 if alive else 0
