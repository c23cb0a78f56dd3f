"""How UsageManager absorbs results: row by row; possible values are believed, impossible ones refused with a reason."""

from msgspec.structs import replace

from actors.rules.resources.usage import (
    check_count,
    check_cpu,
    check_fs,
    check_memory,
    check_share,
    check_swap,
)
from actors.usage.state import (
    NO_PROBLEM,
    DiskKept,
    FoldersKept,
    ImagesKept,
    InspectedProcesses,
    NodeKept,
    Part,
    PendingCall,
    PodKept,
    StatsKept,
    UsageState,
    with_problem,
)
from api.errors import Failure, FailureKind
from api.ids import Instant, Uid
from api.messages.kernel import Outcome
from api.ports.images import ImageFs
from api.ports.runtime import PodListing, RuntimePod
from api.ports.usage import (
    ContainerStats,
    DisksMeasured,
    FolderReading,
    FoldersMeasured,
    GroupReading,
    NodeRead,
    PodFoldersReading,
    PodReading,
    PodsRead,
)
from api.usage import UNLIMITED_BYTES, FsUsage

FOLDER_LOAD = 20
"""A pod's folders are not walked for so many times the duration of the last walk: five per cent of one thread."""
FOLDER_PERIOD_LIMIT_S = 120.0
UNOFFERED = (FailureKind.REJECTED,)
"""Failures by which a runtime says that it does not have this call."""
NODEFS = "nodefs"


def absorb_outcome(state: UsageState, asked: PendingCall, outcome: Outcome, now: Instant) -> UsageState:
    """Take in the outcome of a part's call."""
    if outcome.failure is not None:
        return absorb_failure(state, asked, outcome.failure, now)
    well = replace(state.problems.get(asked.part, NO_PROBLEM), failed="")
    return absorb_result(with_problem(state, asked.part, well), outcome, now)


def absorb_failure(state: UsageState, asked: PendingCall, failure: Failure, now: Instant) -> UsageState:
    """Take in that a part could not be read: what was read of it before stands."""
    part = asked.part
    if part is Part.LOOK:
        return state
    known = state.problems.get(part, NO_PROBLEM)
    if failure.kind in UNOFFERED and part in (Part.IMAGES, Part.STATS):
        return with_problem(state, part, replace(known, unoffered=True))
    state = with_problem(state, part, replace(known, failed=failure.message))
    # Which of the pods failed is unknown: the walk of all of them is put off.
    return put_off(state, asked.uids, now) if part is Part.FOLDERS else state


def absorb_result(state: UsageState, outcome: Outcome, now: Instant) -> UsageState:
    """Absorb the result of a part's call."""
    result, as_of = outcome.result, outcome.started_at
    match result:
        case PodListing():
            return absorb_listing(state, result)
        case RuntimePod():
            shown = {c.id: c.pid for c in result.containers if c.pid > 0}
            pids = {**state.processes.pids, **shown}
            return replace(state, processes=replace(state.processes, pids=pids))
        case NodeRead():
            return absorb_node(state, result, as_of)
        case PodsRead():
            pods = {row.uid: absorb_pod(state, row, as_of) for row in result.rows}
            return replace(state, pods={**state.pods, **pods})
        case DisksMeasured():
            return absorb_disks(state, result, as_of)
        case FoldersMeasured():
            folders = {row.uid: absorb_folders(state, row, as_of, now) for row in result.rows}
            return replace(state, folders={**state.folders, **folders})
        case ImageFs():
            return absorb_images(state, result, as_of)
        case ContainerStats():
            return absorb_stats(state, result, as_of)
        case _:
            raise AssertionError(f"{outcome.call} brought {type(result).__name__}")


def absorb_listing(state: UsageState, listing: PodListing) -> UsageState:
    """Take in which pods there are, and forget those that are gone."""
    listed = tuple(pod for pod in listing.pods if pod.uid and (pod.ours or state.policy.take_over))
    uids = {pod.uid for pod in listed}
    ids = {container.id for pod in listed for container in pod.containers}
    return replace(
        state,
        listed=listed,
        processes=InspectedProcesses(
            pids={identity: pid for identity, pid in state.processes.pids.items() if identity in ids},
            looked_at={uid: at for uid, at in state.processes.looked_at.items() if uid in uids},
        ),
        pods={uid: kept for uid, kept in state.pods.items() if uid in uids},
        folders={uid: kept for uid, kept in state.folders.items() if uid in uids},
    )


