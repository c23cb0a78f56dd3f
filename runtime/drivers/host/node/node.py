"""Gathers `NodeFacts`, all but the runtime's own words: from the settings, ``/proc`` and ``/sys``.

What the kernel does not show is taken as not there; nothing here writes. What cannot change while the machine runs is read
once: a list of mounts, for one, costs more the more pods there are.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from api.config.settings import EMBEDDED, Settings
from api.errors import RejectedError
from api.kube.quantity import NANO, Amount, Notation
from api.ports.node import CgroupDriver, DescribeNode, NodeDescribed, NodeFacts
from runtime.drivers.host.node.allocatable import allocatable, pod_limit
from runtime.drivers.host.node.identity import architecture, identity_of

PROC = Path("/proc")
SYS = Path("/sys")
ROOT = Path("/")
KIBIBYTE = 1024
HUGE_PAGES = re.compile(r"hugepages-(\d+)kB")
CPU = re.compile(r"cpu\d+")
LOOPBACK = ("", "127.0.0.1")
"""What an address is when there is no route."""
CONTROLLERS = ("memory", "cpu", "cpu,cpuacct", "pids")


class NodeDescriber:
    """The port ``node``: facts of the machine, gathered when it is made. `address` finds the node's address, empty: none."""

    name = "node"

    def __init__(
        self,
        settings: Settings,
        address: Callable[[], str],
        *,
        proc: Path = PROC,
        sys: Path = SYS,
        root: Path = ROOT,
    ) -> None:
        """Gather all facts. Raises `RejectedError` for settings that this machine cannot carry out."""
        self._settings, self._address, self._proc, self._sys = settings, address, proc, sys
        self._facts = gather(settings, (address(),), proc=proc, sys=sys, root=root)

    @property
    def facts(self) -> NodeFacts:
        """Return the facts as they were read last."""
        return self._facts

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002  # nothing here waits
        """Carry out `DescribeNode`."""
        if not isinstance(call, DescribeNode):
            raise TypeError(f"the port node takes no {type(call).__name__}")
        found = self._address()
        # A machine that has lost its routes for a moment keeps its address.
        ips = self._facts.ips if found in LOOPBACK else (found,)
        self._facts = measured(self._facts, self._settings, ips, proc=self._proc, sys=self._sys)
        return NodeDescribed(facts=self._facts)


def gather(
    settings: Settings,
    node_ips: tuple[str, ...] = (),
    *,
    proc: Path = PROC,
    sys: Path = SYS,
    root: Path = ROOT,
) -> NodeFacts:
    """Return what of this node shapes containers, as far as machine and settings say it.

    Raises `RejectedError` for settings that this machine cannot carry out.
    """
    version = cgroup_version(sys)
    if settings.single_process_oom_kill is False and version == 1:
        raise RejectedError(
            "singleProcessOOMKill: false needs cgroup version 2, and this machine has version 1; boot it with unified"
            " cgroups, or remove the field"
        )
    ephemeral = disk_bytes(Path(settings.root_dir))
    facts = NodeFacts(
        name=settings.node_name,
        identity=identity_of(proc, sys, root),
        root_dir=settings.root_dir,
        log_root=settings.pod_logs_dir,
        confined=settings.runtime_endpoint != EMBEDDED,
        standalone=not settings.cluster.kubeconfig,
        ephemeral_bytes=ephemeral,
        max_pids=max_pids(proc),
        reserved=settings.reserved,
        allocatable_ephemeral_bytes=allocatable("ephemeral-storage", ephemeral, settings),
        labels=labels(settings),
        taints=settings.taints,
        allowed_sysctls=settings.allowed_unsafe_sysctls,
        cgroup_version=version,
        cgroup_driver=CgroupDriver(settings.cgroup_driver),
        cgroup_root=settings.cgroup_root,
        cgroups_per_qos=settings.cgroups_per_qos,
        pod_cgroups=settings.cgroups_per_qos and has_cgroups(proc),
        pod_pids_limit=settings.pod_pids_limit,
        swap_controller=has_swap_controller(version, proc, sys),
        limited_swap=settings.limited_swap,
        group_oom_kill=version == 2 and not settings.single_process_oom_kill,
        cpu_cfs_quota=settings.cpu_cfs_quota,
        cpu_cfs_period_us=settings.cpu_cfs_period_us,
        cluster_dns=settings.cluster_dns,
        cluster_domain=settings.cluster_domain,
        resolv_conf=settings.resolv_conf,
        seccomp_default=settings.seccomp_default,
        apparmor=read_text(sys / "module/apparmor/parameters/enabled").strip() == "Y",
        selinux=(sys / "fs/selinux/enforce").exists(),
        throttle_paths=throttle_paths(sys),
    )
    return measured(facts, settings, node_ips, proc=proc, sys=sys)


