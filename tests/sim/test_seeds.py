"""Twenty seeds of the whole agent under faults in every check; more when there is time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.world.fault import expanded
from tests.harness.world.seed import SeedRun, run_seed
from tests.harness.world.simulate import covered, failure_text, run_all

ROOT = Path(__file__).resolve().parents[2]


def hold(seeds):
    results = list(run_all(seeds, 2))
    failed = [failure_text(result) for result in results if result.broken]
    assert not failed, "\n\n".join(failed)
    return results


@pytest.mark.timeout(600)
def test_twenty_seeds_keep_every_rule_and_reach_every_point():
    results = hold(range(20))
    assert not covered(results).missing()
    assert all(result.virtual_s >= 600 for result in results)
    assert all(result.lives >= 2 for result in results), "every seed kills the agent at least once"
    assert sum(result.faults_struck for result in results) >= 30 * len(results)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_seeds_keep_every_rule():
    hold((*range(20, 50), *range(1050, 1120)))


def test_a_seed_gives_the_same_trace_in_another_process():
    lines = []
    digest = run_seed(7, lines.append).digest
    other_hash = "0" if os.environ.get("PYTHONHASHSEED") != "0" else "1"
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.world.simulate", "--seed", "7", "--trace"],
        cwd=ROOT,
        env={"PYTHONHASHSEED": other_hash, "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    *trace, _, told = done.stdout.splitlines()
    assert told == f"digest {digest:08x}"
    assert trace == [line for text in lines for line in text.splitlines()]
    assert lines


def test_a_plan_has_thirty_faults_and_is_told_in_full():
    run = SeedRun(3)
    assert len(run.plan.faults) >= 30
    assert len(expanded(run.plan)) == len(run.plan.faults)
