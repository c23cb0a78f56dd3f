"""One seed of the image manager's world: pods and images come and go, everything fails at times, then all is healed.

Returns the first sentence that does not hold, empty when all did: safety while things fail, liveness after.
"""

from __future__ import annotations

from random import Random

from actors.imagegc.state import ImageGCPolicy
from api.messages.imagegc import CollectImages
from api.ports.images import ImageFs, ImageRow
from runtime.drivers.memory.disk import Disk
from tests.harness.world.imageworld import ASKER, CAPACITY, MB, ImageWorld, image_id, row

STEPS = 60
STEP_S = 45.0
HEALED_S = 1800.0
HIGH = 85
POLICY = ImageGCPolicy(high_percent=HIGH, low_percent=70, min_age_s=60.0, period_s=60.0)
"""Rounds come often, so that each meets something new."""
PATIENT_S = 5.0
"""Space that shows within this is never taken for missing."""


def begin(random: Random, seed: int) -> ImageWorld:
    """Make a world: images of shared layers and lying sizes, some pinned, on a disk that is nearly full."""
    images, layers = [], {}
    for number in range(24):
        own = random.randrange(5, 60) * MB
        base = (f"base-{number % 3}", 20 * MB)
        held = (base, (f"own-{number}", own)) if random.random() < 0.5 else ((f"own-{number}", own),)
        size = random.choice([sum(s for _, s in held), own, 0, -5, 10**15])
        names = (
            ()
            if random.random() < 0.1
            else (f"registry.local/app:{number}", f"registry.local/app@sha256:{number + 7:064x}")
        )
        images.append(row(number, size, names=names, pinned=random.random() < 0.1))
        layers[image_id(number)] = held
    disk = Disk(capacity_bytes=CAPACITY, layers=layers, delay_s=random.choice([0.0, 1.0, PATIENT_S]))
    used = CAPACITY * random.randrange(60, 99) // 100 - disk.taken(images)
    # On some nodes it is something else that fills the disk, and no image can help.
    disk.other_bytes = CAPACITY * 9 // 10 if random.random() < 0.2 else max(0, used)
    complete = random.random() < 0.5
    return ImageWorld(
        seed,
        images=tuple(images),
        policy=POLICY,
        disk=disk,
        complete=complete,
    )


def stir(world: ImageWorld, random: Random, pods: list, wants: list[ImageRow]) -> None:
    """Do one thing that happens on a node."""
    images = world.images()
    match random.choice(
        [
            "run",
            "run",
            "remove",
            "want",
            "unwant",
            "pull",
            "fault",
            "mend",
            "lie",
            "deaf",
            "mount",
            "crash",
            "collect",
        ]
    ):
        case "run" if images and len(pods) < 8:
            image = random.choice(images)
            pods.append(world.run_pod(image, script=random.choice([("run",), ("exit", "1")])))
        case "remove" if pods:
            world.remove_pod(pods.pop(random.randrange(len(pods))))
        case "want" if images and len(wants) < 4:
            image = random.choice(images)
            wants.append(image)
            world.wanted.setdefault(image.id, set()).add("default/wanting")
        case "unwant" if wants:
            world.wanted.pop(wants.pop().id, None)
        case "pull":
            image = world.pull(random.randrange(1, 80) * MB)
            world.disk.other_bytes = min(world.disk.other_bytes, CAPACITY - world.disk.taken(world.images()))
            assert image.id in world.there()
        case "fault":
            world.fault_share = random.choice([0.05, 0.3, 1.0])
        case "lie":
            world.disk.absurd = random.choice(
                [
                    ImageFs(mountpoint="/", capacity_bytes=0, available_bytes=0),
                    ImageFs(mountpoint="/", capacity_bytes=-5, available_bytes=7),
                ]
            )
        case "deaf":
            world.deaf = True
        case "mount" if pods and images:
            # A container's mounts never change: only those of pods to come.
            world.mounts[f"main-pod-{world._pods + 1}"] = (random.choice(images).id,)
        case "collect":
            world.handle.tell(CollectImages(run=f"run-{random.random()}", asked_by=ASKER))
        case "crash":
            world.system.kill(world.handle, no_restart=False)
        case _:
            world.fault_share, world.deaf, world.disk.absurd = 0.0, False, None


def run_image_seed(seed: int) -> str:
    """Run one seed."""
    random = Random(f"{seed}/stir")
    world = begin(random, seed)
    pods: list = []
    wants: list[ImageRow] = []
    for _ in range(STEPS):
        stir(world, random, pods, wants)
        world.run_for(random.uniform(1.0, STEP_S))
        if world.broken:
            return world.broken[0]
    world.fault_share, world.deaf, world.disk.absurd = 0.0, False, None
    world.run_for(HEALED_S)
    return world.broken[0] if world.broken else not_healed(world)


def not_healed(world: ImageWorld) -> str:
    """Return what should be well by now and is not."""
    state = world.state
    if state.rounds < 2:
        return "no round since the last crash"
    used = 100 - world.free() * 100 // CAPACITY
    protected = set(world.in_use()) | {id_ for id_, who in world.wanted.items() if who}
    left = [image for image in world.images() if image.id not in protected and not image.pinned]
    if used >= HIGH and left:
        return f"{used} % used and {len(left)} images could go"
    if used < HIGH and state.failures:
        return f"{used} % used, yet: {state.last.failure if state.last else ''}"
    if used >= HIGH and "FreeDiskSpaceFailed" not in {one.reason for one in state.node_events}:
        return f"{used} % used and nobody was told"
    if state.round is None and state.waiting:
        return "runs wait and nobody begins"
    if set(state.records) - world.there() - {one.id for one in world.images()}:
        return "images that are gone are remembered"
    return ""
