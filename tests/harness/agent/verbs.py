"""Runs the command line's verbs alone, as the composition root does: ``python -m tests.harness.agent.verbs pods ...``."""

import argparse
import sys
from pathlib import Path

from api.ports.manifests import Problem
from runtime.cli.command import add_verbs, run_verb


def check(file: str) -> tuple[Problem, ...]:
    """Find fault with what is not a manifest at all."""
    return (
        () if "kind:" in Path(file).read_text() else (Problem(where=f"{file}:1", message="no kind; add one"),)
    )


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="nodeagent")
    add_verbs(parser.add_subparsers(dest="command", required=True))
    return run_verb(parser.parse_args(words), check=check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
