"""The port ``usage``: a row for each thing asked about, in that order, and none that costs another one."""

import os
import threading

import pytest

from api.ids import Uid
from api.ports.usage import (
    ContainerPlace,
    DiskPlace,
    FolderPlace,
    MeasureDisks,
    MeasureFolders,
    PodPlace,
    ReadNode,
    ReadPods,
)
from runtime.drivers.host.usage.usage import UsageReader
from runtime.drivers.memory.usage import Load, MemoryUsageReader
from runtime.kernel.sim import VirtualTime

GONE = 0
"""The number of no process."""


class RealBench:
    def __init__(self, root):
        self.root = root
        self.gate = threading.Event()
        self.hanging = set()
        self.port = UsageReader(row_s=0.2, statvfs=self.statvfs)
        self.path = str(root)

    def statvfs(self, path):
        if path in self.hanging:
            self.gate.wait(60)
        return os.statvfs(path)

    def live(self, uid):
        return ContainerPlace(id=f"x://{uid}-0123456789abcdef", pid=os.getpid())

    def later(self):
        sum(range(300_000))

    def hang_disk(self, path):
        self.hanging.add(path)

    def missing_disk(self):
        return str(self.root / "nowhere")

    def fill(self, uid, name, size):
        folder = self.root / f"pods/{uid}/volumes/kubernetes.io~empty-dir/{name}"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(os.urandom(size))
        return self.folders(uid)

    def folders(self, uid):
        return FolderPlace(
            uid=uid, pod_folder=f"{self.root}/pods/{uid}", log_folder=f"{self.root}/logs/{uid}"
        )


class MemoryBench:
    def __init__(self, root):
        self.time = VirtualTime(1)
        self.port = MemoryUsageReader(self.time)
        self.gate = threading.Event()
        self.path = "/var/lib/nodeagent"

    def live(self, uid):
        return ContainerPlace(id=f"memory://{uid}", pid=1000)

    def later(self):
        self.time.advance(self.time.now() + 1.0)

    def hang_disk(self, path):
        self.port.missing_disks[path] = "hangs for 2.0 s now"

    def missing_disk(self):
        self.port.missing_disks["/nowhere"] = "no such file or directory"
        return "/nowhere"

    def fill(self, uid, name, size):
        self.port.loads[uid] = Load(volumes={name: size}, log_bytes=0)
        return self.folders(uid)

    def folders(self, uid):
        return FolderPlace(uid=uid, pod_folder=f"/pods/{uid}", log_folder=f"/logs/{uid}")


@pytest.fixture(params=[RealBench, MemoryBench], ids=["real", "memory"])
def bench(request, tmp_path):
    made = request.param(tmp_path)
    yield made
    made.gate.set()


def ask(bench, call):
    return bench.port.perform(call, 30.0)


def test_the_machine_has_processors_memory_and_threads(bench):
    node = ask(bench, ReadNode())
    assert node.cpus >= 1
    assert 0 < node.memory.working_set_bytes <= node.memory.usage_bytes <= node.memory_bytes
    assert node.memory.available_bytes == node.memory_bytes - node.memory.working_set_bytes
    assert 0 < node.pids < node.pid_limit
    assert node.troubles == ()


def test_time_goes_on_from_one_reading_to_the_next(bench):
    first = ask(bench, ReadNode())
    bench.later()
    second = ask(bench, ReadNode())
    assert second.cpu.clock_ns > first.cpu.clock_ns
    assert second.cpu.total_ns >= first.cpu.total_ns
    assert second.cpu.at >= first.cpu.at


def test_each_pod_has_its_row_in_the_order_asked(bench):
    uids = [Uid(uid) for uid in ("b", "a", "c")]
    call = ReadPods(pods=tuple(PodPlace(uid=uid, containers=(bench.live(uid),)) for uid in uids))
    rows = ask(bench, call).rows
    assert [row.uid for row in rows] == uids
    for row in rows:
        [container] = row.containers
        assert container.memory.working_set_bytes > 0
        assert container.cpu is not None
        assert container.pids >= 1
        assert (row.trouble, container.trouble) == ("", "")


def test_a_container_that_is_gone_says_so_and_costs_no_other(bench):
    gone = ContainerPlace(id="x://gone-0123456789", pid=GONE)
    there = bench.live("a")
    [row] = ask(bench, ReadPods(pods=(PodPlace(uid=Uid("a"), containers=(gone, there)),))).rows
    assert [container.id for container in row.containers] == [gone.id, there.id]
    assert row.containers[0].memory is None
    assert row.containers[0].trouble
    assert row.containers[1].memory is not None


def test_a_file_system_has_its_size_and_its_inodes(bench):
    [row] = ask(bench, MeasureDisks(disks=(DiskPlace(name="nodefs", path=bench.path),))).rows
    assert (row.name, row.path, row.trouble) == ("nodefs", bench.path, "")
    assert row.device >= 0
    assert 0 < row.fs.available_bytes <= row.fs.capacity_bytes
    assert row.fs.used_bytes + row.fs.available_bytes <= row.fs.capacity_bytes


@pytest.mark.parametrize("what", ["hangs", "missing"])
def test_a_file_system_that_cannot_be_measured_costs_its_own_row_only(bench, what):
    bad = f"{bench.path}/hung" if what == "hangs" else bench.missing_disk()
    if what == "hangs":
        bench.hang_disk(bad)
    disks = (DiskPlace(name="bad", path=bad), DiskPlace(name="good", path=bench.path))
    for _ in range(2):
        rows = ask(bench, MeasureDisks(disks=disks)).rows
        assert [row.name for row in rows] == ["bad", "good"]
        assert rows[0].fs is None
        assert rows[0].trouble
        assert rows[1].fs is not None


def test_volumes_are_measured_by_name(bench):
    place = bench.fill(Uid("a"), "cache", 1 << 20)
    empty = bench.folders(Uid("b"))
    rows = ask(bench, MeasureFolders(pods=(empty, place))).rows
    assert [row.uid for row in rows] == ["b", "a"]
    [volume] = rows[1].volumes
    assert (volume.kind, volume.name) == ("empty-dir", "cache")
    assert 1 << 20 <= volume.used_bytes < 2 << 20
    assert volume.inodes >= 1
    assert rows[0].volumes == ()
    assert all(row.measured for row in rows)


def test_nothing_asked_about_is_nothing_read(bench):
    assert ask(bench, ReadPods()).rows == ()
    assert ask(bench, MeasureFolders(pods=())).rows == ()


def test_another_call_is_a_bug(bench):
    with pytest.raises(TypeError):
        ask(bench, PodPlace(uid=Uid("a")))
