"""The standard JSON of usage: what a kubelet answers on ``/stats/summary``. What is not known is left out."""

from typing import Any

import msgspec

from api.ids import WallNs
from api.usage import (
    ContainerUsage,
    CpuUsage,
    FsUsage,
    MemoryUsage,
    NetworkUsage,
    NodeUsage,
    PodUsage,
    Process,
    SwapUsage,
    Usage,
)
from api.wallclock import rfc3339

MAIN_INTERFACE = "eth0"
"""Whose figures stand for the whole network, as in a kubelet."""

Json = dict[str, Any]


def summary(usage: Usage, *, short: bool) -> bytes:
    """Return one round as JSON; `short` leaves out all but CPU time, memory and swap."""
    shown = {
        "node": node_json(usage.node, short=short),
        "pods": [pod_json(pod, short=short) for pod in usage.pods if pod.containers or not short],
    }
    return msgspec.json.encode(shown)


def node_json(node: NodeUsage, *, short: bool) -> Json:
    """Return the machine's part."""
    shown: Json = {
        "nodeName": node.name,
        "systemContainers": [system_json(part) for part in node.system],
        "startTime": time_of(node.started_at),
        "cpu": cpu_json(node.cpu),
        "memory": memory_json(node.memory),
        "swap": swap_json(node.swap),
    }
    if not short:
        image_fs = fs_json(node.image_fs)
        shown["network"] = network_json(node.network)
        shown["fs"] = fs_json(node.fs)
        shown["runtime"] = known({"imageFs": image_fs, "containerFs": image_fs}) or None
        if node.pids is not None and node.pid_limit is not None:
            shown["rlimit"] = known(
                {"time": time_of(node.pids_at), "maxpid": node.pid_limit, "curproc": node.pids}
            )
    return known(shown)


def system_json(part: Process) -> Json:
    """Return a part of the system that is no pod."""
    return known(
        {
            "name": part.name,
            "startTime": time_of(part.started_at),
            "cpu": cpu_json(part.cpu),
            "memory": memory_json(part.memory),
        }
    )


def pod_json(pod: PodUsage, *, short: bool) -> Json:
    """Return one pod's part."""
    shown: Json = {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": time_of(pod.started_at),
        "containers": [container_json(container, short=short) for container in pod.containers],
        "cpu": cpu_json(pod.cpu),
        "memory": memory_json(pod.memory),
        "swap": swap_json(pod.swap),
    }
    if not short:
        shown["network"] = network_json(pod.network)
        shown["volume"] = [
            {"name": volume.name, **(fs_json(volume.fs) or {})} for volume in pod.volumes
        ] or None
        shown["ephemeral-storage"] = fs_json(pod.ephemeral)
        if pod.pids is not None:
            shown["process_stats"] = {"process_count": pod.pids}
    return known(shown)


def container_json(container: ContainerUsage, *, short: bool) -> Json:
    """Return one container's part."""
    shown: Json = {
        "name": container.name,
        "startTime": time_of(container.started_at),
        "cpu": cpu_json(container.cpu),
        "memory": memory_json(container.memory),
        "swap": swap_json(container.swap),
    }
    if not short:
        shown["rootfs"] = fs_json(container.rootfs)
        shown["logs"] = fs_json(container.logs)
    return known(shown)


def cpu_json(cpu: CpuUsage | None) -> Json | None:
    """Return CPU time."""
    if cpu is None:
        return None
    return known(
        {"time": time_of(cpu.at), "usageNanoCores": cpu.nano_cores, "usageCoreNanoSeconds": cpu.total_ns}
    )


def memory_json(memory: MemoryUsage | None) -> Json | None:
    """Return memory."""
    if memory is None:
        return None
    return known(
        {
            "time": time_of(memory.at),
            "availableBytes": memory.available_bytes,
            "usageBytes": memory.usage_bytes,
            "workingSetBytes": memory.working_set_bytes,
            "rssBytes": memory.rss_bytes,
            "pageFaults": memory.page_faults,
            "majorPageFaults": memory.major_page_faults,
        }
    )


def swap_json(swap: SwapUsage | None) -> Json | None:
    """Return swap."""
    if swap is None:
        return None
    return known(
        {
            "time": time_of(swap.at),
            "swapAvailableBytes": swap.available_bytes,
            "swapUsageBytes": swap.usage_bytes,
        }
    )


def fs_json(fs: FsUsage | None) -> Json | None:
    """Return a file system, or a share of one."""
    if fs is None:
        return None
    return known(
        {
            "time": time_of(fs.at),
            "availableBytes": fs.available_bytes,
            "capacityBytes": fs.capacity_bytes,
            "usedBytes": fs.used_bytes,
            "inodesFree": fs.inodes_free,
            "inodes": fs.inodes,
            "inodesUsed": fs.inodes_used,
        }
    )


def network_json(network: NetworkUsage | None) -> Json | None:
    """Return the interfaces of a network; the main one's figures stand before them."""
    if network is None:
        return None
    rows = [
        {
            "name": row.name,
            "rxBytes": row.rx_bytes,
            "rxErrors": row.rx_errors,
            "txBytes": row.tx_bytes,
            "txErrors": row.tx_errors,
        }
        for row in network.interfaces
    ]
    main = next((row for row in rows if row["name"] == MAIN_INTERFACE), {})
    return known({"time": time_of(network.at), **main, "interfaces": rows})


def time_of(at: WallNs | None) -> str | None:
    """Return an instant as Kubernetes writes it."""
    return None if at is None or at <= 0 else rfc3339(at)


def known(shown: Json) -> Json:
    """Return only what is known."""
    return {key: value for key, value in shown.items() if value is not None}
