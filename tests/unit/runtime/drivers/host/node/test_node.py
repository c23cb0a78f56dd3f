"""What of a machine shapes containers is read from folders like those of the kernel."""

import json
from pathlib import Path

import pytest

from api.config.settings import Flags, Machine, configure
from api.errors import RejectedError
from api.ports.node import DescribeNode
from runtime.drivers.host.node.node import NodeDescriber, gather

MACHINE = Machine(is_root=True, hostname="n1", state_home="/s", working_directory="/")


class Kernel:
    def __init__(self, root):
        self.proc, self.sys = root / "proc", root / "sys"
        self.put(
            "proc/meminfo", "MemTotal:       2097152 kB\nSwapTotal:  1024 kB\nOdd line\nHugePages_Total: 0\n"
        )
        self.root = root

    def put(self, path, text=""):
        place = self.proc.parent / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def settings(self, root_dir="/", endpoint="unix:///run/c.sock", kubeconfig="", **fields):
        document = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **fields}
        flags = Flags(
            config="/c", root_dir=root_dir, container_runtime_endpoint=endpoint, kubeconfig=kubeconfig
        )
        return configure(json.dumps(document).encode(), flags, MACHINE).settings

    def facts(self, **fields):
        return gather(self.settings(**fields), ("192.0.2.1",), proc=self.proc, sys=self.sys)


@pytest.fixture
def kernel(tmp_path):
    return Kernel(tmp_path)


def test_a_machine_without_cgroups_has_none_of_their_powers(kernel):
    facts = kernel.facts()
    assert (facts.cgroup_version, facts.swap_controller, facts.group_oom_kill) == (0, False, False)
    assert (facts.memory_bytes, facts.swap_bytes) == (2 << 30, 1 << 20)
    assert facts.allocatable_memory_bytes == (2 << 30) - (100 << 20), "the default threshold is kept free"
    assert (facts.apparmor, facts.selinux, facts.throttle_paths, facts.huge_page_sizes) == (
        False,
        False,
        (),
        (),
    )
    assert (facts.name, facts.ips, facts.log_root) == ("n1", ("192.0.2.1",), "/var/log/pods")


