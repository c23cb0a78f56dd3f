"""The port ``cgroups``: the node's and the pods' cgroups are made, given values, and removed, in every hierarchy."""

import errno
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from api.errors import ConflictError, RejectedError
from api.ports.cgroups import (
    UNLIMITED,
    CgroupLimits,
    EnsureNodeCgroups,
    EnsurePodCgroup,
    NodeCgroup,
    NodeCgroupsMade,
    PodCgroupMade,
    PodCgroupRemoved,
    RemovePodCgroup,
)
from runtime.drivers.host.cgroups.cgroup import PodCgroups
from runtime.drivers.host.cgroups.cgroupfile import mounted_hierarchies
from runtime.drivers.memory.cgroup import MemoryCgroups
from tests.harness.cgroups import NO_LIMIT, own_hierarchies, remove_hierarchies, value, version_1, version_2
from tests.harness.wait import until

PARENT = "/kubepods/burstable/pod0badcafe"
LIMITS = CgroupLimits(
    cpu_shares=512,
    cpu_weight=20,
    cpu_quota_us=50_000,
    cpu_period_us=100_000,
    memory_bytes=64 << 20,
    pids=40,
    hugepages=(("2MB", 0),),
)
OPEN = CgroupLimits(
    cpu_shares=2,
    cpu_weight=1,
    cpu_quota_us=UNLIMITED,
    cpu_period_us=100_000,
    memory_bytes=UNLIMITED,
    pids=UNLIMITED,
)


class MemoryBench:
    def __init__(self, root):
        self.port = MemoryCgroups()

    def make(self, parent):
        self.port.groups[parent] = CgroupLimits()

    def occupy(self, parent):
        self.port.busy.add(parent)

    def leave(self, parent):
        self.port.busy.discard(parent)

    def has(self, parent):
        return parent in self.port.groups

    def shows(self, path, limits):
        given = self.port.groups[path]
        # What was never limited is not limited.
        return all(
            (getattr(given, field) or UNLIMITED) == getattr(limits, field)
            for field in ("cpu_shares", "cpu_quota_us", "memory_bytes", "pids")
        )

    def refuse(self):
        self.port.refused = True

    def allow(self):
        self.port.refused = False


class FolderBench:
    """Plain folders in place of hierarchies."""

    def __init__(self, root):
        self.hierarchies = self.build(root)
        self.port = PodCgroups(self.hierarchies)

    def make(self, parent):
        for one in self.hierarchies:
            Path(one.folder(parent)).mkdir(parents=True)

    def occupy(self, parent):
        # What is in the way of a folder's removal says what a process in a cgroup says.
        Path(self.hierarchies[-1].folder(parent), "process").touch()

    def leave(self, parent):
        Path(self.hierarchies[-1].folder(parent), "process").unlink()

    def has(self, parent):
        return any(one.has(parent) for one in self.hierarchies)

    def shows(self, path, limits):
        texts = self.texts(limits)
        return {file: value(self.hierarchies, path, file) for file in texts} == texts

    def refuse(self):
        self.port._hierarchies = tuple(
            msgspec.structs.replace(one, make=read_only) for one in self.hierarchies
        )

    def allow(self):
        self.port._hierarchies = self.hierarchies


def read_only(path):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


class Version1Bench(FolderBench):
    @staticmethod
    def build(root):
        return version_1(root)

    @staticmethod
    def texts(limits):
        free = limits.memory_bytes == UNLIMITED
        return {
            "cpu.shares": str(limits.cpu_shares),
            "cpu.cfs_quota_us": str(limits.cpu_quota_us),
            "cpu.cfs_period_us": str(limits.cpu_period_us),
            "memory.limit_in_bytes": NO_LIMIT if free else str(limits.memory_bytes),
            "pids.max": "max" if limits.pids == UNLIMITED else str(limits.pids),
        }


