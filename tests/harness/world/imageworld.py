"""A virtual node that has nothing but images: a runtime with a small disk, pods that come and go, and the image manager.

Who removes images is a stand-in for the image puller with its rules: a wanted image is refused, one removal at a time.
The world checks each removal against the truth at that instant; it never asks the manager what is right.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from actors.imagegc.actor import ImageGCManager
from actors.imagegc.state import ImageGCPolicy, ImageGCState
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Path, Uid
from api.messages.imagegc import CollectImages, ImageDropped
from api.messages.images import DropImage
from api.ports.images import ImageFsUsage, ImageRow, ImageStatus, ListImages, RemoveImage
from api.ports.port import Done, Port, Undo
from api.ports.runtime import (
    ContainerSpec,
    CreateContainer,
    InspectPod,
    ListPods,
    RemoveSandbox,
    RunSandbox,
    SandboxSpec,
    StartContainer,
)
from runtime.drivers.memory.call import Latency
from runtime.drivers.memory.disk import Disk
from runtime.drivers.memory.runtime import MemoryRuntime
from runtime.kernel.actor import Actor
from runtime.kernel.sim import SimSystem, VirtualTime

MB = 10**6
CAPACITY = 1000 * MB
LATENCY = Latency(effect_s=(0.0, 0.05), reply_s=(0.0, 0.05))
LOOKS = (ListImages, ListPods, InspectPod, ImageStatus, ImageFsUsage)
ASKER = Path("/admin")
"""Who asks for collections here: a person, who is told nothing."""


def image_id(number: int) -> str:
    """Return the id of the image of a number."""
    return f"sha256:{number:064x}"


def row(number: int, size: int = 50 * MB, **more: Any) -> ImageRow:
    """Return an image whose tag is its number."""
    names = more.pop("names", (f"registry.local/app:{number}",))
    return ImageRow(id=image_id(number), names=names, size_bytes=size, **more)


class Puller(Actor[DropImage]):
    """The image puller's part in removals."""

    def __init__(self, world: ImageWorld) -> None:
        self._world = world
        self._waits: dict[int, DropImage] = {}

    def receive(self, message: Any, ctx: Any) -> None:
        """Remove one image, unless a pod wants it."""
        world = self._world
        match message:
            case DropImage(id=id_, asked_by=asked_by):
                if world.deaf:
                    return
                if wanted := world.wanted.get(id_):
                    told = ImageDropped(
                        id=id_, removed=False, wanted=True, why=f"wanted by {', '.join(sorted(wanted))}"
                    )
                    ctx.handle(asked_by).tell(told)
                    return
                op = ctx.new_op()
                self._waits[op] = message
                ctx.start(op, world.images_port, RemoveImage(image=id_), 30.0)
            case _:
                asked = self._waits.pop(message.op)
                failure = message.failure
                world.drops += 1
                told = ImageDropped(
                    id=asked.id, removed=failure is None, why=failure.message if failure is not None else ""
                )
                ctx.handle(asked.asked_by).tell(told)


