"""Cgroups of containers and pods: v1, v2, both and none, on files that look like a kernel's."""

import pytest

from api.ports.usage import ContainerPlace, PodPlace, ReadNode, ReadPods
from api.usage import UsageSource
from runtime.drivers.host.usage.usage import UsageReader
from runtime.drivers.host.usage.usagefile import field, kibibytes, network
from runtime.drivers.host.usage.usagegroup import Hierarchies, is_pods, own_part

ID = "0123456789abcdef" * 4
UID = "5c1e0000-aaaa-4bbb-8ccc-1234567890ab"
MIB = 1 << 20


class Kernel:
    """A proc folder and cgroup hierarchies of plain files."""

    def __init__(self, root):
        self.proc, self.groups = root / "proc", root / "cgroup"
        self.mounts = []
        self.write(self.proc / "self/mountinfo", "")
        self.write(self.proc / "meminfo", "MemTotal: 8192 kB\nMemFree: 2048 kB\nInactive(file): 1024 kB\n")
        self.write(self.proc / "stat", "cpu  10 20 30 400 50 1 2 3 0 0\nbtime 1700000000\n")
        self.write(self.proc / "loadavg", "0.10 0.20 0.30 3/70000 999\n")
        self.write(self.proc / "sys/kernel/pid_max", "32768\n")
        self.write(self.proc / "sys/kernel/threads-max", "99999\n")

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def mount(self, name, kind, options, root="/"):
        point = self.groups / name
        point.mkdir(parents=True, exist_ok=True)
        self.mounts.append(f"31 23 0:28 {root} {point} rw - {kind} {kind} rw,{options}")
        self.write(self.proc / "self/mountinfo", "\n".join(self.mounts) + "\n")
        return point

    def process(self, pid, *groups, net=True):
        self.write(self.proc / f"{pid}/cgroup", "\n".join(groups) + "\n")
        columns = ["S", "1", *["0"] * 9, "150", "50", "0", "0", *["0"] * 3, "0", "777", "0", "500", "0"]
        self.write(self.proc / f"{pid}/stat", f"{pid} (a b) c) {' '.join(columns)}\n")
        self.write(self.proc / f"{pid}/statm", "1000 500 200 0 0 0 0\n")
        if net:
            head = "Inter-|\n face |\n"
            row = "eth0: 100 1 2 0 0 0 0 0 300 1 4 0 0 0 0 0\n    lo: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n"
            self.write(self.proc / f"{pid}/net/dev", head + row)

    def v1(self, path, *, cpu=5_000_000_000, memory=20 * MIB, inactive=4 * MIB, limit=64 * MIB):
        self.write(self.groups / f"cpuacct{path}/cpuacct.usage", f"{cpu}\n")
        folder = self.groups / f"memory{path}"
        self.write(folder / "memory.usage_in_bytes", f"{memory}\n")
        self.write(folder / "memory.limit_in_bytes", f"{limit}\n")
        stat = "cache 1\nrss 2\ninactive_file 1\ntotal_cache 9\ntotal_rss 3145728\ntotal_swap 0\n"
        stat += f"total_pgfault 11\ntotal_pgmajfault 2\ntotal_inactive_file {inactive}\n"
        self.write(folder / "memory.stat", stat)
        self.write(self.groups / f"pids{path}/pids.current", "6\n")

    def v2(self, path, *, memory=20 * MIB, controllers=True):
        folder = self.groups / f"unified{path}"
        self.write(folder / "cpu.stat", "usage_usec 5000000\nuser_usec 1\nsystem_usec 2\n")
        self.write(folder / "cgroup.procs", "42\n")
        if controllers:
            self.write(folder / "memory.current", f"{memory}\n")
            self.write(folder / "memory.max", "max\n")
            stat = f"anon 3145728\nfile 7340032\ninactive_file {4 * MIB}\npgfault 11\npgmajfault 2\n"
            self.write(folder / "memory.stat", stat)
            self.write(folder / "memory.swap.current", "4096\n")
            self.write(folder / "memory.swap.max", "8192\n")
            self.write(folder / "pids.current", "6\n")

    def read(self, *containers, network=True):
        places = tuple(ContainerPlace(id=f"containerd://{i}", pid=p) for i, p in containers)
        call = ReadPods(pods=(PodPlace(uid=UID, containers=places, network=network),))
        [row] = UsageReader(proc=str(self.proc)).perform(call, 10.0).rows
        return row

    def node(self):
        return UsageReader(proc=str(self.proc)).perform(ReadNode(), 10.0)


@pytest.fixture
def kernel(tmp_path):
    return Kernel(tmp_path)


def mount_v1(kernel):
    for name in ("cpuacct", "memory", "pids"):
        kernel.mount(name, "cgroup", name)


POD = f"/kubepods/burstable/pod{UID}"


