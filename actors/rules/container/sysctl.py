"""Kernel parameters that a pod may set: those that stay in its own namespaces (reference ``runtime-cri`` section 5.9)."""

SAFE = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
"""What no other pod and not the node can feel."""

IPC = ("kernel.shm", "kernel.msg", "fs.mqueue.")
"""Beginnings of parameters of the IPC namespace; ``kernel.sem`` is the only one of its name."""


def is_of_ipc(name: str) -> bool:
    """Return whether a parameter, written with dots, belongs to the IPC namespace."""
    return name == "kernel.sem" or name.startswith(IPC)


def forbidden_sysctl(name: str, *, host_network: bool, host_ipc: bool, allowed: tuple[str, ...] = ()) -> str:
    """Return why a pod may not set a parameter (written with dots), empty when it may.

    `allowed` are names, or beginnings that end in ``*``, that the node allows beside the safe ones.
    """
    if host_network and name.startswith("net."):
        return f"forbidden sysctl: {name} not allowed with host net enabled"
    if host_ipc and is_of_ipc(name):
        return f"forbidden sysctl: {name} not allowed with host ipc enabled"
    if name in SAFE or any(matches(name, pattern) for pattern in allowed):
        return ""
    return f"forbidden sysctl: {name} not allowlisted"


def matches(name: str, pattern: str) -> bool:
    """Return whether a name is `pattern`, or begins with it when that ends in ``*``."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
