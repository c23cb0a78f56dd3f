"""The image manager under faults, by seeds; and planted bugs, of which every one must be noticed."""

import pytest
from msgspec.structs import replace

from tests.harness.world.imageseed import run_image_seed
from tests.sim.mutants.catalogue import Mutant

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_holds(seed):
    assert run_image_seed(seed) == ""


def forget_the_ended(right):
    """Containers that do not run hold no image."""
    return lambda inspection: [
        (name, container) for name, container in right(inspection) if container.state.value == "running"
    ]


def forget_mounts(right):
    """Images mounted into containers are not in use."""
    return lambda inspection, container: ()


def ignore_pins(right):
    """Pinned images go like all others."""
    return lambda image, seen, policy, goal: right(replace(image, pinned=False), seen, policy, goal)


def believe_the_first_look(right):
    """What is free is measured once, and sizes are not even counted: everything unused goes."""
    return lambda fs, low: fs.capacity_bytes


def never_patient(right):
    """Space must show at once."""
    return lambda fs, expect, now: replace(right(fs, expect, now), until=now)


def go_on_after_failure(right):
    """A listing of pods that fails is taken for an empty one."""

    def with_failure(inspection, call, failure, *, must_measure):
        found = right(inspection, call, failure, must_measure=must_measure)
        return found if found is not None or inspection.pods is not None else replace(inspection, pods=())

    return with_failure


def never_say(right):
    """Nobody is told anything."""
    return lambda state, *_: state


def stay_down(right):
    """After a failure no round comes any more."""

    def finish(state, current, now, wall, **more):
        after = right(state, current, now, wall, **more)
        return replace(after, next_round_at=float("inf")) if more.get("failure") else after

    return finish


MUTANTS = (
    Mutant("blind-to-the-dead", "actors.imagegc.inspection", "containers_of", forget_the_ended),
    Mutant("blind-to-mounts", "actors.imagegc.inspection", "mounts_of", forget_mounts),
    Mutant("unpinner", "actors.imagegc.verdict", "reason_to_keep", ignore_pins),
    Mutant("believer-in-sizes", "actors.imagegc.disk", "need_bytes", believe_the_first_look),
    Mutant("impatient", "actors.imagegc.core", "settle", never_patient),
    Mutant("guesser", "actors.imagegc.core", "with_failure", go_on_after_failure),
    Mutant("silent", "actors.imagegc.core", "happened", never_say),
    Mutant("quitter-of-rounds", "actors.imagegc.core", "finish", stay_down),
)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_noticed(mutant):
    with mutant.planted():
        assert any(run_image_seed(seed) for seed in range(40)), f"{mutant.what}: nobody noticed"
