"""What a seed of a node that runs short draws: thresholds, pods that may be hogs, strange images, and faults of all who evict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as changed
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from api import paths
from api.config.settings import Settings
from api.errors import FailureKind
from api.eviction import EvictionPolicy, Quantity, Signal, Threshold
from api.faults import (
    AnyFault,
    CrashActor,
    DelayMessage,
    DelayOperation,
    DropMessage,
    DuplicateMessage,
    FailOperation,
    HangOperation,
    When,
)
from api.ids import Path
from tests.harness.world.scarcity import DISK_BYTES, GI, IMAGE_DISK_BYTES, INODES, MI, PIDS, Scarcity
from tests.harness.world.workload import Wish

if TYPE_CHECKING:
    from tests.harness.world.hand import Hands

PODS, IMAGES = Path("/node/pods"), Path("/node/images")
CRASHES = (paths.EVICTION, paths.EVICTION, paths.IMAGEGC, paths.USAGE, PODS, IMAGES)
MESSAGES = (
    (paths.EVICTION, "ActivePods"),
    (paths.EVICTION, "UsageRead"),
    (paths.EVICTION, "PodKilled"),
    (paths.EVICTION, "ImagesCollected"),
    (paths.USAGE, "WatchUsage"),
    (paths.USAGE, "ReadUsageNow"),
    (PODS, "WatchPods"),
    (paths.ADMISSION, "NodePressure"),
    (PODS, "KillPod"),
    (paths.IMAGEGC, "CollectImages"),
    (paths.IMAGEGC, "ImageDropped"),
    (IMAGES, "DropImage"),
)
RARE = ("WatchUsage", "WatchPods", "CollectImages", "ImagesCollected", "KillPod", "NodePressure")
"""Messages of which there are but a few in a run."""
OPERATIONS = (
    ("runtime", "StopContainer"),
    ("images", "RemoveImage"),
    ("images", "ListImages"),
    ("images", "ImageFsUsage"),
    ("runtime", "ReadContainerStats"),
    ("usage", "ReadNode"),
    ("usage", "ReadPods"),
    ("usage", "MeasureDisks"),
    ("usage", "MeasureFolders"),
    ("volumes", "RemoveVolumes"),
)
CAPACITY = {
    Signal.NODEFS: DISK_BYTES,
    Signal.NODEFS_INODES: INODES,
    Signal.IMAGEFS_INODES: INODES,
    Signal.PID: PIDS,
}


def draw_thresholds(random: Random) -> tuple[Threshold, ...]:
    """Draw thresholds of every signal, hard and soft."""
    drawn = [
        Threshold(
            signal=Signal.MEMORY,
            value=Quantity(amount=GI),
            reclaim=Quantity(amount=random.choice((0, 512 * MI))),
        ),
        Threshold(
            signal=Signal.MEMORY, value=Quantity(amount=3 * GI), grace_s=random.choice((10.0, 25.0, 45.0))
        ),
        Threshold(signal=Signal.PODS_MEMORY, value=Quantity(amount=GI)),
        Threshold(
            signal=Signal.NODEFS,
            value=Quantity(percent=10.0),
            reclaim=Quantity(amount=random.choice((0, 3 * GI))),
        ),
        Threshold(
            signal=Signal.NODEFS, value=Quantity(percent=15.0), grace_s=random.choice((0.5, 25.0, 60.0))
        ),
        Threshold(signal=Signal.NODEFS_INODES, value=Quantity(percent=8.0)),
        Threshold(
            signal=Signal.IMAGEFS,
            value=Quantity(percent=15.0),
            reclaim=Quantity(percent=random.choice((1.0, 5.0))),
        ),
        Threshold(signal=Signal.IMAGEFS_INODES, value=Quantity(percent=5.0)),
        Threshold(signal=Signal.PID, value=Quantity(percent=10.0)),
        Threshold(signal=Signal.PID, value=Quantity(amount=6000), grace_s=20.0),
    ]
    return tuple(one for one in drawn if random.random() < 0.85)


def scarce_settings(scarcity: Scarcity, settings: Settings) -> Settings:
    """Return what the agent of such a node runs with."""
    random = Random(f"{scarcity.seed}/scarce settings")
    policy = EvictionPolicy(
        thresholds=draw_thresholds(random),
        transition_s=random.choice((5.0, 40.0, 90.0)),
        max_pod_grace_s=random.choice((0, 8)),
        local_limits=random.random() < 0.7,
    )
    for one in policy.thresholds:
        images = IMAGE_DISK_BYTES if scarcity.dedicated else DISK_BYTES
        scarcity.thresholds[one.signal] = one.value.of(CAPACITY.get(one.signal, images))
    return replace(
        settings,
        eviction=policy,
        image_gc_high_percent=random.choice((80, 90, 100)),
        image_gc_low_percent=70,
        image_min_gc_age_s=random.choice((0.0, 20.0, 120.0)),
    )


def scarce_wish(random: Random, wish: Wish) -> Wish:
    """Return the pod, more likely with a volume to fill, with a priority, and with a request of memory."""
    if "disk" not in wish.volumes and random.random() < 0.5:
        wish = changed(wish, volumes=(*wish.volumes, "disk"))
    if wish.priority is None and random.random() < 0.4:
        wish = changed(wish, priority=random.choice((1, 10, 2_000_000_000)))
    if wish.cpu == "5":
        # More than the node has: it would only be refused.
        wish = changed(wish, cpu="50m")
    if wish.cpu and random.random() < 0.4:
        wish = changed(wish, memory=random.choice(("64Mi", "1Gi", "2Gi")))
    return wish


def draw_scarce_acts(scarcity: Scarcity, hands: Hands, until: float) -> None:
    """Plan what fills the disk of images: images of other tools."""
    random = Random(f"{scarcity.seed}/strange images")

    def fetch() -> None:
        row = scarcity.add_strange_image()
        hands.tell(f"another tool fetches {row.names[0]}")

    for _ in range(random.randint(3, 9)):
        hands.at(random.uniform(20, until - 100), fetch)


def draw_scarcity_faults(seed: int) -> tuple[AnyFault, ...]:
    """Draw what befalls the actors, messages and calls of an eviction."""
    random = Random(f"{seed}/scarcity faults")
    faults: list[AnyFault] = [
        CrashActor(path=random.choice(CRASHES), after=random.randrange(120))
        for _ in range(random.randint(4, 9))
    ]
    for _ in range(random.randint(2, 5)):
        path, message = random.choice(MESSAGES)
        after = random.randrange(4 if message in RARE else 40)
        match random.randrange(4):
            case 0:
                faults.append(DuplicateMessage(path=path, message=message, after=after))
            case 1 if message == "KillPod":
                # It only adds; the others are levels of one sender, whose order the kernel keeps.
                delay_s = random.choice((2.0, 15.0))
                faults.append(DelayMessage(path=path, message=message, delay_s=delay_s, after=after))
            case _:
                faults.append(DropMessage(path=path, message=message, after=after))
    for _ in range(random.randint(3, 8)):
        port, call = random.choice(OPERATIONS)
        after, when = random.randrange(25), random.choice(tuple(When))
        match random.randrange(3):
            case 0:
                kind = random.choice((FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT)).value
                times = random.choice((1, 3))
                faults.append(
                    FailOperation(port=port, call=call, kind=kind, after=after, when=when, times=times)
                )
            case 1:
                faults.append(HangOperation(port=port, call=call, after=after, when=when, times=2))
            case _:
                faults.append(DelayOperation(port=port, call=call, after=after, delay_s=12.0, times=2))
    return (*faults, *draw_long_wants(seed))


def draw_long_wants(seed: int) -> Iterator[AnyFault]:
    """Draw containers that take long to be made: meanwhile nothing but a want keeps their image from going."""
    random = Random(f"{seed}/long wants")
    for _ in range(random.randint(1, 4)):
        yield HangOperation(port="runtime", call="CreateContainer", after=random.randrange(30), times=2)