def test_v1_counts_processor_memory_and_tasks_for_container_and_pod(kernel):
    mount_v1(kernel)
    kernel.process(42, *(f"{n}:{name}:{POD}/{ID}" for n, name in enumerate(("cpuacct", "memory", "pids"))))
    kernel.v1(f"{POD}/{ID}")
    kernel.v1(POD, cpu=6_000_000_000, memory=30 * MIB, limit=(1 << 63) - 4096)
    row = kernel.read((ID, 42))
    [container] = row.containers
    assert container.cpu.total_ns == 5_000_000_000
    assert container.memory.usage_bytes == 20 * MIB
    assert container.memory.working_set_bytes == 16 * MIB
    assert container.memory.available_bytes == 48 * MIB
    assert container.memory.rss_bytes == 3 * MIB
    assert (container.memory.page_faults, container.memory.major_page_faults) == (11, 2)
    assert container.pids == 6
    assert container.source == UsageSource.CGROUP_V1
    assert row.group.cpu.total_ns == 6_000_000_000
    assert row.group.memory.working_set_bytes == 26 * MIB
    # No limit to speak of: nothing is available below it.
    assert row.group.memory.available_bytes is None
    assert [interface.name for interface in row.network.interfaces] == ["eth0"]
    [eth0] = row.network.interfaces
    assert (eth0.rx_bytes, eth0.rx_errors, eth0.tx_bytes, eth0.tx_errors) == (100, 2, 300, 4)


def test_kills_for_want_of_memory_are_read_of_containers(kernel):
    mount_v1(kernel)
    kernel.process(42, *(f"{n}:{name}:{POD}/{ID}" for n, name in enumerate(("cpuacct", "memory", "pids"))))
    kernel.v1(f"{POD}/{ID}")
    assert kernel.read((ID, 42)).containers[0].oom_kills is None
    control = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
    kernel.write(kernel.groups / f"memory{POD}/{ID}/memory.oom_control", control)
    assert kernel.read((ID, 42)).containers[0].oom_kills == 3


def test_kills_for_want_of_memory_are_read_of_containers_on_v2(kernel):
    kernel.mount("unified", "cgroup2", "nsdelegate")
    kernel.process(42, f"0::{POD}/{ID}")
    kernel.v2(f"{POD}/{ID}")
    events = "low 0\nhigh 0\nmax 9\noom 5\noom_kill 4\noom_group_kill 0\n"
    kernel.write(kernel.groups / f"unified{POD}/{ID}/memory.events", events)
    assert kernel.read((ID, 42)).containers[0].oom_kills == 4


def test_v2_counts_the_same_also_below_systemds_slices(kernel):
    kernel.mount("unified", "cgroup2", "nsdelegate")
    slices = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
    kernel.process(42, f"0::{slices}/cri-containerd-{ID}.scope")
    kernel.v2(f"{slices}/cri-containerd-{ID}.scope")
    kernel.v2(slices, memory=30 * MIB)
    row = kernel.read((ID, 42))
    [container] = row.containers
    assert container.cpu.total_ns == 5_000_000_000
    assert container.memory.working_set_bytes == 16 * MIB
    assert container.memory.available_bytes is None
    assert (container.swap.usage_bytes, container.swap.available_bytes) == (4096, 4096)
    assert container.source == UsageSource.CGROUP_V2
    assert row.group.memory.usage_bytes == 30 * MIB


def test_where_v2_has_no_controllers_processes_are_counted(kernel):
    kernel.mount("unified", "cgroup2", "rw")
    kernel.process(42, f"0::/nodeagent/box/{ID}")
    kernel.v2(f"/nodeagent/box/{ID}", controllers=False)
    row = kernel.read((ID, 42))
    [container] = row.containers
    assert container.cpu.total_ns == 5_000_000_000
    assert container.memory.working_set_bytes == 500 * 4096
    assert container.memory.rss_bytes == 300 * 4096
    assert container.pids == 1
    assert container.source == UsageSource.PROCESSES
    assert row.group is None


def test_without_any_cgroup_a_process_and_its_descendants_are_counted(kernel):
    kernel.process(42, "0::/")
    kernel.process(43, "0::/")
    text = (kernel.proc / "43/stat").read_text()
    (kernel.proc / "43/stat").write_text(text.replace(" S 1 ", " S 42 "))
    row = kernel.read((ID, 42), network=False)
    [container] = row.containers
    assert container.pids == 2
    assert container.memory.working_set_bytes == 2 * 500 * 4096
    assert container.cpu.total_ns == 2 * 200 * 10_000_000
    assert row.network is None


def test_a_cgroup_that_others_share_is_not_the_containers_own(kernel):
    mount_v1(kernel)
    kernel.process(42, *(f"{n}:{name}:/user.slice" for n, name in enumerate(("cpuacct", "memory", "pids"))))
    kernel.v1("/user.slice")
    [container] = kernel.read((ID, 42)).containers
    assert container.source == UsageSource.PROCESSES


