"""What the kernel of this machine tells by itself: kills in its log, levels of version 1, PSI, events of version 2."""

import os
import select
import subprocess
import threading
import time
import uuid
from pathlib import Path

import pytest

from api.errors import OperatingError
from api.eviction import MemoryCrossed, Quantity, Signal, Threshold
from runtime.drivers.host.kernel import memoryevent
from runtime.drivers.host.kernel.kernelevent import KernelEvents
from runtime.drivers.host.kernel.kernellog import KMSG, KernelLog
from runtime.drivers.host.kernel.memoryevent import MemoryCrossings
from runtime.drivers.host.kernel.memorynotifier import StallNotifier
from runtime.drivers.host.usage.usagegroup import Hierarchies
from tests.harness.agent.reading import value
from tests.harness.eviction.memorygroup import MemoryGroup
from tests.harness.part import need
from tests.harness.wait import until

pytestmark = pytest.mark.real
MI = 1 << 20
NEVER_S = 10_000.0
FIRST_PID_NAMESPACE = 4_026_531_836
"""Its number is a constant of the kernel."""
EVER = Threshold(signal=Signal.PODS_MEMORY, value=Quantity(percent=100.0))
"""Crossed by any use: it tells that there was a look."""
HALF = Threshold(signal=Signal.PODS_MEMORY, value=Quantity(percent=50.0))


@pytest.fixture
def events():
    made = KernelEvents()
    before = threads()
    yield made
    made.close()
    assert threads() == before


@pytest.fixture
def group():
    made = MemoryGroup(limit_mib=200)
    yield made
    made.remove()


def threads():
    return sorted(one.name for one in threading.enumerate())


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


class Ear:
    """Takes what a stream brings."""

    def __init__(self):
        self.items, self.ends = [], []

    def listen(self, stream):
        self.undo = stream.open(self.items.append, self.ends.append)
        return self


# ---------------------------------------------------------------- the kernel's log