def measured(
    facts: NodeFacts, settings: Settings, node_ips: tuple[str, ...], *, proc: Path, sys: Path
) -> NodeFacts:
    """Return the facts with what can change while the machine runs, read again: processors, memory, addresses.

    Raises `RejectedError` when less is there than the settings reserve.
    """
    memory = read_meminfo(proc)
    whole_memory = allocatable("memory", memory.get("MemTotal", 0), settings)
    pages = huge_pages(sys)
    sizes = huge_page_sizes(sys)
    cpus = os.cpu_count() or 1
    return replace(
        facts,
        ips=node_ips,
        cpu_milli=cpus * 1000,
        memory_bytes=memory.get("MemTotal", 0),
        swap_bytes=memory.get("SwapTotal", 0),
        allocatable_cpu_milli=allocatable("cpu", cpus * 1000, settings),
        allocatable_memory_bytes=max(0, whole_memory - sum(amount for _, amount in pages)),
        huge_page_sizes=sizes,
        huge_page_bytes=tuple(huge_page_bytes(sys, size) for size in sizes),
        allocatable_scalars=pages,
        max_pods=pod_limit(settings, cpus),
    )


def has_cgroups(proc: Path) -> bool:
    """Return whether a hierarchy of cgroups is mounted."""
    return any(" - cgroup" in line for line in read_text(proc / "self/mountinfo").splitlines())


def max_pids(proc: Path) -> int:
    """Return the kernel's limit of processes and threads, 0 when unknown."""
    texts = (read_text(proc / "sys/kernel" / name).strip() for name in ("pid_max", "threads-max"))
    return min((int(text) for text in texts if text.isdigit()), default=0)


def huge_page_bytes(sys: Path, size: int) -> int:
    """Return the memory in huge pages of this size."""
    text = read_text(sys / f"kernel/mm/hugepages/hugepages-{size // KIBIBYTE}kB/nr_hugepages").strip()
    return int(text) * size if text.isdigit() else 0


def cgroup_version(sys: Path) -> int:
    """Return 2 for unified cgroups, 1 where controllers are mounted one by one, 0 where there are none."""
    root = sys / "fs/cgroup"
    if (root / "cgroup.controllers").exists():
        return 2
    return 1 if any((root / name).is_dir() for name in CONTROLLERS) else 0


def has_swap_controller(version: int, proc: Path, sys: Path) -> bool:
    """Return whether cgroups count swap. The root cgroup of version 2 has no such file, so its children are read."""
    root = sys / "fs/cgroup"
    if version == 1:
        return (root / "memory/memory.memsw.limit_in_bytes").exists()
    if version != 2:
        return False
    lines = read_text(proc / "self/cgroup").splitlines()
    own = next((line.partition("::")[2] for line in lines if line.startswith("0::")), "/")
    if own.strip("/"):
        return (root / own.strip("/") / "memory.swap.max").exists()
    return any(root.glob("*/memory.swap.max"))


def read_meminfo(proc: Path) -> dict[str, int]:
    """Return ``/proc/meminfo`` in bytes."""
    found = {}
    for line in read_text(proc / "meminfo").splitlines():
        name, _, rest = line.partition(":")
        number = rest.split()[:1]
        if number and number[0].isdigit():
            found[name] = int(number[0]) * KIBIBYTE
    return found


def huge_page_sizes(sys: Path) -> tuple[int, ...]:
    """Return the sizes of huge pages of the kernel, ascending."""
    matches = (HUGE_PAGES.fullmatch(name) for name in names_in(sys / "kernel/mm/hugepages"))
    return tuple(sorted(int(match[1]) * KIBIBYTE for match in matches if match))


def huge_pages(sys: Path) -> tuple[tuple[str, int], ...]:
    """Return the bytes in huge pages, by resource name."""
    folder = sys / "kernel/mm/hugepages"
    found = []
    for size in huge_page_sizes(sys):
        count = read_text(folder / f"hugepages-{size // KIBIBYTE}kB" / "nr_hugepages").strip()
        text = str(Amount(size * NANO, Notation.BINARY))
        found.append((f"hugepages-{text}", int(count) * size if count.isdigit() else 0))
    return tuple(sorted(found))


def labels(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return the node's labels: those that every node has, and the operator's own, which win."""
    arch = architecture()
    every = {
        "kubernetes.io/hostname": settings.node_name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": arch,
    }
    return tuple(sorted({**every, **dict(settings.node_labels)}.items()))


def throttle_paths(sys: Path) -> tuple[str, ...]:
    """Return the thermal folders of each processor, as a container would see them."""
    folder = sys / "devices/system/cpu"
    cpus = sorted((name for name in names_in(folder) if CPU.fullmatch(name)), key=lambda name: int(name[3:]))
    return tuple(
        f"/sys/devices/system/cpu/{name}/thermal_throttle"
        for name in cpus
        if (folder / name / "thermal_throttle").exists()
    )


def disk_bytes(path: Path) -> int:
    """Return the size of the file system that a path, or the nearest folder above it that exists, is on."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        status = os.statvfs(path)
    except OSError:
        return 0
    return status.f_blocks * status.f_frsize


def names_in(folder: Path) -> tuple[str, ...]:
    """Return the names in a folder, none when it is not there."""
    try:
        return tuple(entry.name for entry in os.scandir(folder))
    except OSError:
        return ()


def read_text(path: Path) -> str:
    """Return a small file of the kernel, empty when it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