class ImagePort:
    """A port of the runtime, with calls that fail or hang as the world says, and each removal checked."""

    def __init__(self, world: ImageWorld, port: Port) -> None:
        self.name, self._world, self._port = port.name, world, port

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start a call."""
        world = self._world
        if isinstance(call, RemoveImage):
            world.check_removal(call.image)
        fails = world.fails(call)
        if fails is None:
            return self._port.begin(call, deadline_s, done)
        return world.time.call_at(world.time.now() + 0.01, lambda: done(None, fails))


class ImageWorld:
    """One virtual node."""

    def __init__(
        self,
        seed: int = 0,
        *,
        images: tuple[ImageRow, ...] = (),
        policy: ImageGCPolicy | None = None,
        disk: Disk | None = None,
        complete: bool = True,
        puller: bool = True,
    ) -> None:
        self.time = VirtualTime(seed)
        self.random = Random(f"{seed}/images")
        self.disk = disk or Disk(capacity_bytes=CAPACITY)
        self.runtime = MemoryRuntime(
            self.time, seed=seed, images=images, complete_listings=complete, disk=self.disk, latency=LATENCY
        )
        self.wanted: dict[str, set[str]] = {}
        self.deaf = False
        self.failing: dict[type, Failure] = {}
        self.fault_share = 0.0
        self.removals: list[str] = []
        self.removed_at: list[float] = []
        self.drops = 0
        self.broken: list[str] = []
        self.mounts: dict[str, tuple[str, ...]] = {}
        """Container name -> images mounted into it."""
        self.hidden_ids = False
        """The listing names containers' images by digest and tag only, as some runtimes do."""
        self.system = SimSystem(seed, time=self.time)
        self.runtime_port = ImagePort(self, self.runtime)
        self.images_port = ImagePort(self, self.runtime.images)
        if puller:
            self.system.spawn(Puller.options(name="images").bind(self))
        self.policy = policy or ImageGCPolicy()
        state = ImageGCState(policy=self.policy, node_name="n1", deadline_s=10.0)
        self.handle = self.system.spawn(
            ImageGCManager.options(name="imagegc").bind(
                state, {"runtime": self.runtime_port, "images": self.images_port}
            )
        )
        self._pods = 0
        self._pulled = 1000
        self._mend_listing()

    # ------------------------------------------------------------ the world's hands

    def add_image(self, image: ImageRow) -> ImageRow:
        """Have one more image."""
        world = self.runtime._world
        world.images = (*world.images, image)
        return image

    def pull(self, size: int) -> ImageRow:
        """Have one more image, of a number that was never used."""
        self._pulled += 1
        return self.add_image(row(self._pulled, size))

    def images(self) -> tuple[ImageRow, ...]:
        """Return what is there."""
        return self.runtime._world.images

    def run_pod(self, image: ImageRow, *, script: tuple[str, ...] = ("run",), name: str = "") -> Uid:
        """Have a pod with one container of an image."""
        self._pods += 1
        uid = Uid(f"pod-{self._pods}")
        spec = SandboxSpec(
            uid=uid, name=name or uid, namespace="default", attempt=0, log_directory=f"/l/{uid}"
        )
        self._now(RunSandbox(spec=spec))
        (sandbox,) = self.runtime._world.pod(uid).sandboxes
        inside = ContainerSpec(
            name=f"main-{uid}", attempt=0, image=image.id, image_asked=image.names[0] if image.names else image.id,
            command=script, log_path="main/0.log",
        )  # fmt: skip
        self._now(CreateContainer(uid=uid, sandbox_id=sandbox.id, sandbox=spec, spec=inside))
        (container,) = self.runtime._world.pod(uid).containers
        self._now(StartContainer(uid=uid, container_id=container.id))
        return uid

    def remove_pod(self, uid: Uid) -> None:
        """Remove a pod with all that is in it."""
        for sandbox in self.runtime._world.pod(uid).sandboxes:
            self._now(RemoveSandbox(uid=uid, sandbox_id=sandbox.id))

    def _now(self, call: msgspec.Struct) -> None:
        world = self.runtime._world
        match call:
            case RunSandbox():
                world.run_sandbox(call)
            case CreateContainer():
                world.create_container(call)
            case StartContainer():
                world.start_container(call)
            case RemoveSandbox():
                world.remove_sandbox(call)

    def _mend_listing(self) -> None:
        """Let pods show mounted images, and images by another name than their id where that is the runtime's way."""
        world = self.runtime._world
        right = world.pod

        def pod(uid: Uid):
            shown = right(uid)
            return replace(shown, containers=tuple(self._shown(c) for c in shown.containers))

        world.pod = pod

    def _shown(self, container):
        mounts = self.mounts.get(container.name, ())
        if not self.hidden_ids:
            return replace(container, image_mounts=mounts)
        found = next((image for image in self.images() if container.image in (image.id, *image.names)), None)
        ref = found.names[-1] if found and found.names else container.image
        return replace(container, image_mounts=mounts, image_id="", image_ref=ref, image=ref)

    # ------------------------------------------------------------ faults and checks

    def fails(self, call: msgspec.Struct) -> Failure | None:
        """Return what a call fails with."""
        planned = self.failing.get(type(call))
        if planned is not None:
            return planned
        if self.fault_share and self.random.random() < self.fault_share:
            return Failure(kind=FailureKind.UNAVAILABLE, message=f"{type(call).__name__}: the socket is gone")
        return None

    def in_use(self) -> dict[str, list[str]]:
        """Return the truth: image id -> containers."""
        used: dict[str, list[str]] = {}
        world = self.runtime._world
        names = {name: image.id for image in world.images for name in (image.id, *image.names)}
        for container in world.containers.values():
            for ref in (container.image, *self.mounts.get(container.name, ())):
                if ref in names:
                    used.setdefault(names[ref], []).append(container.name)
        return used

    def check_removal(self, gone: str) -> None:
        """Hold one removal against the truth at its instant."""
        image = next((one for one in self.images() if one.id == gone), None)
        self.removals.append(gone)
        self.removed_at.append(self.time.now())
        if image is None:
            return
        if users := self.in_use().get(gone):
            self.broken.append(f"{gone} was removed while {users} use it")
        if self.wanted.get(gone):
            self.broken.append(f"{gone} was removed while {self.wanted[gone]} want it")
        if image.pinned or any(name.startswith("registry.k8s.io/pause") for name in image.names):
            self.broken.append(f"{gone} was removed though it is pinned")
        state = self.state
        if not (state.round and state.round.everything) and not self.policy.max_age_s:
            spare = self.free() - self.disk.capacity_bytes * (100 - self.policy.low_percent) // 100
            if spare >= 0:
                self.broken.append(f"{gone} was removed though {spare} bytes more than needed are free")

    def free(self) -> int:
        """Return what would show as free had all space of removed images shown already."""
        return max(0, self.disk.capacity_bytes - self.disk.other_bytes - self.disk.taken(self.images()))

    # ------------------------------------------------------------ time

    @property
    def state(self) -> ImageGCState:
        """Return what the manager last committed."""
        state = self.system.committed(paths.IMAGEGC)
        return state if isinstance(state, ImageGCState) else ImageGCState()

    def run_for(self, seconds: float) -> None:
        """Let time go by."""
        self.system.run_for(seconds)
        assert self.system.failed is None, self.system.failed

    def until(self, condition: Callable[[], bool], limit_s: float = 600.0) -> None:
        """Let time go by until something holds."""
        assert self.system.await_until(condition, limit_s), self.state

    def collect(self, run: str = "r1") -> None:
        """Ask for everything unused to go, and wait until that run is over."""
        self.handle.tell(CollectImages(run=run, asked_by=ASKER))
        self.until(lambda: any(run in one.runs for one in self.state.collected))

    def there(self) -> set[str]:
        """Return the ids of what is there."""
        return {image.id for image in self.images()}
