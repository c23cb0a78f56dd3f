"""Which process a sandbox that was just made is: what its cgroup says, and nothing where it does not say it."""

import os
from pathlib import Path

import pytest

from runtime.drivers.cri.process import is_of, only_process

BOX = "5b0e1f"


@pytest.fixture
def roots(tmp_path):
    return (str(tmp_path / "pids"), str(tmp_path / "unified"))


def put(root, text, parent="/kubepods/poda"):
    folder = Path(f"{root}{parent}/{BOX}")
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text(text)


@pytest.mark.parametrize("version", [0, 1])
def test_its_one_process_is_told_by_either_version(roots, version):
    put(roots[version], "4711\n")
    assert only_process("/kubepods/poda", BOX, roots) == 4711


@pytest.mark.parametrize("text", ["", "4711\n4712\n", "none\n"])
def test_what_is_no_one_process_is_not_told(roots, text):
    put(roots[0], text)
    assert only_process("/kubepods/poda", BOX, roots) == 0


def test_the_pods_own_cgroup_is_not_taken_for_the_sandboxs(roots):
    put(roots[0], "4711\n", parent="")
    assert only_process("", BOX, roots) == 0
    assert only_process(f"/{BOX}", "", roots) == 0


def test_a_process_is_of_what_its_cgroup_names():
    path = Path("/proc/self/cgroup").read_text().splitlines()[0].rpartition(":")[2]
    assert is_of(os.getpid(), path)
    assert not is_of(os.getpid(), "no-such-container")