def readable_log():
    need("root")
    try:
        os.close(os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        pytest.skip(f"needs {KMSG}: {error.strerror}")


def has_the_kernels_pids():
    """Tell whether processes have the ids here that the kernel's log has, which knows but the first namespace."""
    return Path("/proc/self/ns/pid").readlink() == Path(f"pid:[{FIRST_PID_NAMESPACE}]")


def kill_one(group):
    """Have the kernel kill a process in the group; return its pid."""
    taker = group.taker()
    assert not group.take(taker, 300)
    assert taker.wait() == -9
    return taker.pid


def test_a_kill_is_heard_with_its_group_and_its_victim_and_older_ones_are_not(events, group):
    readable_log()
    kill_one(group)
    ear = Ear().listen(KernelLog(events))
    pid = kill_one(group)
    # Others may be short of memory on this machine at the same time.
    mine = until(lambda: [one for one in ear.items if one.group == group.name], "the kill is heard")
    assert [one.victim_group for one in mine] == [group.name]
    if has_the_kernels_pids():
        assert mine[0].pid == pid
    assert mine[0].process.startswith("python")
    assert not mine[0].is_system
    ear.undo()
    kill_one(group)
    assert [one for one in ear.items if one.group == group.name] == mine
    assert ear.ends == []


def test_who_writes_into_the_log_is_not_believed(events, group):
    readable_log()
    ear = Ear().listen(KernelLog(events))
    forged = "oom-kill:constraint=C,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=x,pid=1,uid=0"
    Path(KMSG).write_text(f"{forged}\n")
    kill_one(group)
    until(lambda: any(one.group == group.name for one in ear.items), "the true kill is heard")
    assert not any(one.pid == 1 for one in ear.items)


def test_a_log_that_is_not_there_is_told_with_its_path(events, tmp_path):
    with pytest.raises(OperatingError, match=f"could not open the kernel's log {tmp_path}/kmsg"):
        Ear().listen(KernelLog(events, str(tmp_path / "kmsg")))


def test_what_is_no_log_is_said_to_be_none_and_others_are_heard_all_the_same(events, group):
    readable_log()
    ear, other = Ear().listen(KernelLog(events)), Ear().listen(KernelLog(events, "/dev/null"))
    [failure] = until(lambda: other.ends, "it is told")
    assert failure.message.startswith("/dev/null is no log of the kernel")
    kill_one(group)
    until(lambda: any(one.group == group.name for one in ear.items), "the kill is heard")


# ---------------------------------------------------------------- levels of version 1


def crossings(events, group, *more):
    return MemoryCrossings(events, (HALF, *more), (group.name,))


def test_a_level_that_is_passed_is_told_at_once(events, group, monkeypatch):
    monkeypatch.setattr(memoryevent, "REFRESH_S", NEVER_S)
    ear = Ear().listen(crossings(events, group))
    taker = group.taker()
    assert group.take(taker, 30)
    assert ear.items == []
    assert group.take(taker, 130)
    until(lambda: ear.items, "the crossing is told", 10.0)
    assert set(ear.items) == {MemoryCrossed(thresholds=(HALF,))}
    assert ear.ends == []


def test_a_storm_is_one_look_a_second(events, group, monkeypatch):
    monkeypatch.setattr(memoryevent, "REFRESH_S", NEVER_S)
    ear = Ear().listen(crossings(events, group))
    taker = group.taker()
    began = time.monotonic()
    rounds = 0
    while time.monotonic() < began + 4.0:
        assert group.take(taker, 130)
        assert group.take(taker, 30)
        rounds += 1
    took_s = time.monotonic() - began
    assert rounds > 10
    assert 1 <= len(ear.items) <= took_s / memoryevent.CHECK_PAUSE_S + 1


def test_the_level_follows_the_page_cache(events, group, monkeypatch, tmp_path):
    """Cache that nobody uses is counted as usage and is available all the same."""
    monkeypatch.setattr(memoryevent, "REFRESH_S", 0.2)
    ear = Ear().listen(crossings(events, group, EVER))
    script = f"echo $$ >{group.folder}/cgroup.procs; head -c {120 * MI} /dev/zero >{tmp_path}/cache"
    subprocess.run(["sh", "-c", script], check=True)
    counted = group.folder / "memory.stat"
    if value(counted, "cache") - value(counted, "shmem") < 110 * MI:
        pytest.skip("needs temporary files on a disk whose pages are counted for the cgroup that wrote them")
    taker = group.taker()
    assert group.take(taker, 20)
    ear.items.clear()
    until(lambda: len(ear.items) > 2, "it is looked a few times")
    assert set(ear.items) == {MemoryCrossed(thresholds=(EVER,))}, (group.folder / "memory.stat").read_text()
    assert group.take(taker, 130)
    until(lambda: ear.items[-1].thresholds == (HALF, EVER), "the crossing is told", 10.0)


def test_a_group_that_comes_later_or_comes_again_is_watched(events, group, monkeypatch):
    monkeypatch.setattr(memoryevent, "REFRESH_S", 0.2)
    group.remove()
    ear = Ear().listen(crossings(events, group))
    for _ in range(2):
        group.make()
        taker = group.taker()
        ear.items.clear()
        assert group.take(taker, 130)
        until(lambda: ear.items, "the crossing is told", 10.0)
        group.remove()
    assert ear.ends == []


def test_the_machine_itself_is_watched_and_nothing_is_left_open(events):
    need("root")
    if Hierarchies().root("memory") is None:
        pytest.skip("needs the root of a memory hierarchy in sight")
    everything = Threshold(signal=Signal.MEMORY, value=Quantity(percent=100.0))
    nothing = Threshold(signal=Signal.MEMORY, value=Quantity(amount=1))
    before = descriptors()
    ear = Ear().listen(MemoryCrossings(events, (everything, nothing)))
    until(lambda: ear.items, "what is crossed from the beginning is told")
    assert ear.items[0] == MemoryCrossed(thresholds=(everything,))
    ear.undo()
    events.close()
    until(lambda: descriptors() == before, "every descriptor is closed")


# ---------------------------------------------------------------- PSI and version 2


@pytest.fixture
def unified():
    """A cgroup of version 2 without controllers: its events change when it is populated."""
    need("root")
    mount = Hierarchies().mounts.get("v2")
    if mount is None:
        pytest.skip("needs a mounted hierarchy of cgroup version 2")
    folder = Path(mount.point) / f"nodeagent-test-{uuid.uuid4().hex[:12]}"
    folder.mkdir()
    yield folder
    until(lambda: "populated 0" in (folder / "cgroup.events").read_text(), "it is empty")
    folder.rmdir()


@pytest.fixture
def pressure():
    path = Path("/proc/pressure/memory")
    if not path.exists():
        pytest.skip("needs PSI: boot with psi=1")
    return path


def machine_of_version_2(root, unified, pressure):
    """Make files that look like a version 2 machine whose pods may have 200 MiB; what rings is of this kernel."""
    groups = root / "cgroup"
    pods = groups / "kubepods"
    pods.mkdir(parents=True)
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/pressure").mkdir()
    (root / "proc/pressure/memory").symlink_to(pressure)
    (root / "proc/self/mountinfo").write_text(f"31 23 0:28 / {groups} rw - cgroup2 cgroup2 rw\n")
    (root / "proc/meminfo").write_text("MemTotal: 1048576 kB\nMemFree: 524288 kB\n")
    for folder in (groups, pods):
        (folder / "memory.stat").write_text("anon 0\nfile 0\ninactive_file 0\n")
    (pods / "memory.current").write_text(str(10 * MI))
    (pods / "memory.max").write_text(str(200 * MI))
    (pods / "memory.pressure").symlink_to(pressure)
    (pods / "memory.events").symlink_to(unified / "cgroup.events")
    return pods


def test_an_event_of_a_version_2_group_is_looked_after_at_once(
    events, unified, pressure, tmp_path, monkeypatch
):
    """The files are made by hand, since no version 2 hierarchy here has controllers; the event is a real one of version 2."""
    monkeypatch.setattr(memoryevent, "REFRESH_S", NEVER_S)
    pods = machine_of_version_2(tmp_path, unified, pressure)
    machine = Threshold(signal=Signal.MEMORY, value=Quantity(amount=MI))
    stream = MemoryCrossings(events, (machine, HALF, EVER), ("/kubepods",), proc=str(tmp_path / "proc"))
    ear = Ear().listen(stream)
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        until(lambda: len(ear.items) == 1, "it was looked in the beginning")
        (unified / "cgroup.procs").write_text(str(sleeper.pid))
        until(lambda: len(ear.items) == 2, "it was looked at the event")
        assert set(ear.items) == {MemoryCrossed(thresholds=(EVER,))}
        (pods / "memory.current").write_text(str(150 * MI))
    finally:
        sleeper.kill()
        sleeper.wait()
    until(lambda: ear.items[-1].thresholds == (HALF, EVER), "the crossing is told", 10.0)


def test_stalls_ring(pressure):
    """PSI of the processor, which can be had at will: more programs than processors; the file differs in what stalls."""
    notifier = StallNotifier(str(pressure.with_name("cpu")))
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        fired, _, _ = select.select([notifier], [], [], 60.0)
    finally:
        for one in busy:
            one.kill()
            one.wait()
    assert fired == [notifier]
    notifier.reset()
    # The kernel rings once in a window.
    assert select.select([notifier], [], [], 0.0)[0] == []
    notifier.close()


def test_a_notifier_that_cannot_be_opened_leaves_nothing_open(pressure):
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        StallNotifier(str(pressure), "/nowhere/memory.events")
    assert descriptors() == before


def test_a_machine_that_tells_nothing_is_said_to(events, tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text("")
    (tmp_path / "meminfo").write_text("MemTotal: 1048576 kB\nMemFree: 524288 kB\n")
    machine = Threshold(signal=Signal.MEMORY, value=Quantity(amount=MI))
    before = descriptors()
    with pytest.raises(OperatingError, match="the kernel does not tell of the machine's memory"):
        Ear().listen(MemoryCrossings(events, (machine,), proc=str(tmp_path)))
    assert descriptors() == before