def test_a_process_that_is_gone_costs_its_own_row_only(kernel):
    mount_v1(kernel)
    kernel.process(42, *(f"{n}:{name}:{POD}/{ID}" for n, name in enumerate(("cpuacct", "memory", "pids"))))
    kernel.v1(f"{POD}/{ID}")
    gone, there = kernel.read(("f" * 64, 99), (ID, 42)).containers
    assert gone.memory is None
    assert "No such file" in gone.trouble
    assert there.memory is not None


def test_limits_below_the_working_set_leave_nothing_available(kernel):
    mount_v1(kernel)
    kernel.process(42, *(f"{n}:{name}:{POD}/{ID}" for n, name in enumerate(("cpuacct", "memory", "pids"))))
    kernel.v1(f"{POD}/{ID}", limit=MIB, inactive=900 * MIB)
    [container] = kernel.read((ID, 42)).containers
    assert container.memory.working_set_bytes == 0
    kernel.v1(f"{POD}/{ID}", limit=MIB, inactive=0)
    [container] = kernel.read((ID, 42)).containers
    assert container.memory.available_bytes == 0


def test_a_hierarchy_of_which_only_a_part_is_mounted_is_read_below_it(kernel):
    kernel.mount("memory", "cgroup", "memory", root="/kubepods")
    kernel.process(42, f"4:memory:{POD}/{ID}")
    kernel.v1(f"{POD.removeprefix('/kubepods')}/{ID}")
    [container] = kernel.read((ID, 42)).containers
    assert container.memory.usage_bytes == 20 * MIB
    assert Hierarchies(str(kernel.proc)).root("memory") is None


def test_the_machine_by_its_root_cgroups(kernel):
    mount_v1(kernel)
    kernel.v1("", cpu=77, limit=1 << 62)
    kernel.v1("/kubepods", cpu=55)
    node = kernel.node()
    assert node.memory_bytes == 8 * MIB
    assert node.cpu.total_ns == 77
    assert node.memory.usage_bytes == 20 * MIB
    # What is left is counted below what the machine has.
    assert node.memory.available_bytes == 0
    assert node.pids == 70000
    assert node.pid_limit == 32768
    assert node.started_at == 1_700_000_000 * 10**9
    assert node.source == UsageSource.CGROUP_V1
    assert [part.name for part in node.system][-1] == "pods"


def test_the_root_of_v2_counts_what_processes_and_cache_take(kernel):
    kernel.mount("unified", "cgroup2", "rw")
    kernel.v2("")
    (kernel.groups / "unified/memory.current").unlink()
    node = kernel.node()
    assert node.memory.usage_bytes == 10 * MIB
    assert node.memory.working_set_bytes == 6 * MIB
    assert node.memory.available_bytes == 2 * MIB
    assert node.cpu.total_ns == 5_000_000_000


def test_without_cgroups_the_machine_is_what_proc_says(kernel):
    node = kernel.node()
    assert node.source == UsageSource.PROC
    assert node.memory.usage_bytes == 6 * MIB
    assert node.memory.working_set_bytes == 5 * MIB
    assert node.memory.available_bytes == 3 * MIB
    assert node.cpu.total_ns == (10 + 20 + 30 + 1 + 2 + 3) * 10_000_000
    assert node.troubles == ()


def test_a_machine_out_of_sight_is_named(kernel):
    kernel.write(kernel.proc / "meminfo", "")
    node = kernel.node()
    assert node.memory is None
    assert node.troubles


def test_the_own_part_of_a_path_ends_with_the_containers_id():
    assert own_part(f"/a/{ID}/nested/deep", ID) == f"/a/{ID}"
    assert own_part(f"/a/crio-{ID}.scope", ID) == f"/a/crio-{ID}.scope"
    assert own_part("/a/b", ID) == ""
    assert own_part("/a/b", "b") == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"pod{UID}", True),
        (f"kubepods-pod{UID.replace('-', '_')}.slice", True),
        ("kubepods", False),
        ("pod", False),
    ],
)
def test_a_pods_cgroup_is_known_by_its_name(name, expected):
    assert is_pods(name, UID) is expected
    assert not is_pods(name, "")


def test_keys_are_found_at_the_beginning_of_a_line_only():
    text = b"total_rss 5\nrss 7\nx_rss 9\nlast 11"
    assert field(text, b"rss") == 7
    assert field(text, b"total_rss") == 5
    assert field(text, b"last") == 11
    assert field(text, b"absent") is None
    assert kibibytes(b"MemTotal: 1 kB\nSwapTotal: 2 kB\n", b"SwapTotal") == 2048
    assert kibibytes(b"MemTotal: 1 kB\n", b"Absent") is None
    assert network(b"a\nb\n").interfaces == ()