def absorb_node(state: UsageState, read: NodeRead, as_of: Instant) -> UsageState:
    """Take in what the machine uses. Where memory is refused the last good number stands, as old as it is."""
    before = state.machine
    capacity = max(0, read.memory_bytes) or state.policy.memory_bytes or None
    cpu, why_cpu = check_cpu(before.cpu if before else None, read.cpu, read.cpus)
    memory, why_memory = check_memory(before.memory if before else None, read.memory, capacity)
    swap, why_swap = check_swap(before.swap if before else None, read.swap, UNLIMITED_BYTES)
    pids, why_pids = check_count("threads", None, read.pids, read.pid_limit)
    system = []
    for part in read.system:
        was = next((p for p in before.system if p.name == part.name), None) if before else None
        part_cpu, _ = check_cpu(was.cpu if was else None, part.cpu, read.cpus)
        part_memory, _ = check_memory(None, part.memory, capacity)
        system.append(replace(part, cpu=part_cpu, memory=part_memory))
    node = replace(read, cpu=cpu, memory=memory, swap=swap, pids=pids, system=tuple(system))
    whys = (*read.troubles, *refusals((why_cpu, why_memory, why_swap, why_pids)))
    if state.node is not None and memory is not None and why_memory:
        as_of = state.node.as_of
    return refuse(replace(state, node=NodeKept(reading=node, as_of=as_of)), Part.NODE, whys)


def absorb_pod(state: UsageState, row: PodReading, as_of: Instant | None) -> PodKept:
    """Return what is believed of one pod's reading; with a number that was refused it is as old as the last good one."""
    kept = state.pods.get(row.uid)
    if row.trouble:
        return replace(kept or PodKept(reading=PodReading(uid=row.uid)), refused=(row.trouble,))
    known = {group.id: group for group in kept.reading.containers} if kept else {}
    containers, whys = [], []
    for group in row.containers:
        believed, refused = check_group(state, known.get(group.id), group)
        containers.append(believed)
        whys += [f"container {group.id}: {why}" for why in refused]
    own = None
    if row.group is not None:
        own, refused = check_group(state, kept.reading.group if kept else None, row.group)
        whys += refused
    pairs = [
        *zip(row.containers, containers, strict=True),
        *([(row.group, own)] if own and row.group else []),
    ]
    if kept is not None and any(is_older(read, believed) for read, believed in pairs):
        as_of = kept.as_of
    reading = replace(row, group=own, containers=tuple(containers))
    return PodKept(reading=reading, as_of=as_of, refused=tuple(whys))


def is_older(read: GroupReading, believed: GroupReading) -> bool:
    """Return whether a number of an earlier reading stands for one that was refused."""
    memory = believed.memory is not None and believed.memory is not read.memory
    return memory or (believed.pids is not None and believed.pids != read.pids)


def check_group(
    state: UsageState, before: GroupReading | None, after: GroupReading
) -> tuple[GroupReading, list[str]]:
    """Return what is believed of a container's or pod's reading, and what is not."""
    node = state.machine
    capacity = memory_of(state)
    cpu, why_cpu = check_cpu(before.cpu if before else None, after.cpu, node.cpus if node else 1 << 16)
    memory, why_memory = check_memory(before.memory if before else None, after.memory, capacity)
    swap, why_swap = check_swap(before.swap if before else None, after.swap, UNLIMITED_BYTES)
    limit = node.pid_limit if node else None
    pids, why_pids = check_count("processes", before.pids if before else None, after.pids, limit)
    believed = replace(after, cpu=cpu, memory=memory, swap=swap, pids=pids)
    return believed, refusals((after.trouble, why_cpu, why_memory, why_swap, why_pids))


def memory_of(state: UsageState) -> int | None:
    """Return how much memory the machine has: no pod is believed to take more, also while the machine cannot be read."""
    read = state.machine.memory_bytes if state.machine is not None else 0
    return max(0, read) or state.policy.memory_bytes or None


def absorb_disks(state: UsageState, measured: DisksMeasured, as_of: Instant) -> UsageState:
    """Take in how full file systems are; one that hangs or shows impossible values keeps its last reading."""
    disks, whys = dict(state.disks), []
    for row in measured.rows:
        kept = disks.get(row.name)
        before = kept.reading if kept is not None else None
        if before is not None and before.path != row.path:
            before = None
        fs, why = (
            (before.fs if before else None, row.trouble)
            if row.trouble
            else check_fs(before.fs if before else None, row.fs)
        )
        device = row.device if row.device >= 0 or before is None else before.device
        believed_as_of: Instant | None = as_of
        if why:
            whys.append(f"file system of {row.path}: {why}")
            believed_as_of = kept.as_of if kept is not None else None
        reading = replace(row, fs=fs, device=device, trouble=why)
        disks[row.name] = DiskKept(reading=reading, as_of=believed_as_of)
    return refuse(replace(state, disks=disks), Part.DISKS, tuple(whys))


def absorb_images(state: UsageState, images: ImageFs, as_of: Instant) -> UsageState:
    """Take in how full the file system of images is."""
    _, why = check_fs(None, fs_of(images))
    if why:
        text = f"image file system {images.mountpoint}: {why}"
        return refuse(state, Part.IMAGES, (text,))
    return refuse(replace(state, images=ImagesKept(reading=images, as_of=as_of)), Part.IMAGES, ())