class Version2Bench(FolderBench):
    @staticmethod
    def build(root):
        return version_2(root)

    @staticmethod
    def texts(limits):
        quota = "max" if limits.cpu_quota_us == UNLIMITED else limits.cpu_quota_us
        return {
            "cpu.weight": str(limits.cpu_weight),
            "cpu.max": f"{quota} {limits.cpu_period_us}",
            "memory.max": "max" if limits.memory_bytes == UNLIMITED else str(limits.memory_bytes),
            "pids.max": "max" if limits.pids == UNLIMITED else str(limits.pids),
        }


class RealBench(FolderBench):
    """Cgroups of this test's own on the machine that runs it."""

    @staticmethod
    def build(root):
        return own_hierarchies()

    def texts(self, limits):
        controllers = {name for one in self.hierarchies for name in one.controllers}
        first = Version1Bench.texts(limits)
        second = Version2Bench.texts(limits)
        unified = any(one.unified and "memory" in one.controllers for one in self.hierarchies)
        texts = second if unified else first
        return {file: text for file, text in texts.items() if file.partition(".")[0] in controllers}

    def close(self):
        remove_hierarchies(self.hierarchies)


@pytest.fixture(
    params=[
        MemoryBench,
        Version1Bench,
        Version2Bench,
        pytest.param(RealBench, marks=pytest.mark.real),
    ],
    ids=["memory", "version-1", "version-2", "real"],
)
def bench(request, tmp_path):
    made = request.param(tmp_path)
    if request.param is RealBench and not made.hierarchies:
        pytest.skip("no cgroup hierarchy may be written here: run as root with cgroups mounted")
    yield made
    getattr(made, "close", lambda: None)()


def ask(bench, parent=PARENT):
    return bench.port.perform(RemovePodCgroup(cgroup_parent=parent), 5.0)


def ensure(bench, limits=LIMITS, parent=PARENT):
    return bench.port.perform(EnsurePodCgroup(cgroup_parent=parent, limits=limits), 5.0)


def ensure_node(bench, *groups):
    return bench.port.perform(EnsureNodeCgroups(groups=groups), 5.0)


# ---------------------------------------------------------------- making


def test_a_pods_cgroup_is_made_with_its_values_and_making_it_again_changes_nothing(bench):
    assert ensure(bench) == PodCgroupMade(made=True)
    assert bench.shows(PARENT, LIMITS)
    assert ensure(bench) == PodCgroupMade()
    assert bench.shows(PARENT, LIMITS)


def test_other_values_are_given_and_limits_are_taken_away(bench):
    ensure(bench, OPEN)
    assert bench.shows(PARENT, OPEN)
    ensure(bench)
    assert bench.shows(PARENT, LIMITS)
    assert not ensure(bench, OPEN).unapplied
    assert bench.shows(PARENT, OPEN)


def test_a_value_of_zero_is_left_as_it_is(bench):
    ensure(bench)
    ensure(bench, CgroupLimits(pids=50))
    assert bench.shows(PARENT, msgspec.structs.replace(LIMITS, pids=50))


def test_the_nodes_cgroups_are_made_a_parent_before_its_children(bench):
    groups = (
        NodeCgroup(path="/kubepods", limits=CgroupLimits(cpu_shares=2048, cpu_weight=79, pids=1000)),
        NodeCgroup(path="/kubepods/burstable", limits=CgroupLimits(cpu_shares=300, cpu_weight=12)),
        NodeCgroup(path="/kubepods/besteffort", limits=CgroupLimits(cpu_shares=2, cpu_weight=1)),
    )
    for _ in range(2):
        assert ensure_node(bench, *groups) == NodeCgroupsMade()
    ensure(bench)
    assert all(bench.has(group.path) for group in groups)
    wanted = msgspec.structs.replace(OPEN, cpu_shares=300, cpu_weight=12)
    assert bench.shows("/kubepods/burstable", wanted)
    assert bench.shows(PARENT, LIMITS)


