"""One look at the runtime: which images there are, who uses them, how full their file system is.

```text
missing(look) --calls--> ports runtime and images --results--> take(look, call, result) --> missing(look) ... nothing --> inventory(look)
```

The actor makes the calls side by side, a dry run one by one; both decide from the same inventory. A call that fails ends
the look: nothing is ever removed on partial knowledge.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from actors.imagegc.reference import ImageIndex
from api.errors import Failure, FailureKind
from api.ids import Uid
from api.ports.images import (
    AnyImageCall,
    ImageCall,
    ImageFs,
    ImageFsUsage,
    ImageListing,
    ImageRow,
    ImageShown,
    ImageStatus,
    ListImages,
)
from api.ports.runtime import InspectPod, ListPods, PodListing, RuntimeContainer, RuntimePod

RUNTIME, IMAGES = "runtime", "images"
LookCall = AnyImageCall | ListPods | InspectPod
"""What a look asks of two ports."""


class ImageInspection(msgspec.Struct, frozen=True, kw_only=True):
    """What one look has shown so far."""

    mounts: Mapping[str, tuple[str, ...]] = {}
    """Images mounted into containers, by container id, from earlier looks: they never change."""
    images: tuple[ImageRow, ...] | None = None
    pods: tuple[RuntimePod, ...] | None = None
    inspected: Mapping[Uid, RuntimePod] = {}
    shown: Mapping[str, str] = {}
    """Reference -> id of the image that the runtime knows by it, empty for none."""
    fs: ImageFs | None = None
    unmeasured: str = ""
    """Why the file system cannot be measured at all."""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """A whole look."""

    images: tuple[ImageRow, ...] = ()
    users: Mapping[str, tuple[str, ...]] = {}
    """Image id -> the containers made from it or mounting it, running or not, as ``namespace/pod/container``."""
    mounts: Mapping[str, tuple[str, ...]] = {}
    fs: ImageFs | None = None
    unmeasured: str = ""


def port_of(call: LookCall) -> str:
    """Return the port that carries out a call of a look."""
    return IMAGES if isinstance(call, ImageCall) else RUNTIME


def missing(look: ImageInspection) -> tuple[LookCall, ...]:
    """Return the calls that the look still lacks, in a fixed order; none when it is whole."""
    calls: list[LookCall] = []
    if look.images is None:
        calls.append(ListImages())
    if look.pods is None:
        calls.append(ListPods())
    if look.fs is None and not look.unmeasured:
        calls.append(ImageFsUsage())
    if look.images is None or look.pods is None:
        return tuple(calls)
    unseen = [
        InspectPod(uid=pod.uid)
        for pod in look.pods
        if pod.uid not in look.inspected and any(c.id not in look.mounts for c in pod.containers)
    ]
    if unseen:
        return (*calls, *unseen)
    index = ImageIndex(look.images)
    strange = {ref for _, container in containers_of(look) for ref in unresolved(look, container, index)}
    return (*calls, *(ImageStatus(image=ref) for ref in sorted(strange)))


def unresolved(look: ImageInspection, container: RuntimeContainer, index: ImageIndex) -> Iterable[str]:
    """Return the references of a container that no listed name says the meaning of."""
    first = container.image_ref or container.image
    refs = (*mounts_of(look, container), *(() if container.image_id else (first,)))
    return (ref for ref in refs if ref and ref not in look.shown and not index.find(ref))


def take(look: ImageInspection, call: LookCall, result: msgspec.Struct | None) -> ImageInspection:
    """Take in what a call showed."""
    match call, result:
        case ListImages(), ImageListing(images=images):
            return replace(look, images=images)
        case ListPods(), PodListing(pods=pods, complete=complete):
            known = {
                container.id: container.image_mounts if complete else look.mounts[container.id]
                for pod in pods
                for container in pod.containers
                if complete or container.id in look.mounts
            }
            return replace(look, pods=pods, mounts=known)
        case ImageFsUsage(), ImageFs():
            return replace(look, fs=result)
        case InspectPod(uid=uid), RuntimePod(containers=containers):
            known = {container.id: container.image_mounts for container in containers}
            # What the listing had and the inspection has not is gone by now, and its mounts with it.
            listed = {c.id: () for pod in look.pods or () if pod.uid == uid for c in pod.containers}
            mounts = {**look.mounts, **{c: look.mounts.get(c, ()) for c in listed}, **known}
            return replace(look, mounts=mounts, inspected={**look.inspected, uid: result})
        case ImageStatus(image=ref), ImageShown(image=image):
            return replace(look, shown={**look.shown, ref: image.id if image else ""})
        case _:
            raise AssertionError(f"{type(call).__name__} was answered with {type(result).__name__}")


def take_failure(
    look: ImageInspection, call: LookCall, failure: Failure, *, must_measure: bool
) -> ImageInspection | None:
    """Take in that a call failed; None when the look is worth nothing without its answer.

    A runtime that keeps its images on no file system rejects the measuring: that is an answer. Where the space decides
    nothing (`must_measure` False), one that cannot be measured now is left unmeasured.
    """
    match call:
        case ImageFsUsage() if failure.kind is FailureKind.REJECTED or not must_measure:
            return replace(look, unmeasured=failure.message)
        case InspectPod(uid=uid) if failure.kind is FailureKind.NOT_FOUND:
            return take(look, call, RuntimePod(uid=uid, name="", namespace=""))
        case ImageStatus(image=ref) if failure.kind is FailureKind.NOT_FOUND:
            return replace(look, shown={**look.shown, ref: ""})
        case _:
            return None


def inventory(look: ImageInspection) -> Inventory:
    """Return what a whole look says."""
    assert look.images is not None
    index = ImageIndex(look.images)
    users: dict[str, list[str]] = {}
    for name, container in containers_of(look):
        refs = (container.image_id, container.image_ref, container.image, *mounts_of(look, container))
        for image_id in sorted({found for ref in refs for found in meant(look, index, ref)}):
            users.setdefault(image_id, []).append(name)
    return Inventory(
        images=look.images,
        users={image_id: tuple(sorted(set(names))) for image_id, names in users.items()},
        mounts=look.mounts,
        fs=look.fs,
        unmeasured=look.unmeasured,
    )


def meant(look: ImageInspection, index: ImageIndex, ref: str) -> Iterable[str]:
    """Return the ids of all images that a reference may mean."""
    yield from (image.id for image in index.find(ref))
    if look.shown.get(ref):
        yield look.shown[ref]


def containers_of(look: ImageInspection) -> Iterable[tuple[str, RuntimeContainer]]:
    """Return every container of every pod as ``namespace/pod/container``, as listed and as inspected: both count."""
    for pod in look.pods or ():
        closer = look.inspected.get(pod.uid)
        for container in (*pod.containers, *(closer.containers if closer else ())):
            yield f"{pod.namespace}/{pod.name}/{container.name}", container


def mounts_of(look: ImageInspection, container: RuntimeContainer) -> tuple[str, ...]:
    """Return the images mounted into a container."""
    return (*container.image_mounts, *look.mounts.get(container.id, ()))
