"""The port ``images`` over a virtual world; see `runtime.drivers.memory.call` for when what happens."""

from typing import assert_never

import msgspec

from api.ports.images import (
    AnyImageCall,
    ImageFsUsage,
    ImageListing,
    ImagePulled,
    ImageRemoved,
    ImageShown,
    ImageStatus,
    ListImages,
    PullImage,
    RemoveImage,
)
from api.ports.port import Done, Timers, Undo
from runtime.drivers.memory.call import MemoryCalls
from runtime.drivers.memory.disk import Disk
from runtime.drivers.memory.world import World


class MemoryImages:
    """The images of a world: those that it holds, and those that it can fetch."""

    name = "images"

    def __init__(self, calls: MemoryCalls, world: World, disk: Disk, timers: Timers) -> None:
        self._calls, self._world, self._disk, self._timers = calls, world, disk, timers

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start an `AnyImageCall`; `done` follows, at the deadline at the latest."""
        if not isinstance(call, AnyImageCall):
            raise TypeError(f"the port images takes no {type(call).__name__}")
        with self._calls.turn():
            fetches = isinstance(call, PullImage) and self._world.image(call.image) is None
            latency = self._calls.latency
            return self._calls.begin(
                call,
                deadline_s,
                done,
                lambda _: self._apply(call),
                takes_s=latency.pull_s if fetches else latency.effect_s,
                waits=isinstance(call, ListImages | ImageStatus | PullImage),
            )

    def _apply(self, call: AnyImageCall) -> msgspec.Struct:
        world = self._world
        match call:
            case ListImages():
                return ImageListing(images=tuple(sorted(world.images, key=lambda row: row.id)))
            case ImageStatus():
                return ImageShown(image=world.image(call.image))
            case PullImage():
                return ImagePulled(ref=world.pull(call.image))
            case RemoveImage():
                gone = [row for row in world.images if call.image in (row.id, *row.names)]
                world.images = tuple(row for row in world.images if row not in gone)
                self._disk.removed(gone, self._timers.now())
                return ImageRemoved()
            case ImageFsUsage():
                return self._disk.measure(world.images, self._timers.now(), self._timers.wall())
            case _:
                assert_never(call)
