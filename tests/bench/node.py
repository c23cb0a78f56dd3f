"""What a node costs: ``bin/bench node [--pods N]`` on containerd beside bare CRI calls, ``--embedded`` on the built-in runtime.

On containerd everything happens on one private instance in one run: first the bare calls, then the real agent with the
same pods. The budgets are ratios to the bare calls where machines differ.
"""

import argparse
import sys


def main(words: list[str]) -> int:
    """Print the table; return how the process is to exit."""
    parser = argparse.ArgumentParser(prog="bin/bench node")
    parser.add_argument(
        "--embedded", action="store_true", help="on the embedded runtime instead of containerd"
    )
    parser.add_argument(
        "--pods", type=int, default=0, metavar="N", help="how many at once (containerd: 40, embedded: 100)"
    )
    parser.add_argument("--singles", type=int, default=15, metavar="N", help="how many one by one (15)")
    parser.add_argument(
        "--bursts", type=int, default=3, metavar="N", help="how often all at once (3, containerd only)"
    )
    args = parser.parse_args(words)
    if args.embedded:
        from tests.bench.nodes import embedded  # noqa: PLC0415  # neither needs what the other imports

        return embedded.measure(args.pods or 100, args.singles)
    from tests.bench.nodes import containerd  # noqa: PLC0415

    return containerd.measure(args.pods or 40, args.singles, max(1, args.bursts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
