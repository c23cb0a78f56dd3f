"""The result of a round: the parts assembled into one `Usage`, each number with its age where that matters."""

from collections.abc import Iterable

from msgspec.structs import replace

from actors.rules.container.instance import is_alive
from actors.usage.absorb import NODEFS, fs_of
from actors.usage.state import FoldersKept, PodKept, UsageState
from api.ids import Instant, WallNs
from api.ports.runtime import RuntimeContainer, RuntimeContainerState, RuntimePod
from api.ports.usage import ContainerStat, FolderReading, GroupReading
from api.usage import (
    ContainerUsage,
    CpuUsage,
    FsUsage,
    MemoryUsage,
    NodeUsage,
    PodUsage,
    SwapUsage,
    Usage,
    UsageSource,
    VolumeUsage,
    share_of,
    used_sum,
)

STALE_PERIODS = 2.5
"""Periods after which a number that was not read again is reported as old."""
GONE_S = 60.0
"""Numbers older than this are left out."""
FOLDERS_GONE_S = 600.0
IMAGEFS = "imagefs"


def compose(state: UsageState, now: Instant, wall: WallNs) -> Usage:
    """Assemble all that is believed now."""
    node, whys = node_usage(state, now)
    pods = sorted(
        (pod_usage(state, pod, node, now) for pod in state.listed if alive(pod)),
        key=lambda pod: (pod.namespace, pod.name, pod.uid),
    )
    troubles = [f"{part}: {why}" for part, why in sorted(state.failed.items())]
    troubles += [f"{part}: {why}" for part, texts in sorted(state.refused.items()) for why in texts]
    troubles += [f"machine: {why}" for why in whys]
    troubles += [f"pod {pod.namespace}/{pod.name}: {why}" for pod in pods for why in pod.troubles]
    return Usage(
        at=wall,
        as_of=state.rounds.since,
        round=state.rounds.number,
        node=node,
        pods=tuple(pods),
        troubles=tuple(troubles),
    )


def alive(pod: RuntimePod) -> bool:
    """Return whether anything of the pod may be in use: only such pods have usage."""
    return is_alive(pod)


def host_network(pod: RuntimePod) -> bool:
    """Return whether the pod is in the network of the machine, which is not its own to be counted."""
    return bool(pod.sandboxes) and pod.sandboxes[0].host_network


def age_of(what: str, as_of: Instant | None, now: Instant, period_s: float) -> str:
    """Return that something is old, empty while it is not."""
    if as_of is None or now - as_of <= STALE_PERIODS * period_s:
        return ""
    return f"{what} was last read {now - as_of:.0f} s ago"


def is_gone(as_of: Instant | None, now: Instant, after_s: float = GONE_S) -> bool:
    """Return whether a number is too old to say anything."""
    return as_of is None or now - as_of > after_s


# ---------------------------------------------------------------- the machine


def node_usage(state: UsageState, now: Instant) -> tuple[NodeUsage, list[str]]:
    """Return the machine's usage, and what is old of it."""
    period = state.policy.period_s
    disk, images = state.disks.get(NODEFS), state.disks.get(IMAGEFS)
    node_as_of = state.node.as_of if state.node is not None else None
    disk_as_of = disk.as_of if disk is not None else None
    device_as_of = images.as_of if images is not None else None
    space_as_of = state.images.as_of if state.images is not None else None
    whys = [
        why
        for why in (
            age_of("usage", node_as_of, now, period),
            age_of("root file system", disk_as_of, now, period),
            age_of("image file system", device_as_of, now, period),
            age_of("space of images", space_as_of, now, max(period, state.policy.stats_period_s)),
        )
        if why
    ]
    usage = NodeUsage(
        name=state.policy.node_name,
        as_of=node_as_of,
        disk_as_of=disk_as_of,
        image_as_of=device_as_of or space_as_of,
    )
    read = state.machine
    if read is not None and not is_gone(node_as_of, now):
        usage = replace(
            usage,
            started_at=read.started_at,
            capacity_bytes=read.memory_bytes,
            cpu=read.cpu,
            memory=read.memory,
            swap=read.swap,
            network=read.network,
            pids=read.pids,
            pid_limit=read.pid_limit,
            pids_at=read.at,
            system=read.system,
        )
    if disk is not None and not is_gone(disk.as_of, now):
        usage = replace(usage, fs=disk.reading.fs)
    usage = replace(usage, image_fs=image_fs(state, now))
    if disk is not None and images is not None:
        devices = disk.reading.device, images.reading.device
        if min(devices) >= 0:
            usage = replace(usage, dedicated_image_fs=devices[0] != devices[1])
    return usage, whys


