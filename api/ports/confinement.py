"""What confines and equips a container, in the words of container runtimes: namespaces, security, resources, mounts.

Every value is the effective one: the caller has already merged pod and container (reference ``runtime-cri``
sections 4 to 6).
"""

from enum import StrEnum

import msgspec

Pairs = tuple[tuple[str, str], ...]
"""A mapping as sorted pairs: mappings are never written into messages."""


class NamespaceMode(StrEnum):
    """Whose namespace a process is in."""

    POD = "pod"
    CONTAINER = "container"
    NODE = "node"
    TARGET = "target"


class IdMapping(msgspec.Struct, frozen=True, kw_only=True):
    """A range of user or group ids of a user namespace."""

    host_id: int
    container_id: int = 0
    length: int


class Namespaces(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Process, IPC and user namespaces. The network's is `host_network` of the sandbox."""

    pid: NamespaceMode = NamespaceMode.CONTAINER
    ipc: NamespaceMode = NamespaceMode.POD
    target_id: str = ""
    """Container whose processes are seen, with `pid` TARGET."""
    users: tuple[IdMapping, ...] = ()
    """Of a user namespace of the pod's own, the same for users and groups; empty: the node's users."""


class ProfileKind(StrEnum):
    """Where a seccomp or AppArmor profile comes from."""

    RUNTIME_DEFAULT = "runtime-default"
    UNCONFINED = "unconfined"
    LOCALHOST = "localhost"


class SecurityProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A seccomp or AppArmor profile; `ref` is set with LOCALHOST only: an absolute path, or a loaded profile's name."""

    kind: ProfileKind = ProfileKind.UNCONFINED
    ref: str = ""


class SeLinux(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An SELinux label."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class Security(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process may do. A runtime applies exactly this or refuses; it never drops a part silently."""

    privileged: bool = False
    read_only_root: bool = False
    no_new_privileges: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    supplemental_groups: tuple[int, ...] = ()
    strict_groups: bool = False
    """Only these groups, without those that the image's files give the user."""
    selinux: SeLinux | None = None
    seccomp: SecurityProfile = SecurityProfile()
    apparmor: SecurityProfile | None = None
    """None: nothing was asked for, so the runtime applies its own default where the host has AppArmor."""
    masked_paths: tuple[str, ...] = ()
    readonly_paths: tuple[str, ...] = ()


class Resources(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits as cgroups take them; 0 is no limit, or unchanged in an update."""

    cpu_period_us: int = 0
    cpu_quota_us: int = 0
    cpu_shares: int = 0
    memory_limit_bytes: int = 0
    memory_swap_limit_bytes: int = 0
    """Memory and swap together, cgroup version 1 only."""
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    hugepage_limits: tuple[tuple[str, int], ...] = ()
    """Page size (``2MB``) and limit in bytes."""
    unified: Pairs = ()
    """Files of cgroup version 2, verbatim."""

    def amounts(self) -> "Resources":
        """Return CPU and memory alone: what can be changed while a container runs."""
        return Resources(
            cpu_period_us=self.cpu_period_us,
            cpu_quota_us=self.cpu_quota_us,
            cpu_shares=self.cpu_shares,
            memory_limit_bytes=self.memory_limit_bytes,
        )

    def updated(self, given: "Resources") -> "Resources":
        """Return these amounts after an update; what is 0 in it stays."""
        fresh = {name: value for name, value in msgspec.structs.asdict(given.amounts()).items() if value}
        return msgspec.structs.replace(self, **fresh)


class MountPropagation(StrEnum):
    """Which later mounts below a mount are seen on the other side."""

    PRIVATE = "private"
    HOST_TO_CONTAINER = "host-to-container"
    BIDIRECTIONAL = "bidirectional"


class Mount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A path of the host, or an image, in a container."""

    container_path: str
    host_path: str = ""
    read_only: bool = False
    recursive_read_only: bool = False
    propagation: MountPropagation = MountPropagation.PRIVATE
    selinux_relabel: bool = False
    image: str = ""
    image_sub_path: str = ""


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device of the host in a container; `permissions` of ``r``, ``w``, ``m``."""

    container_path: str
    host_path: str
    permissions: str = "mrw"


class Protocol(StrEnum):
    """Protocol of a port."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


class PortMapping(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of the pod, and the host's port that leads to it (0: none)."""

    protocol: Protocol = Protocol.TCP
    container_port: int
    host_port: int = 0
    host_ip: str = ""


class Dns(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The three lists of a resolv.conf. Empty lists make an empty file."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
