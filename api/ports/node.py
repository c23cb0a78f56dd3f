"""What is known of the node that pods run on: facts, read again and again, and files read when they are needed.

`NodeFacts` is gathered by ``runtime.drivers.host.node.node``; `NodeFiles` is the result of `api.ports.podfiles.ReadNodeFiles`, asked
for whenever a sandbox or container is made, so that a change of a file is seen by the next one.
"""

from enum import StrEnum

import msgspec

from api.ports.call import HostCall
from api.ports.manifests import Problem
from api.ports.runtime import RuntimeHandler


class CgroupDriver(StrEnum):
    """Who makes cgroups, which decides what they are called."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class ResolverFile(msgspec.Struct, frozen=True, kw_only=True):
    """A resolv.conf as it was read."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Lines that say nothing, with their number."""


class NodeFiles(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Files of the node that pods see something of."""

    resolver: ResolverFile | None = ResolverFile()
    """None when it could not be read: then `problems` says why."""
    hosts: str = ""
    """The node's own hosts file, empty when there is none."""
    problems: tuple[Problem, ...] = ()


class Reservation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of the node is kept from pods."""

    cpu_milli: int | None = None
    """None: nothing is said of CPU, which is another thing than none at all."""
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    pids: int = 0


class Reserved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept for the system and for the agent with its runtime, and what of it is enforced by cgroups."""

    system: Reservation = Reservation()
    kube: Reservation = Reservation()
    enforced: tuple[str, ...] = ("pods",)
    """As ``enforceNodeAllocatable`` names them; empty for none."""
    system_cgroup: str = ""
    kube_cgroup: str = ""


class NodeTaint(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps pods off this node unless they bear it."""

    key: str
    effect: str
    """NoSchedule, PreferNoSchedule or NoExecute."""
    value: str = ""


class MachineIdentity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which machine it is and what runs on it; empty texts for what is not known."""

    machine_id: str = ""
    """Of this installation."""
    system_uuid: str = ""
    """Of the hardware."""
    boot_id: str = ""
    """Another one after each boot."""
    kernel_version: str = ""
    os_image: str = ""
    """``Debian GNU/Linux 12 (bookworm)``."""
    architecture: str = ""
    """As Kubernetes calls it: ``amd64``."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of the machine, its runtime and the settings decides how a container is made. Sizes are bytes."""

    name: str = ""
    identity: MachineIdentity = MachineIdentity()
    ips: tuple[str, ...] = ()
    """Primary first; its family is the first of each pod's addresses."""
    root_dir: str = "/var/lib/nodeagent"
    log_root: str = "/var/log/pods"
    confined: bool = False
    """Whether the runtime confines containers. If not, pods are plain processes of the host, and a spec asks for no
    more than that."""
    standalone: bool = True
    """Whether there is no API server to look objects up in."""
    handlers: tuple[RuntimeHandler, ...] = ()
    strict_groups: bool = False
    """Whether the runtime honours the supplemental groups policy ``Strict``."""
    stop_signals: bool = False
    """Whether the runtime honours a container's own stop signal."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    swap_bytes: int = 0
    ephemeral_bytes: int = 0
    """Of the file system that the root directory is on."""
    max_pids: int = 0
    """Processes and threads that the kernel allows."""
    reserved: Reserved = Reserved()
    allocatable_cpu_milli: int = 0
    allocatable_memory_bytes: int = 0
    allocatable_ephemeral_bytes: int = 0
    huge_page_sizes: tuple[int, ...] = ()
    """Ascending."""
    huge_page_bytes: tuple[int, ...] = ()
    """How much there is of each of these sizes."""
    allocatable_scalars: tuple[tuple[str, int], ...] = ()
    """Every other resource that the node has, by name: ``hugepages-2Mi`` in bytes."""
    max_pods: int = 110
    labels: tuple[tuple[str, str], ...] = ()
    """Ascending by key."""
    taints: tuple[NodeTaint, ...] = ()
    allowed_sysctls: tuple[str, ...] = ()
    """Kernel parameters, or beginnings that end in ``*``, that pods may set beside the safe ones."""

    cgroup_version: int = 0
    """2, 1, or 0 for none."""
    cgroup_driver: CgroupDriver = CgroupDriver.CGROUPFS
    cgroup_root: str = "/"
    cgroups_per_qos: bool = True
    pod_cgroups: bool = False
    """Whether the agent makes a cgroup for each pod: it is to, and cgroups are mounted."""
    pod_pids_limit: int = -1
    """Processes and threads that a pod may have; none of its own where it is not positive."""
    swap_controller: bool = False
    """Whether cgroups count swap."""
    limited_swap: bool = False
    group_oom_kill: bool = False
    """Whether running out of memory ends all processes of a container together; cgroup version 2 only."""
    cpu_cfs_quota: bool = True
    cpu_cfs_period_us: int = 100_000

    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: str = "/etc/resolv.conf"
    """Empty: no file is read, and pods get the node's loopback address as their name server."""
    seccomp_default: bool = False
    """Whether a container without a seccomp profile gets the runtime's own."""
    apparmor: bool = False
    selinux: bool = False
    throttle_paths: tuple[str, ...] = ()
    """Existing ``/sys/devices/system/cpu/cpu<N>/thermal_throttle``, hidden from containers."""

    def handler(self, name: str) -> RuntimeHandler | None:
        """Return what the runtime offers under this handler, None when it does not say."""
        return next((one for one in self.handlers if one.name == name), None)


class DescribeNode(HostCall, frozen=True, kw_only=True):
    """Gather the facts of the machine, on the port ``node`` -> NodeDescribed. Cheap, and makes no other call."""


class NodeDescribed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The facts of the machine as they are now, without those that only the runtime knows."""

    facts: NodeFacts


def parse_resolver(text: str, path: str) -> ResolverFile:
    """Read a resolv.conf as a kubelet does: the last ``search`` wins, ``domain`` is ignored, options are collected."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: list[str] = []
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith(("#", ";")):
            continue
        match words[0]:
            case "nameserver" if len(words) > 1:
                servers.append(words[1])
            case "nameserver":
                message = "a nameserver line without an address; complete or remove it"
                problems.append(Problem(where=f"{path}:{number}", message=message))
            case "search":
                searches = tuple(word.removesuffix(".") for word in words[1:] if word != ".")
            case "options":
                options.extend(words[1:])
            case _:
                continue
    return ResolverFile(
        servers=tuple(servers), searches=searches, options=tuple(options), problems=tuple(problems)
    )