def image_fs(state: UsageState, now: Instant) -> FsUsage | None:
    """Return the file system of images: as it was measured last, and what images take of it as the runtime says."""
    reported = state.images
    if reported is None or is_gone(reported.as_of, now, 3 * GONE_S):
        return None
    counted = fs_of(reported.reading)
    disk = state.disks.get(IMAGEFS)
    fs = disk.reading.fs if disk is not None and not is_gone(disk.as_of, now) else None
    if fs is None:
        return None if is_gone(reported.as_of, now) else counted
    return share_of(fs, fs.at, counted.used_bytes, counted.inodes_used)


# ---------------------------------------------------------------- pods


def pod_usage(state: UsageState, pod: RuntimePod, node: NodeUsage, now: Instant) -> PodUsage:
    """Return one pod's usage; what is missing of it is named, never 0."""
    kept, folders = state.pods.get(pod.uid), state.folders.get(pod.uid)
    running = newest_running(pod)
    names = {container.id: container.name for container in running}
    troubles = list(named(kept.refused if kept else (), names))
    groups: dict[str, GroupReading] = {}
    own = network = None
    if kept is not None and not is_gone(kept.as_of, now):
        groups = {group.id: group for group in kept.reading.containers}
        own, network = kept.reading.group, kept.reading.network
        troubles += [why for why in (age_of("usage", kept.as_of, now, state.policy.period_s),) if why]
    walked = folders.reading if folders and not is_gone(folders.as_of, now, FOLDERS_GONE_S) else None
    logs = {row.name: row for row in walked.logs} if walked else {}
    counted = state.stats
    stats = counted.rows if counted is not None and not is_gone(counted.as_of, now, 3 * GONE_S) else {}
    containers = tuple(
        container_usage(c, groups.get(c.id), stats.get(c.id), logs.get(c.name), node) for c in running
    )
    volumes = tuple(volume_usage(row, walked.at, node) for row in walked.volumes) if walked else ()
    troubles += missing(running, containers, kept)
    troubles += folder_troubles(folders, now, state.policy.folder_period_s)
    if not running:
        # What is left of its last containers' cgroup is not what runs now.
        own = None
    cpu, memory, swap, pids, source = whole(own, containers)
    return PodUsage(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        as_of=kept.as_of if kept else None,
        disk_as_of=folders.as_of if folders else None,
        started_at=pod.sandboxes[0].created_at if pod.sandboxes else None,
        cpu=cpu,
        memory=memory,
        swap=swap,
        network=network,
        pids=pids,
        containers=containers,
        volumes=volumes,
        ephemeral=ephemeral(folders, containers, node) if walked else None,
        source=source,
        troubles=tuple(troubles),
    )


def newest_running(pod: RuntimePod) -> tuple[RuntimeContainer, ...]:
    """Return the running containers in the order of their names; of several of one name the newest."""
    chosen: dict[str, RuntimeContainer] = {}
    for container in pod.containers:
        if container.state is RuntimeContainerState.RUNNING:
            chosen.setdefault(container.name, container)
    return tuple(chosen[name] for name in sorted(chosen))


def named(whys: Iterable[str], names: dict[str, str]) -> Iterable[str]:
    """Return reasons with the names of containers instead of their ids."""
    for why in whys:
        for identity, name in names.items():
            why = why.replace(f"container {identity}:", f"container {name}:")  # noqa: PLW2901  # the same reason
        yield why


def missing(
    running: tuple[RuntimeContainer, ...], containers: tuple[ContainerUsage, ...], kept: PodKept | None
) -> list[str]:
    """Return which numbers a pod should have and has not."""
    if not running:
        return ["no usage: no container runs"]
    without = [c.name for c in containers if c.memory is None or c.cpu is None]
    if not without or (kept is not None and kept.refused):
        return []
    lost = [c for c in running if c.name in without and c.pid <= 0 and kept is None]
    why = "the runtime shows no process of it" if lost else "it was not read yet"
    return [f"no usage of {', '.join(without)}: {why}"]


def folder_troubles(folders: FoldersKept | None, now: Instant, period_s: float) -> list[str]:
    """Return what is wrong with the last walk of a pod's folders."""
    if folders is None:
        return []
    old = age_of("disk usage", folders.as_of, now, max(period_s, 50.0))
    return [*folders.refused, *([old] if old else [])]


