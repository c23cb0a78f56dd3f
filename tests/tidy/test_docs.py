"""Documentation names only what exists: paths, verbs and flags of the command line, links; and the README begins with two commands."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.agent.main import make_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOP = ("actors", "api", "bin", "docs", "runtime", "tests", ".ci")
"""What a path of the repository may begin with."""

PATH = re.compile(rf"(?<![\w./<>-])(?:{'|'.join(re.escape(top) for top in TOP)})/[\w./*-]*")
NAME = re.compile(rf"(?<![\w./<>-])((?:{'|'.join(re.escape(top) for top in TOP)})/[\w./]*\.py)::(\w+)")
COMMAND = re.compile(r"(?:^|[\s`'])(?:\S*bin/)?nodeagent +([^`'\n]*)")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def subparsers() -> dict[str, argparse.ArgumentParser]:
    actions = make_parser()._actions
    return next(dict(a.choices) for a in actions if isinstance(a, argparse._SubParsersAction))


VERBS = subparsers()
OWN_FLAGS = {
    flag for parser in VERBS.values() for action in parser._actions for flag in action.option_strings
}
SIMULATION = (ROOT / "tests" / "harness" / "world" / "simulate.py").read_text()
OWN_FLAGS |= set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', SIMULATION))
FOREIGN = {
    # Flags of other programs, by the page that names them.
    "docs/operations.md": {"--unix-socket"},
    "docs/style.md": {"--fix", "--strict"},
}


def code(text: str) -> Iterator[str]:
    """Yield what a page shows as code, line by line and span by span."""
    for match in FENCE.finditer(text):
        yield from match.group(2).splitlines()
    for match in SPAN.finditer(FENCE.sub("", text)):
        yield match.group(1)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def missing_paths(text: str) -> list[str]:
    found = [name.rstrip(".") for piece in code(text) for name in PATH.findall(piece)]
    return [name for name in found if not any(ROOT.glob(name.rstrip("/")))]


def is_defined(text: str, name: str) -> bool:
    """Tell whether a module defines a function, class, method or constant of this name."""
    return re.search(rf"^ *(?:def|class) {name}\b|^{name}\b", text, re.MULTILINE) is not None


def unknown_commands(text: str) -> list[str]:
    """Return each `nodeagent ...` of a page whose verb or flag does not exist."""
    wrong = []
    for piece in code(text):
        for rest in COMMAND.findall(piece):
            ours, _, _ = rest.partition(" -- ")
            words = ours.split()
            verb = words[0]
            if not re.fullmatch("[a-z]+", verb):
                continue
            parser = VERBS.get(verb)
            flags = set(parser._option_string_actions) if parser else set()
            given = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}
            if parser is None or given - flags:
                wrong.append(f"nodeagent {ours}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_path_that_a_page_names_exists(page):
    assert missing_paths(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_name_that_a_page_looks_for_in_a_file_is_defined_there(page):
    names = [(file, name) for piece in code(page.read_text()) for file, name in NAME.findall(piece)]
    lost = [f"{file}::{name}" for file, name in names if not is_defined((ROOT / file).read_text(), name)]
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_verb_and_flag_that_a_page_names_exists(page):
    text = page.read_text()
    assert unknown_commands(text) == []
    flags = {flag for piece in code(text) for flag in FLAG.findall(piece)}
    assert flags - OWN_FLAGS - FOREIGN.get(named(page), set()) == set()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_inside_the_repository_leads_somewhere(page):
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    lost = [t for t in targets if not (page.parent / t.partition("#")[0]).resolve().is_relative_to(ROOT)]
    lost += [t for t in targets if not (page.parent / t.partition("#")[0]).exists()]
    assert lost == []


def test_the_readme_begins_with_the_two_commands_that_run_and_test_it():
    blocks = FENCE.findall((ROOT / "README.md").read_text())
    commands = [body.split("\n")[:-1] for language, body in blocks if language == "sh"]
    assert commands == [["bin/nodeagent run --pod-manifest-path docs/examples"], ["bin/test"]]
    assert [language for language, _ in blocks[:2]] == ["sh", "sh"]


def test_every_decision_is_listed_and_numbered_without_a_gap():
    folder = ROOT / "docs" / "decisions"
    pages = sorted(page.name for page in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in pages] == list(range(1, len(pages) + 1))
    assert LINK.findall((folder / "README.md").read_text()) == pages


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`api/no_such_file.py`", ["api/no_such_file.py"]),
        ("```text\nsee runtime/nowhere/\n```", ["runtime/nowhere/"]),
        ("`api/ports/` and `/var/lib/x/bin/nodeagent` and `tests/tidy/*.py`", []),
    ],
)
def test_a_path_that_does_not_exist_is_found(text, wrong):
    assert missing_paths(text) == wrong


def test_a_name_that_is_not_defined_is_found():
    assert NAME.findall("`api/paths.py::nowhere`") == [("api/paths.py", "nowhere")]
    assert not is_defined("def somewhere(): ...\n", "nowhere")
    assert is_defined("class A:\n    def somewhere(self): ...\n", "somewhere")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`nodeagent dance`", ["nodeagent dance"]),
        ("`bin/nodeagent pods --sideways`", ["nodeagent pods --sideways"]),
        ("`nodeagent logs POD --tail 1`, `nodeagent exec p -c c -- ls --all`, `nodeagent actors --tree`", []),
    ],
)
def test_a_verb_or_flag_that_does_not_exist_is_found(text, wrong):
    assert unknown_commands(text) == wrong