def fs_of(images: ImageFs) -> FsUsage:
    """Return the file system of images in the words of usage; `used_bytes` is what images take of it."""
    counted = images.inodes > 0
    return FsUsage(
        at=images.measured_at,
        capacity_bytes=images.capacity_bytes,
        available_bytes=images.available_bytes,
        used_bytes=images.used_bytes,
        inodes=images.inodes if counted else None,
        inodes_free=images.inodes_free if counted else None,
        inodes_used=images.inodes - images.inodes_free if counted else None,
    )


def absorb_folders(state: UsageState, row: PodFoldersReading, as_of: Instant, now: Instant) -> FoldersKept:
    """Return what is believed of one pod's folders, and when they are walked next."""
    kept = state.folders.get(row.uid)
    period = state.policy.folder_period_s
    wait_s = min(max(period, row.took_s * FOLDER_LOAD), FOLDER_PERIOD_LIMIT_S)
    if kept is None:
        # Pods found together are not always walked together.
        wait_s *= sum(row.uid.encode()) % 16 / 16
    due_at = now + wait_s
    if not row.measured:
        return replace(kept or FoldersKept(), due_at=due_at, refused=(row.trouble,))
    fs = state.disks[NODEFS].reading.fs if NODEFS in state.disks else None
    whys = [row.trouble] if row.trouble else []
    before = kept.reading if kept else None
    parts: dict[str, tuple[FolderReading, ...]] = {}
    for kind, found, was in (
        ("logs of", row.logs, before.logs if before else ()),
        ("volume", row.volumes, before.volumes if before else ()),
    ):
        known = {part.name: part for part in was}
        believed = []
        for part in found:
            last = known.get(part.name)
            why = check_share("used", part.used_bytes, part.inodes, part.fs if part.memory else fs)
            if why:
                whys.append(f"{kind} {part.name}: {why}")
                believed += [last] if last is not None else []
            elif part.at_least and last is not None:
                believed.append(not_less(part, last))
            else:
                believed.append(part)
        parts[kind] = tuple(believed)
    reading = replace(row, logs=parts["logs of"], volumes=parts["volume"])
    return FoldersKept(reading=reading, as_of=as_of, due_at=due_at, refused=tuple(whys))


def not_less(part: FolderReading, last: FolderReading) -> FolderReading:
    """Return a part that could not be counted to the end: it has as much as it had last, and what was counted now."""
    return replace(
        part, used_bytes=max(part.used_bytes, last.used_bytes), inodes=max(part.inodes, last.inodes)
    )


def put_off(state: UsageState, uids: tuple[Uid, ...], now: Instant) -> UsageState:
    """Try the folders of these pods again after a period."""
    due_at = now + state.policy.folder_period_s
    put = {uid: replace(state.folders.get(uid, FoldersKept()), due_at=due_at) for uid in uids}
    return replace(state, folders={**state.folders, **put})


def absorb_stats(state: UsageState, stats: ContainerStats, as_of: Instant) -> UsageState:
    """Take in what the runtime counts. It may give the same sample twice: then nothing is new, and nothing is wrong."""
    cpus = state.machine.cpus if state.machine else 1 << 16
    capacity = memory_of(state)
    known = state.stats.rows if state.stats is not None else {}
    rows, whys = {}, []
    for row in stats.rows:
        before = known.get(row.id)
        same = before and before.cpu and row.cpu and before.cpu.clock_ns == row.cpu.clock_ns
        cpu, why_cpu = (
            (before.cpu if before else None, "")
            if same
            else check_cpu(before.cpu if before else None, row.cpu, cpus)
        )
        memory, why_memory = check_memory(before.memory if before else None, row.memory, capacity)
        layer, why_layer = row.layer, ""
        if row.layer is not None:
            why_layer = check_share(
                "writable layer", row.layer.used_bytes or 0, row.layer.inodes_used or 0, layer_fs(state)
            )
            layer = (before.layer if before else None) if why_layer else row.layer
        rows[row.id] = replace(row, cpu=cpu, memory=memory, layer=layer)
        whys += [f"container {row.id}: {why}" for why in refusals((why_cpu, why_memory, why_layer))]
    return refuse(replace(state, stats=StatsKept(rows=rows, as_of=as_of)), Part.STATS, tuple(whys))


def layer_fs(state: UsageState) -> FsUsage | None:
    """Return the file system that writable layers are on."""
    return fs_of(state.images.reading) if state.images is not None else None


def refuse(state: UsageState, part: Part, whys: tuple[str, ...]) -> UsageState:
    """Note what was not believed of a part."""
    return with_problem(state, part, replace(state.problems.get(part, NO_PROBLEM), refused=whys))


def refusals(whys: tuple[str, ...]) -> list[str]:
    """Return the reasons that there are."""
    return [why for why in whys if why]
