"""What `bin/simulate` runs: seeds by the thousand, one seed with its trace, or every planted mutant.

Exit status: 0 when everything held, 1 when a seed failed, a mutant lived or a point was never reached, 2 for bad usage, 130
when it was interrupted: what was run until then is summed up.
"""

# ruff: noqa: T201  # a command line prints

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial

from tests.harness.world.coverage import ENOUGH_SEEDS, Coverage
from tests.harness.world.kind import Kind
from tests.harness.world.seed import Result, run_seed


def main(words: list[str] | None = None) -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(
        prog="bin/simulate", description="Run the whole agent in a virtual world, by seeds, under faults."
    )
    parser.add_argument("--seeds", type=int, metavar="N", default=50, help="run N seeds (default 50)")
    parser.add_argument("--from", type=int, metavar="S", default=0, dest="first", help="the first seed")
    parser.add_argument("-j", type=int, metavar="P", default=1, dest="jobs", help="processes side by side")
    parser.add_argument("--seed", type=int, metavar="S", help="run one seed")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every delivery")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--eviction",
        action="store_const",
        dest="kind",
        const=Kind.EVICTION,
        help="seeds of a node that runs short at times",
    )
    kinds.add_argument(
        "--cluster",
        action="store_const",
        dest="kind",
        const=Kind.CLUSTER,
        help="seeds of a node of a cluster",
    )
    parser.set_defaults(kind=Kind.PLAIN)
    parser.add_argument("--mutants", action="store_true", help="run planted mutants until each is caught")
    parser.add_argument("--keep-going", action="store_true", help="go on after a seed that failed")
    asked = parser.parse_args(words)
    if asked.trace and asked.seed is None:
        parser.error("--trace needs --seed")
    if asked.mutants:
        from tests.sim.mutants.hunt import hunt_all  # noqa: PLC0415  # mutants change production code in memory

        return hunt_all(range(asked.first, asked.first + asked.seeds), asked.kind)
    if asked.seed is not None:
        try:
            return one(asked.seed, trace=asked.trace, kind=asked.kind)
        except BrokenPipeError:
            # The reader has what it wanted; Python must not find the pipe broken again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
    seeds = range(asked.first, asked.first + asked.seeds)
    return many(seeds, asked.jobs, keep_going=asked.keep_going, kind=asked.kind)


def one(seed: int, *, trace: bool, kind: Kind) -> int:
    """Run one seed and tell all of it."""
    result = run_seed(seed, print if trace else None, kind)
    print(summary([result], result.took_s))
    print(f"digest {result.digest:08x}")
    if result.broken:
        print(failure_text(result))
        return 1
    return 0


def many(seeds: range, jobs: int, *, keep_going: bool, kind: Kind) -> int:
    """Run seeds, show progress on a terminal, and sum up."""
    began = time.perf_counter()
    results: list[Result] = []
    failed: list[Result] = []
    cut = False
    try:
        for result in run_all(seeds, jobs, kind=kind):
            results.append(result)
            if result.broken:
                failed.append(result)
                progress("")
                print(failure_text(result), flush=True)
                if not keep_going:
                    break
            progress(
                f"{len(results)}/{len(seeds)} seeds, {len(failed)} failed, {time.perf_counter() - began:.0f} s"
            )
    except KeyboardInterrupt:
        cut = True
    progress("")
    coverage = covered(results)
    print("\n".join(coverage.table()))
    print(summary(results, time.perf_counter() - began))
    missing = coverage.missing(kind) if len(results) >= ENOUGH_SEEDS else ()
    for what, name in missing:
        print(f"never reached by {len(results)} seeds: {what} {name}")
    if failed:
        print(f"{len(failed)} of {len(results)} seeds failed: {' '.join(str(r.seed) for r in failed)}")
    if cut:
        print(f"cut off: {len(seeds) - len(results)} of {len(seeds)} seeds were not run")
        return 128 + signal.SIGINT
    return 1 if failed or missing else 0


def run_all(seeds: Iterable[int], jobs: int, *, kind: Kind = Kind.PLAIN) -> Iterator[Result]:
    """Yield the results of all seeds, in their order."""
    run = partial(run_seed, kind=kind)
    if jobs <= 1:
        yield from map(run, seeds)
        return
    # A terminal interrupts all processes; this one sums up what was run, and ends the others.
    deaf = (signal.SIGINT, signal.SIG_IGN)
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=signal.signal, initargs=deaf) as pool:
        yield from pool.imap(run, seeds)


def covered(results: Iterable[Result]) -> Coverage:
    """Return the sum of what seeds reached."""
    coverage = Coverage()
    for result in results:
        coverage.counts.update(result.counts)
    return coverage


def summary(results: list[Result], took_s: float) -> str:
    """Return the figures in one line."""
    virtual_s = sum(r.virtual_s for r in results)
    deliveries = sum(r.deliveries for r in results)
    struck = sum(r.faults_struck for r in results)
    lives = sum(r.lives for r in results)
    took_s = max(took_s, 1e-9)
    kind = results[0].kind.words if results else ""
    return (
        f"{len(results)} seeds{kind} in {took_s:.1f} s ({len(results) / took_s * 60:.0f} a minute): "
        f"{virtual_s / 3600:.1f} virtual node-hours ({virtual_s / 60 / took_s:.0f} a minute), "
        f"{deliveries:,} deliveries ({deliveries / took_s:,.0f}/s), {struck:,} faults, {lives:,} lives of the agent"
    )


def failure_text(result: Result) -> str:
    """Return everything needed to understand and to repeat a failure."""
    parts = [
        f"seed {result.seed} FAILED",
        f"  {result.broken}",
        "plan of faults:",
        *(f"  {line}" for line in result.plan),
        "what the world did:",
        *(f"  {line}" for line in result.story[-25:]),
        "last deliveries of the actors involved:",
        *(f"  {line}" for line in result.tail),
        f"repeat it with: bin/simulate {result.kind.flag}--seed {result.seed} --trace",
    ]
    return "\n".join(parts)


def progress(text: str) -> None:
    """Show progress on a terminal, in one line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