def test_controllers_mounted_one_by_one_are_version_1_also_beside_an_empty_unified_mount(kernel):
    kernel.put("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
    kernel.put("sys/fs/cgroup/unified/cgroup.controllers")
    facts = kernel.facts()
    assert (facts.cgroup_version, facts.swap_controller, facts.group_oom_kill) == (1, True, False)


@pytest.mark.parametrize(
    ("own", "place", "found"),
    [
        ("/system.slice/agent", "system.slice/agent", True),
        ("/system.slice/agent", "other.slice", False),
        ("/", "any.slice", True),
        ("/", "any.slice/deeper", False),
    ],
)
def test_version_2_asks_a_cgroup_that_is_not_the_root_about_swap(kernel, own, place, found):
    kernel.put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    kernel.put("proc/self/cgroup", f"0::{own}\n")
    kernel.put(f"sys/fs/cgroup/{place}/memory.swap.max", "max\n")
    facts = kernel.facts()
    assert (facts.cgroup_version, facts.swap_controller, facts.group_oom_kill) == (2, found, True)
    assert not kernel.facts(singleProcessOOMKill=True).group_oom_kill


def test_group_kills_are_refused_on_version_1(kernel):
    kernel.put("sys/fs/cgroup/memory/memory.limit_in_bytes")
    with pytest.raises(RejectedError, match="singleProcessOOMKill: false needs cgroup version 2"):
        kernel.facts(singleProcessOOMKill=False)


def test_pages_throttling_and_security_modules_are_found(kernel):
    for size in (1048576, 64, 2048):
        kernel.put(f"sys/kernel/mm/hugepages/hugepages-{size}kB/nr")
    for name in ("cpu10", "cpu2", "cpufreq"):
        kernel.put(f"sys/devices/system/cpu/{name}/thermal_throttle/count")
    kernel.put("sys/devices/system/cpu/cpu1/online")
    kernel.put("sys/module/apparmor/parameters/enabled", "Y\n")
    kernel.put("sys/fs/selinux/enforce", "1")
    facts = kernel.facts()
    assert facts.huge_page_sizes == (64 << 10, 2 << 20, 1 << 30)
    assert facts.throttle_paths == (
        "/sys/devices/system/cpu/cpu2/thermal_throttle",
        "/sys/devices/system/cpu/cpu10/thermal_throttle",
    )
    assert (facts.apparmor, facts.selinux) == (True, True)


def test_the_settings_say_who_makes_cgroups_until_the_runtime_does(kernel):
    assert kernel.facts(cgroupDriver="cgroupfs").cgroup_driver == "cgroupfs"
    assert kernel.facts(cgroupDriver="systemd").cgroup_driver == "systemd"


def test_only_the_embedded_runtime_does_not_confine(kernel):
    assert kernel.facts().confined
    assert not kernel.facts(endpoint="embedded").confined


def test_this_machine_is_described(kernel, tmp_path):
    kernel.proc, kernel.sys = Path("/proc"), Path("/sys")
    facts = kernel.facts(root_dir=str(tmp_path / "not" / "yet"))
    assert facts.memory_bytes > 64 << 20
    assert facts.cpu_milli >= 1000
    assert facts.ephemeral_bytes > 0
    assert facts.cgroup_version in (0, 1, 2)


def test_what_pods_may_have_is_capacity_without_reservations_thresholds_and_huge_pages(kernel):
    kernel.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16\n")
    facts = kernel.facts(
        systemReserved={"cpu": "100m", "memory": "256Mi"},
        kubeReserved={"cpu": "0.15", "memory": "244Mi", "ephemeral-storage": "1Mi"},
        evictionHard={"memory.available": "10%", "imagefs.available": "5%"},
    )
    assert facts.allocatable_cpu_milli == facts.cpu_milli - 250
    # Ten percent in single precision is a little more than a tenth.
    kept = int((2 << 30) * 0.10000000149011612)
    pages = 32 << 20
    assert facts.allocatable_memory_bytes == (2 << 30) - (500 << 20) - kept - pages
    assert facts.allocatable_ephemeral_bytes == facts.ephemeral_bytes - (1 << 20)
    assert facts.allocatable_scalars == (("hugepages-2Mi", pages),)


def test_more_reserved_than_there_is_keeps_the_agent_from_starting(kernel):
    with pytest.raises(RejectedError, match=r'Resource "memory" has a reservation of .* but capacity of'):
        kernel.facts(kubeReserved={"memory": "3Gi"})


@pytest.mark.parametrize(("settings", "limit"), [({}, 110), ({"maxPods": 7}, 7)])
def test_the_number_of_pods_is_limited(kernel, settings, limit):
    assert kernel.facts(**settings).max_pods == limit
    cpus = kernel.facts().cpu_milli // 1000
    assert kernel.facts(maxPods=1000, podsPerCore=3).max_pods == 3 * cpus
    assert kernel.facts(maxPods=2, podsPerCore=1000).max_pods == 2


def test_a_node_has_labels_and_taints(kernel):
    facts = kernel.facts(registerWithTaints=[{"key": "gpu", "value": "yes", "effect": "NoExecute"}])
    labels = dict(facts.labels)
    assert (labels["kubernetes.io/os"], labels["kubernetes.io/hostname"]) == ("linux", "n1")
    assert labels["kubernetes.io/arch"] == labels["beta.kubernetes.io/arch"] != "x86_64"
    assert [(one.key, one.value, one.effect) for one in facts.taints] == [("gpu", "yes", "NoExecute")]


def test_pods_have_cgroups_of_their_own_where_a_hierarchy_is_mounted(kernel):
    assert not kernel.facts().pod_cgroups
    kernel.put("proc/self/mountinfo", "33 31 0:29 / /c rw - cgroup cgroup rw,cpu\n")
    kernel.put("proc/sys/kernel/pid_max", "4000\n")
    kernel.put("proc/sys/kernel/threads-max", "3000\n")
    kernel.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n")
    facts = kernel.facts(podPidsLimit=7)
    assert (facts.pod_cgroups, facts.max_pids, facts.pod_pids_limit) == (True, 3000, 7)
    assert (facts.huge_page_sizes, facts.huge_page_bytes) == ((2 << 20,), (6 << 20,))
    assert not kernel.facts(cgroupsPerQOS=False).pod_cgroups


class Describer(NodeDescriber):
    """A node whose address is what the test says."""

    def __init__(self, kernel, **fields):
        self.found = "192.0.2.1"
        super().__init__(kernel.settings(**fields), lambda: self.found, proc=kernel.proc, sys=kernel.sys)

    def now(self):
        return self.perform(DescribeNode(), 1.0).facts


def test_nothing_new_is_the_same_again(kernel):
    node = Describer(kernel)
    first = node.facts
    assert node.now() == first
    assert first.ips == ("192.0.2.1",)


def test_memory_huge_pages_and_addresses_are_read_each_time(kernel):
    node = Describer(kernel)
    kernel.put("proc/meminfo", "MemTotal:       4194304 kB\nSwapTotal:  2048 kB\n")
    kernel.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n")
    node.found = "192.0.2.7"
    facts = node.now()
    assert (facts.memory_bytes, facts.swap_bytes, facts.ips) == (4 << 30, 2 << 20, ("192.0.2.7",))
    assert facts.allocatable_memory_bytes == (4 << 30) - (100 << 20) - (6 << 20)
    assert facts.allocatable_scalars == (("hugepages-2Mi", 6 << 20),)


def test_what_cannot_change_while_the_machine_runs_is_read_once(kernel):
    node = Describer(kernel)
    kernel.put("proc/self/mountinfo", "33 31 0:29 / /c rw - cgroup cgroup rw,cpu\n")
    kernel.put("sys/module/apparmor/parameters/enabled", "Y\n")
    facts = node.now()
    assert not facts.pod_cgroups
    assert not facts.apparmor


@pytest.mark.parametrize("lost", ["", "127.0.0.1"])
def test_a_machine_that_has_no_route_for_a_moment_keeps_its_address(kernel, lost):
    node = Describer(kernel)
    node.found = lost
    assert node.now().ips == ("192.0.2.1",)


def test_less_memory_than_is_reserved_is_a_failure_and_the_facts_stay(kernel):
    node = Describer(kernel, kubeReserved={"memory": "1Gi"})
    before = node.facts
    kernel.put("proc/meminfo", "MemTotal:       1024 kB\n")
    with pytest.raises(RejectedError, match="has a reservation of"):
        node.now()
    assert node.facts == before


def test_a_node_with_a_kubeconfig_is_not_on_its_own(kernel):
    assert kernel.facts().standalone
    assert not kernel.facts(kubeconfig="/k").standalone


def test_facts_say_which_machine_it_is(kernel):
    kernel.put("proc/sys/kernel/random/boot_id", "b-1\n")
    facts = gather(kernel.settings(), proc=kernel.proc, sys=kernel.sys, root=kernel.root)
    assert (facts.identity.boot_id, facts.identity.os_image) == ("b-1", "Unknown")
