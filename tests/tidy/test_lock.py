"""The lock files name what pyproject.toml asks for, one version of each, by the hashes of its files and by nothing else."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUN = ROOT / "requirements.lock"
DEV = ROOT / "requirements-dev.lock"
ASKED = {RUN: PROJECT["dependencies"], DEV: PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]}

ENTRY = re.compile(r"([a-z0-9-]+)==([\w.]+)(?: ; ([^\\]+))?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")
COMMENT = re.compile(r"#[^\n]*\n")


def locked(path):
    """Return version and hashes of each package of a lock file, and what of it is neither package nor comment."""
    text = COMMENT.sub("", path.read_text())
    entries = {name: (version, hashes.split()[1::2]) for name, version, _, hashes in ENTRY.findall(text)}
    return entries, ENTRY.sub("", text)


@pytest.mark.parametrize("path", ASKED, ids=lambda path: path.name)
def test_a_lock_file_has_versions_and_hashes_and_no_address(path):
    entries, rest = locked(path)
    assert rest == ""
    assert entries
    assert "://" not in path.read_text()


@pytest.mark.parametrize("path", ASKED, ids=lambda path: path.name)
def test_what_the_project_asks_for_is_locked_at_a_version_that_it_permits(path):
    entries, _ = locked(path)
    asked = {canonicalize_name(one.name): one for one in map(Requirement, ASKED[path])}
    assert [name for name in asked if name not in entries] == []
    assert [name for name, one in asked.items() if not one.specifier.contains(entries[name][0])] == []


def test_the_checks_run_on_what_the_agent_runs_on():
    run, dev = locked(RUN)[0], locked(DEV)[0]
    assert {name: dev.get(name) for name in run} == run