def test_a_cgroup_of_the_operators_is_given_values_and_never_made(bench):
    mine = NodeCgroup(path="/mine", limits=CgroupLimits(cpu_shares=64, cpu_weight=3), must_exist=True)
    told = ensure_node(bench, mine).unapplied
    assert {path for path, _ in told} == {"/mine"}
    assert all("does not exist" in text for _, text in told)
    assert not bench.has("/mine")
    ensure_node(bench, NodeCgroup(path="/mine"))
    assert ensure_node(bench, mine) == NodeCgroupsMade()
    assert bench.shows("/mine", msgspec.structs.replace(OPEN, cpu_shares=64, cpu_weight=3))


def test_what_may_not_be_written_is_said_and_is_no_failure(bench):
    bench.refuse()
    assert all(
        PARENT.partition("/pod")[0] in text or "cannot be made" in text for text in ensure(bench).refused
    )
    assert ensure(bench).refused
    assert ensure_node(bench, NodeCgroup(path="/kubepods")).refused
    assert not bench.has("/kubepods")
    bench.allow()
    assert ensure(bench) == PodCgroupMade(made=True)


@pytest.mark.parametrize("path", ["", "/", "kubepods", "/a/../b", "/a//b", "/a/"])
def test_what_is_no_path_is_refused(bench, path):
    with pytest.raises(RejectedError):
        ensure_node(bench, NodeCgroup(path=path))
    with pytest.raises(RejectedError):
        ensure(bench, parent=path)


# ---------------------------------------------------------------- removing


def test_a_pods_cgroup_is_removed_and_removing_it_again_is_fine(bench):
    ensure(bench)
    ensure(bench, parent="/kubepods/burstable/podother")
    for _ in range(2):
        assert ask(bench) == PodCgroupRemoved()
    assert not bench.has(PARENT)
    assert bench.has("/kubepods/burstable/podother")


# A process of the machine would be killed with its cgroup; one that cannot be killed is not to be had.
@pytest.mark.parametrize(
    "bench",
    [MemoryBench, Version1Bench, Version2Bench],
    ids=["memory", "version-1", "version-2"],
    indirect=True,
)
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
    with pytest.raises(RejectedError):
        ensure(bench, parent=parent)


@pytest.mark.parametrize(
    "parent",
    ["/kubepods/podx-1", "/kubepods/besteffort/podx", "/in/there/kubepods/podx",
     "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0bad_cafe.slice"],
)  # fmt: skip
def test_the_cgroups_of_both_drivers_are_known(bench, parent):
    bench.make(parent)
    ask(bench, parent)
    assert not bench.has(parent)


# ---------------------------------------------------------------- the machine's


def test_each_hierarchy_is_found_once_the_whole_before_a_part(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 /docker/x /short rw,relatime - cgroup cgroup rw,cpu\n"
        "33 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        "34 31 0:29 / /a/longer/place/of/the/same rw,relatime - cgroup cgroup rw,cpu\n"
        "35 31 0:38 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n"
        "36 31 0:39 / /nowhere/unified rw,relatime - cgroup2 cgroup2 rw\n"
    )
    found = [(str(one.root), one.unified, one.controllers) for one in mounted_hierarchies(mounts)]
    assert found == [
        ("/nowhere/unified", True, ()),
        ("/sys/fs/cgroup/cpu", False, ("rw", "cpu", "cpuacct")),
        ("/sys/fs/cgroup/systemd", False, ("rw", "xattr", "name=systemd")),
    ]


def test_a_cpuset_of_version_1_takes_its_parents_processors_all_the_way_down(tmp_path):
    hierarchies = version_1(tmp_path, "cpuset", "pids")
    PodCgroups(hierarchies).perform(EnsurePodCgroup(cgroup_parent=PARENT), 5.0)
    assert [value(hierarchies, path, "cpuset.cpus") for path in ("/kubepods", PARENT)] == ["0-3", "0-3"]
    assert value(hierarchies, PARENT, "cpuset.mems") == "0"


