"""``validate``: reports problems of files, without an agent and without running anything."""

import argparse
import sys
from collections.abc import Callable

import msgspec

from api.ports.manifests import Problem
from runtime.cli.client import VerbError
from runtime.cli.table import clean, screen_of


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One file and what is wrong with it."""

    file: str
    ok: bool
    problems: tuple[Problem, ...] = ()


def validate(args: argparse.Namespace, check: Callable[[str], tuple[Problem, ...]] | None) -> int:
    """Check each file; 0 when all are well, 1 when one is not."""
    if check is None:
        raise VerbError("this build of nodeagent cannot validate files")
    found = []
    for file in args.files:
        problems = check(file)
        found.append(Checked(file=file, ok=not problems, problems=problems))
    if args.output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode({"files": found}), indent=2).decode() + "\n")
    else:
        screen = screen_of()
        for one in found:
            if one.ok:
                print(f"{clean(one.file)}: {screen.paint('ok', 'good')}")
            for problem in one.problems:
                print(f"{screen.paint(clean(problem.where), 'strong')}: {clean(problem.message)}")
    return 0 if all(one.ok for one in found) else 1