def container_usage(
    container: RuntimeContainer,
    group: GroupReading | None,
    stat: ContainerStat | None,
    logs: FolderReading | None,
    node: NodeUsage,
) -> ContainerUsage:
    """Return one container's usage: what its cgroups say, and what the runtime says where they do not."""
    cpu, memory, swap = (group.cpu, group.memory, group.swap) if group else (None, None, None)
    source = group.source if group else ""
    if stat is not None:
        source = source if memory is not None else UsageSource.RUNTIME
        cpu, memory, swap = cpu or stat.cpu, memory or stat.memory, swap or stat.swap
    layer = stat.layer if stat else None
    layers_on = node.image_fs or node.fs
    return ContainerUsage(
        name=container.name,
        id=container.id,
        started_at=container.started_at,
        cpu=cpu,
        memory=memory,
        swap=swap,
        pids=group.pids if group else None,
        oom_kills=group.oom_kills if group else None,
        rootfs=share_of(layers_on, layer.at, layer.used_bytes, layer.inodes_used) if layer else None,
        logs=share_of(node.fs, node.fs.at, logs.used_bytes, logs.inodes, at_least=logs.at_least)
        if logs and node.fs
        else None,
        source=source if memory is not None else "",
    )


def volume_usage(row: FolderReading, at: WallNs, node: NodeUsage) -> VolumeUsage:
    """Return one volume's usage."""
    fs = row.fs
    if fs is None:
        fs = share_of(node.fs, at, row.used_bytes, row.inodes, at_least=row.at_least)
    return VolumeUsage(name=row.name, kind=row.kind, memory=row.memory, fs=fs)


def ephemeral(
    folders: FoldersKept | None, containers: tuple[ContainerUsage, ...], node: NodeUsage
) -> FsUsage | None:
    """Return all that a pod has on local disk."""
    if folders is None or folders.reading is None:
        return None
    walked = folders.reading
    layers_bytes, layers_inodes = used_sum([container.rootfs for container in containers])
    on_disk = [*walked.logs, *(row for row in walked.volumes if not row.memory)]
    used = layers_bytes + walked.other_bytes + sum(row.used_bytes for row in on_disk)
    inodes = layers_inodes + walked.other_inodes + sum(row.inodes for row in on_disk)
    at_least = any(row.at_least for row in on_disk)
    return share_of(node.fs, walked.at, used, inodes, at_least=at_least)


Whole = tuple[CpuUsage | None, MemoryUsage | None, SwapUsage | None, int | None, str]


def whole(own: GroupReading | None, containers: tuple[ContainerUsage, ...]) -> Whole:
    """Return the pod's own account where a cgroup keeps one, else the sum of its containers'."""
    cpu = own.cpu if own else None
    memory = own.memory if own else None
    swap = own.swap if own else None
    pids = own.pids if own else None
    source = own.source if own and memory is not None else ""
    cpu = cpu or cpu_sum([c.cpu for c in containers])
    if memory is None:
        memory = memory_sum([c.memory for c in containers])
        swap = swap or swap_sum([c.swap for c in containers])
        source = UsageSource.CONTAINERS if memory is not None else ""
    if pids is None and containers and all(c.pids is not None for c in containers):
        pids = sum(c.pids or 0 for c in containers)
    return cpu, memory, swap, pids, source


def cpu_sum(parts: list[CpuUsage | None]) -> CpuUsage | None:
    """Return the sum; None when it would leave something out. There is a rate when each has one."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    rates = [part.nano_cores for part in known if part.nano_cores is not None]
    return CpuUsage(
        at=max(part.at for part in known),
        clock_ns=max(part.clock_ns for part in known),
        total_ns=sum(part.total_ns for part in known),
        nano_cores=sum(rates) if len(rates) == len(known) else None,
    )


def memory_sum(parts: list[MemoryUsage | None]) -> MemoryUsage | None:
    """Return the sum; None when it would leave something out. What is available is no sum of anything."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return MemoryUsage(
        at=max(part.at for part in known),
        usage_bytes=sum(part.usage_bytes for part in known),
        working_set_bytes=sum(part.working_set_bytes for part in known),
        rss_bytes=optional_sum([part.rss_bytes for part in known]),
        page_faults=optional_sum([part.page_faults for part in known]),
        major_page_faults=optional_sum([part.major_page_faults for part in known]),
    )


def swap_sum(parts: list[SwapUsage | None]) -> SwapUsage | None:
    """Return the sum; None when it would leave something out."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return SwapUsage(at=max(part.at for part in known), usage_bytes=sum(part.usage_bytes for part in known))


def optional_sum(parts: list[int | None]) -> int | None:
    """Return the sum; None when one of them is not known."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