def test_controllers_that_no_hierarchy_has_are_named(tmp_path):
    port = PodCgroups(version_1(tmp_path, "cpu", "name=systemd"))
    made = port.perform(EnsureNodeCgroups(groups=(NodeCgroup(path="/kubepods"),)), 5.0)
    assert made == NodeCgroupsMade(missing=("memory", "pids"))


def test_a_value_that_the_kernel_does_not_take_is_told_and_the_others_are_given(tmp_path):
    hierarchies = version_1(tmp_path, "memory", "pids")
    port = PodCgroups(hierarchies)
    ensured = EnsurePodCgroup(cgroup_parent=PARENT, limits=LIMITS)
    port.perform(ensured, 5.0)
    limit = Path(hierarchies[0].folder(PARENT)) / "memory.limit_in_bytes"
    limit.unlink()
    limit.mkdir()
    (told,) = port.perform(ensured, 5.0).unapplied
    assert told == f"{limit}: could not be set to {LIMITS.memory_bytes}: Is a directory"
    assert value(hierarchies, PARENT, "pids.max") == "40"


def test_what_was_made_and_is_empty_goes_when_the_agent_goes(tmp_path):
    hierarchies = version_1(tmp_path, "pids")
    for one in hierarchies:
        Path(one.folder("/there")).mkdir()
    port = PodCgroups(hierarchies, own_root="/mine")
    groups = ("/there", "/kubepods", "/kubepods/burstable", "/mine/kubepods")
    port.perform(EnsureNodeCgroups(groups=tuple(NodeCgroup(path=path) for path in groups)), 5.0)
    port.perform(EnsurePodCgroup(cgroup_parent=PARENT), 5.0)
    port.close()
    assert [path for path in (*groups, "/mine") if hierarchies[0].has(path)] == [
        "/there",
        "/kubepods",
        "/kubepods/burstable",
    ]


@pytest.mark.real
def test_what_is_left_in_a_pods_cgroup_is_killed_with_it():
    hierarchies = own_hierarchies()
    if not hierarchies:
        pytest.skip("no cgroup hierarchy may be written here: run as root with cgroups mounted")
    port = PodCgroups(hierarchies)
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        port.perform(EnsurePodCgroup(cgroup_parent=PARENT, limits=LIMITS), 5.0)
        below = [Path(one.folder(PARENT), "container") for one in hierarchies]
        for one, place in zip(hierarchies, below, strict=True):
            place.mkdir(parents=True)
            if not set(one.controllers).isdisjoint(("pids", "memory")) or one.unified:
                (place / "cgroup.procs").write_text(str(sleeper.pid))
        assert port.perform(RemovePodCgroup(cgroup_parent=PARENT), 5.0) == PodCgroupRemoved()
        assert sleeper.wait(10) == -9
        assert not any(one.has(PARENT) for one in hierarchies)
        assert all(one.has("/kubepods/burstable") for one in hierarchies), "only the pod's own is removed"
    finally:
        sleeper.kill()
        sleeper.wait()
        until(lambda: removed(hierarchies), "what the test made is gone", 10.0)


def removed(hierarchies):
    """Remove what the test made; tell whether that was possible already."""
    try:
        remove_hierarchies(hierarchies)
    except OSError:
        return False
    return True


def test_a_value_that_may_not_be_written_is_refused_with_its_hierarchy(tmp_path, monkeypatch):
    hierarchies = version_1(tmp_path, "pids")
    port = PodCgroups(hierarchies)
    port.perform(EnsurePodCgroup(cgroup_parent=PARENT), 5.0)
    # Somebody else made it, in a hierarchy that is read-only for us.
    monkeypatch.setattr("runtime.drivers.host.cgroups.cgroupfile.write", lambda path, _: read_only(path))
    made = port.perform(EnsurePodCgroup(cgroup_parent=PARENT, limits=LIMITS), 5.0)
    file = Path(hierarchies[0].folder(PARENT)) / "pids.max"
    assert made == PodCgroupMade(refused=(f"{file}: could not be set to 40: Read-only file system",))
