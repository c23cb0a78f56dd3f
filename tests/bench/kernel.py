"""What the actor kernel costs: against pykka's ThreadingActor in the same run, and against its budgets; trace is on.

**Fan-out** is one message to each of 1,000 actors that run already, from a thread outside; when all have handled it, the
next round. It is the load in which our pooled executor shows the 400,000/s that the plan's prototype showed, so it is the
one that the plan's figures mean; a round waits for the last, as a listing that reaches every pod does, so no mailbox
grows and no round hides behind another. Beside it stands **gather**, what a supervisor does that hears from each of its
pods: an actor tells 1,000 actors, each tells it back, deliveries there and back count. It has no budget: half of it is
one-to-one. Both sides run the same bodies, ThreadingActor with its default settings.

Each measurement is a fresh process (`tests/harness/kernelload.py`), ours and pykka's by turns, and the median of the pairs'
ratios decides, so that a machine that is busy with something else slows both. Absolute figures orient.
"""

import statistics
import subprocess
import sys
import time
from typing import Any

import msgspec

from tests.harness.budget import Row, show

PAIRS = 5
LEAST_PAIRS = 3
SPAN_S = 12.0
"""After so long a comparison begins no further pair, once it has the least."""
ONE_LIMIT_S = 40.0

Figures = dict[str, float]


def measure(load: str, side: str) -> Figures:
    """Run one load in a process of its own; return what it measured."""
    words = [sys.executable, "-m", "tests.harness.kernelload", load, side]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ONE_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"bench: {load} ({side}) did not end within {ONE_LIMIT_S:.0f} s") from None
    if done.returncode:
        raise SystemExit(f"bench: {load} ({side}) failed: {(done.stderr or done.stdout).strip()}")
    return msgspec.json.decode(done.stdout, type=Figures)


def compare(what: str, load: str, key: str, unit: str, pairs: int = PAIRS, **limits: Any) -> Row:
    """Return the medians of both sides, and that of the ratios of ours to pykka's."""
    began = time.monotonic()
    got: list[tuple[float, float]] = []
    while len(got) < pairs and (len(got) < LEAST_PAIRS or time.monotonic() - began < SPAN_S):
        got.append((measure(load, "ours")[key], measure(load, "pykka")[key]))
    ours, other = ([pair[side] for pair in got] for side in (0, 1))
    ratios = sorted(mine / theirs for mine, theirs in got)
    return Row(
        what=what,
        ours=statistics.median(ours),
        unit=unit,
        other=statistics.median(other),
        ratio=statistics.median(ratios),
        detail=f"{len(got)} pairs, ratio {ratios[0]:.2f} to {ratios[-1]:.2f}",
        **limits,
    )


def alone(what: str, load: str, key: str, unit: str, **limits: Any) -> Row:
    """Return a figure that only we have."""
    return Row(what=what, ours=measure(load, "ours")[key], unit=unit, **limits)


def main() -> int:
    """Print the table; return how the process is to exit."""
    rows = [
        compare("fan-out to 1,000 actors", "fan_out", "per_s", "/s", at_least=150_000.0, ratio_at_least=5.0),
        compare("  and back: gather", "gather", "per_s", "/s", pairs=3),
        compare("one-to-one tell", "one_to_one", "per_s", "/s", at_least=100_000.0, ratio_at_least=1.0),
        compare("memory per idle actor", "memory", "kib", "KiB", pairs=1, at_most=4.0),
        compare("mailbox wait when idle", "mailbox_wait", "us", "us", pairs=3, at_most=100.0),
        alone("simulated deliveries", "simulated", "per_s", "/s", at_least=50_000.0),
        alone("CPU of 200 idle actors", "idle", "percent", "%", at_most=0.5),
    ]
    print(show(rows), end="")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
