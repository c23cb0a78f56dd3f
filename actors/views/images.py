"""Images for users: list, pull, remove and garbage-collect, from fresh calls of the runtime and committed state.

Reading sends no message. `remove_image` goes through ImagePuller and waits for its answer with a deadline; a garbage
collection is started by a message to ImageGCManager.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from actors.imagegc.inspection import (
    IMAGES,
    ImageInspection,
    Inventory,
    inventory,
    missing,
    port_of,
    with_failure,
    with_result,
)
from actors.imagegc.reference import ImageIndex
from actors.imagegc.report import run_of, standing
from actors.imagegc.state import ImageGCState
from actors.imagegc.verdict import Goal, judge, listed, remember
from actors.pod.state import PodState, Recalling, Syncing
from actors.pod.status.phase import TERMINAL
from actors.rules.imagename import forms
from actors.views.asked import AskedPorts
from api import paths
from api.errors import (
    ConflictError,
    NotFoundError,
    OperatingError,
    RejectedError,
    UnavailableError,
)
from api.ids import Instant, Path, WallNs
from api.messages import Message
from api.messages.imagegc import CollectImages, ImageDropped
from api.messages.images import DropImage
from api.ports.images import ImageRow, PullImage
from api.shown.introspection import Collection, HeldImage, ImageDecision, ImageGCRow

EDGE = Path("/edge")
"""The sender of messages on behalf of users."""
INSPECTION_DEADLINE_S = 10.0
PULL_DEADLINE_S = 3600.0
REMOVE_DEADLINE_S = 130.0
NOT_MEASURED = "not asked for"

Wants = Mapping[str, tuple[str, ...]]
"""Image reference of a pod spec -> pods that need it, as ``namespace/name``."""


class ActorSystem(Protocol):
    """The part of the actor system that the view needs."""

    def committed(self, path: Path) -> msgspec.Struct | None:
        """Return the last committed state of an actor."""
        ...

    def route(self, path: Path, message: Message) -> None:
        """Send a message to the actor at `path`."""
        ...

    def ask(self, path: Path, make_message: Callable[[Path], Message], deadline_s: float) -> Message:
        """Send the actor at `path` a message with a reply path, and wait for the reply."""
        ...


class ImageView:
    """The part of a `Window` that is about images."""

    def __init__(
        self,
        actors: ActorSystem,
        now: Callable[[], Instant],
        wall: Callable[[], WallNs],
        ports: AskedPorts,
        wants: Callable[[], Wants],
    ) -> None:
        self._actors, self._now, self._wall, self._ports, self._wants = actors, now, wall, ports, wants
        self._numbers = itertools.count(1)

    def images(self) -> tuple[HeldImage, ...]:
        """Return the runtime's images, by id."""
        seen = self._inspect(measure=False)
        wanted, state = self._wanted(seen), self._collector()
        return tuple(
            self._held(image, seen, wanted, state) for image in sorted(seen.images, key=lambda i: i.id)
        )

    def pull_image(self, reference: str) -> HeldImage:
        """Pull an image and return it; no time limit."""
        result = self._ports.images(PullImage(image=reference), PULL_DEADLINE_S)
        found = (image for text in (getattr(result, "ref", ""), reference) for image in self._matching(text))
        return next(found, HeldImage(id=getattr(result, "ref", ""), names=(reference,)))

    def remove_image(self, reference: str) -> HeldImage:
        """Remove the image of this id, short id or name, with all its names, and return what it was.

        Raises `ConflictError` for one that a pod uses or wants, naming the pods.
        """
        as_of = self._now()
        image = self._one(reference)
        name = image.names[0] if image.names else image.id
        if image.containers:
            raise ConflictError(
                f"image {name} is used by {listed(image.containers)}; remove those pods first"
            )
        if image.wanted_by:
            raise ConflictError(
                f"image {name} is needed by {listed(image.wanted_by)}; remove those pods first"
            )
        if image.pinned:
            raise ConflictError(f"image {name} is pinned by the runtime")
        answer = self._actors.ask(
            paths.IMAGES,
            lambda reply: DropImage(id=image.id, names=image.names, as_of=as_of, asked_by=reply),
            REMOVE_DEADLINE_S,
        )
        if not isinstance(answer, ImageDropped) or not answer.removed:
            why = answer.why if isinstance(answer, ImageDropped) else type(answer).__name__
            raise ConflictError(f"image {name} was not removed: {why}")
        return image

    def plan_collection(self) -> Collection:
        """Return the plan of a garbage collection of all unused images, without running it."""
        seen, state, now = self._inspect(measure=True), self._collector(), self._now()
        goal = Goal(everything=True, since=now, wanted=self._wanted(seen))
        judgement = judge(seen, remember(state.records, seen, now), state.policy, goal, now)
        return Collection(
            dry_run=True,
            done=True,
            everything=True,
            ended_at=self._wall(),
            images=judgement.verdicts,
            before=seen.fs,
            removed_bytes=sum(
                max(0, row.size_bytes) for row in judgement.verdicts if row.decision is ImageDecision.REMOVE
            ),
            note=seen.unmeasured,
        )

    def start_collection(self) -> str:
        """Start a garbage collection of all unused images and return the name of the run."""
        if self._actors.committed(paths.IMAGEGC) is None:
            raise UnavailableError("ImageGCManager has not started; retry in a moment")
        run = f"{self._wall()}-{next(self._numbers)}"
        self._actors.route(paths.IMAGEGC, CollectImages(run=run, asked_by=EDGE))
        return run

    def collection(self, run: str) -> Collection | None:
        """Return the collection of this run, None when it is not known yet, or not any more."""
        return run_of(self._collector(), run, self._now())

    def image_gc(self) -> ImageGCRow:
        """Return the state of image garbage collection."""
        return standing(self._collector(), self._now())

    # ------------------------------------------------------------ within

    def _collector(self) -> ImageGCState:
        state = self._actors.committed(paths.IMAGEGC)
        return state if isinstance(state, ImageGCState) else ImageGCState()

    def _inspect(self, *, measure: bool) -> Inventory:
        """Inspect the runtime's images, one call after the other. Raises the error of the first failed call."""
        inspection = ImageInspection(
            mounts=self._collector().mounts, unmeasured="" if measure else NOT_MEASURED
        )
        while calls := missing(inspection):
            for call in calls:
                try:
                    ask = self._ports.images if port_of(call) == IMAGES else self._ports.runtime
                    inspection = with_result(inspection, call, ask(call, INSPECTION_DEADLINE_S))
                except OperatingError as error:
                    known = with_failure(inspection, call, error.failure(), must_measure=False)
                    if known is None:
                        raise
                    inspection = known
        seen = inventory(inspection)
        return seen if measure else replace(seen, unmeasured="")

    def _wanted(self, seen: Inventory) -> Wants:
        """Return the ids of images that pods need, each with the pods."""
        index = ImageIndex(seen.images)
        wanted: dict[str, set[str]] = {}
        for reference, pods in self._wants().items():
            for image in index.find(reference):
                wanted.setdefault(image.id, set()).update(pods)
        return {image_id: tuple(sorted(pods)) for image_id, pods in wanted.items()}

    def _held(self, image: ImageRow, seen: Inventory, wanted: Wants, state: ImageGCState) -> HeldImage:
        record, now = state.records.get(image.id), self._now()
        users = seen.users.get(image.id, ())
        used_at = record.last_used if record else None
        return HeldImage(
            id=image.id,
            names=image.names,
            size_bytes=image.size_bytes,
            pinned=image.pinned,
            user=image.user,
            user_name=image.user_name,
            containers=users,
            wanted_by=wanted.get(image.id, ()),
            seen_ago_s=None if record is None else max(0.0, now - record.first_detected),
            used_ago_s=0.0 if users else None if used_at is None else max(0.0, now - used_at),
        )

    def _matching(self, reference: str) -> tuple[HeldImage, ...]:
        held = self.images()
        index = ImageIndex(ImageRow(id=image.id, names=image.names) for image in held)
        ids = {image.id for image in index.find(reference)}
        return tuple(image for image in held if image.id in ids)

    def _one(self, reference: str) -> HeldImage:
        if not forms(reference):
            raise RejectedError("image required: give its id or one of its names")
        found = self._matching(reference)
        if not found:
            raise NotFoundError(f'no image "{reference}" on this node; see `nodeagent images ls`')
        if len(found) > 1:
            ids = ", ".join(image.id for image in found)
            raise RejectedError(f'"{reference}" is ambiguous: {ids}; give the whole id')
        return found[0]


def wanted_images(states: Iterable[PodState]) -> Wants:
    """Return the images that running and starting pods need: of containers and of image volumes."""
    wanted: dict[str, set[str]] = {}
    for state in states:
        pod = state.desired
        if pod is None or not isinstance(state.life, Recalling | Syncing) or state.base.phase in TERMINAL:
            continue
        spec = pod.spec
        names = [container.image for _, group in spec.container_groups() for container in group]
        names += [volume.image.reference or "" for volume in spec.volumes if volume.image is not None]
        for name in names:
            wanted.setdefault(name, set()).add(f"{pod.metadata.namespace}/{pod.metadata.name}")
    return {name: tuple(sorted(pods)) for name, pods in sorted(wanted.items()) if name}
