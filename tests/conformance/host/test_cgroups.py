"""The port ``cgroups``: a pod's own cgroup is removed in every hierarchy, once nothing is in it."""

import os
import subprocess
from pathlib import Path

import pytest

from api.errors import ConflictError, RejectedError
from api.host import PodCgroupRemoved, RemovePodCgroup
from runtime.drivers.host.cgroup import PodCgroups, mounted_hierarchies
from runtime.drivers.memory.logs import MemoryCgroups

PARENT = "/kubepods/burstable/pod0badcafe"


class FolderBench:
    """Plain folders in place of hierarchies."""

    def __init__(self, root):
        self.roots = (root / "cpu", root / "memory")
        for path in self.roots:
            path.mkdir()
        self.port = PodCgroups(self.roots)

    def make(self, parent):
        for root in self.roots:
            Path(f"{root}{parent}").mkdir(parents=True)

    def occupy(self, parent):
        # What is in the way of a folder's removal says what a process in a cgroup says.
        for root in self.roots[1:]:
            Path(f"{root}{parent}/process").touch()

    def leave(self, parent):
        for root in self.roots[1:]:
            Path(f"{root}{parent}/process").unlink()

    def has(self, parent):
        return any(Path(f"{root}{parent}").is_dir() for root in self.roots)


class MemoryBench:
    def __init__(self, root):
        self.port = MemoryCgroups()

    def make(self, parent):
        self.port.groups.add(parent)

    def occupy(self, parent):
        self.port.busy.add(parent)

    def leave(self, parent):
        self.port.busy.discard(parent)

    def has(self, parent):
        return parent in self.port.groups


@pytest.fixture(params=[MemoryBench, FolderBench], ids=["memory", "folders"])
def bench(request, tmp_path):
    return request.param(tmp_path)


def ask(bench, parent=PARENT):
    return bench.port.perform(RemovePodCgroup(cgroup_parent=parent), 5.0)


def test_a_pods_cgroup_is_removed_and_removing_it_again_is_fine(bench):
    bench.make(PARENT)
    bench.make("/kubepods/burstable/podother")
    for _ in range(2):
        assert ask(bench) == PodCgroupRemoved()
    assert not bench.has(PARENT)
    assert bench.has("/kubepods/burstable/podother")


def test_a_cgroup_with_a_process_in_it_stays_until_that_ended(bench):
    bench.make(PARENT)
    bench.occupy(PARENT)
    with pytest.raises(ConflictError):
        ask(bench)
    assert bench.has(PARENT)
    bench.leave(PARENT)
    assert ask(bench) == PodCgroupRemoved()
    assert not bench.has(PARENT)


@pytest.mark.parametrize(
    "parent",
    ["", "/", "/kubepods", "/kubepods/burstable", "kubepods/podx", "/kubepods/../podx", "/kubepods/podx/", "//podx",
     "/kubepods/podx/../pody", "/kubepods.slice", "/system.slice", "/pod", "/kubepods/pod\n"],
)  # fmt: skip
def test_what_is_no_pods_cgroup_is_refused(bench, parent):
    with pytest.raises(RejectedError):
        ask(bench, parent)


@pytest.mark.parametrize(
    "parent",
    ["/kubepods/podx-1", "/kubepods/besteffort/podx", "/in/there/kubepods/podx",
     "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0bad_cafe.slice"],
)  # fmt: skip
def test_the_cgroups_of_both_drivers_are_known(bench, parent):
    bench.make(parent)
    ask(bench, parent)
    assert not bench.has(parent)


def test_each_hierarchy_is_found_once_the_whole_before_a_part(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 /docker/x /short rw,relatime - cgroup cgroup rw,cpu\n"
        "33 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n"
        "34 31 0:29 / /a/longer/place/of/the/same rw,relatime - cgroup cgroup rw,cpu\n"
        "35 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
    )
    assert [str(path) for path in mounted_hierarchies(mounts)] == [
        "/sys/fs/cgroup/cpu",
        "/sys/fs/cgroup/unified",
    ]


@pytest.fixture
def own_roots():
    """Make a cgroup of this test's own in each hierarchy that permits it, to stand for its root."""
    roots = []
    for hierarchy in mounted_hierarchies():
        path = hierarchy / f"nodeagent-test-{os.getpid()}"
        try:
            path.mkdir()
        except OSError:
            continue
        roots.append(path)
    if not roots:
        pytest.skip("no cgroup hierarchy may be written here: run as root with cgroups mounted")
    yield tuple(roots)
    for root in roots:
        for folder, _, _ in os.walk(root, topdown=False):
            Path(folder).rmdir()


def test_real_cgroups_are_removed_in_every_hierarchy_once_their_process_ended(own_roots):
    port = PodCgroups(own_roots)
    groups = [root / PARENT.removeprefix("/") for root in own_roots]
    for group in groups:
        (group / "container").mkdir(parents=True)
    held = next(
        (root for root in own_roots if root.parent.name in ("pids", "freezer", "unified")), own_roots[-1]
    )
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        (held / PARENT.removeprefix("/") / "container" / "cgroup.procs").write_text(str(sleeper.pid))
        with pytest.raises(ConflictError, match=str(held)):
            port.perform(RemovePodCgroup(cgroup_parent=PARENT), 5.0)
        assert [group for group in groups if group.exists()] == [held / PARENT.removeprefix("/")]
    finally:
        sleeper.kill()
        sleeper.wait()
    assert port.perform(RemovePodCgroup(cgroup_parent=PARENT), 5.0) == PodCgroupRemoved()
    assert not any(group.exists() for group in groups)
    assert all((root / "kubepods" / "burstable").is_dir() for root in own_roots), "only the pod's own"
