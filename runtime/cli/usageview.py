"""``top``: what the node and its pods use."""

import argparse
import sys

from api.usage import ContainerUsage, CpuUsage, FsUsage, MemoryUsage, PodUsage, Usage
from runtime.cli.client import Client
from runtime.cli.podview import print_json
from runtime.cli.table import Column, Screen, TableCell, clean, screen_of, size, table

UNKNOWN = "-"
NANO = 1_000_000


def top(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent top``."""
    found, raw = client.get(Usage, ("usage",))
    if args.output == "json":
        return print_json(raw)
    screen = screen_of()
    sys.stdout.write(node_line(found) + "\n")
    if found.pods:
        sys.stdout.write("\n" + usage_table(found, screen, containers=args.containers))
    for trouble in found.troubles:
        print(screen.paint(f"! {clean(trouble)}", "warn"))
    return 0


def node_line(usage: Usage) -> str:
    """Return what the machine uses, in one line."""
    node = usage.node
    words = [f"node {clean(node.name)}:"]
    if node.cpu is not None and node.cpu.nano_cores is not None:
        words.append(f"cpu {cores(node.cpu)},")
    if node.memory is not None and node.capacity_bytes:
        words.append(f"memory {size(node.memory.working_set_bytes)} of {size(node.capacity_bytes)},")
    if node.fs is not None:
        words.append(f"disk {disk(node.fs)},")
    if node.pids is not None and node.pid_limit is not None:
        words.append(f"threads {node.pids} of {node.pid_limit},")
    return " ".join(words).rstrip(",")


def disk(fs: FsUsage) -> str:
    """Return how full a file system is."""
    used, capacity = fs.used_bytes, fs.capacity_bytes
    return UNKNOWN if used is None or capacity is None else f"{size(used)} of {size(capacity)}"


def usage_table(usage: Usage, screen: Screen, *, containers: bool) -> str:
    """Return pods by memory, the largest first; with `containers` each one's below it."""
    rows: list[tuple[TableCell | str, ...]] = []
    for pod in sorted(usage.pods, key=_weight):
        rows.append((pod.namespace, pod.name, *figures(pod.cpu, pod.memory, pod.ephemeral, pod.pids)))
        if containers:
            rows += [
                ("", f"  {c.name}", *figures(c.cpu, c.memory, _own_disk(c), c.pids)) for c in pod.containers
            ]
    columns = (
        Column("NAMESPACE", least=11),
        Column("NAME", least=20),
        Column("CPU", right=True),
        Column("MEMORY", right=True),
        Column("DISK", right=True),
        Column("INODES", right=True, optional=True),
        Column("PROCESSES", right=True, optional=True),
    )
    return table(columns, rows, screen)


def _weight(pod: PodUsage) -> tuple[int, str, str]:
    return (-(pod.memory.working_set_bytes if pod.memory else -1), pod.namespace, pod.name)


def _own_disk(container: ContainerUsage) -> FsUsage | None:
    parts = [part for part in (container.rootfs, container.logs) if part is not None]
    if not parts:
        return None
    return FsUsage(
        at=parts[0].at,
        used_bytes=sum(part.used_bytes or 0 for part in parts),
        inodes_used=sum(part.inodes_used or 0 for part in parts),
    )


def figures(
    cpu: CpuUsage | None, memory: MemoryUsage | None, fs: FsUsage | None, pids: int | None
) -> tuple[str, ...]:
    """Return the columns of what is known; a dash stands for what is not."""
    return (
        cores(cpu),
        UNKNOWN if memory is None else size(memory.working_set_bytes),
        UNKNOWN if fs is None or fs.used_bytes is None else size(fs.used_bytes),
        UNKNOWN if fs is None or fs.inodes_used is None else str(fs.inodes_used),
        UNKNOWN if pids is None else str(pids),
    )


def cores(cpu: CpuUsage | None) -> str:
    """Return a rate of CPU time in thousandths of a core: ``250m``."""
    return UNKNOWN if cpu is None or cpu.nano_cores is None else f"{-(-cpu.nano_cores // NANO)}m"
