"""One inspection of the runtime: which images there are, who uses them, how full their file system is.

```text
missing(inspection) --calls--> ports runtime and images --results--> with_result(inspection, call, result) --> missing(inspection) ... nothing --> inventory(inspection)
```

The actor makes the calls side by side, a dry run one by one; both decide from the same inventory. A call that fails ends
the inspection: nothing is ever removed on partial knowledge.
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
InspectionCall = AnyImageCall | ListPods | InspectPod
"""What an inspection asks of two ports."""


class ImageInspection(msgspec.Struct, frozen=True, kw_only=True):
    """What one inspection has shown so far."""

    mounts: Mapping[str, tuple[str, ...]] = {}
    """Images mounted into containers, by container id, from earlier inspections: they never change."""
    images: tuple[ImageRow, ...] | None = None
    pods: tuple[RuntimePod, ...] | None = None
    inspected: Mapping[Uid, RuntimePod] = {}
    shown: Mapping[str, str] = {}
    """Reference -> id of the image that the runtime knows by it, empty for none."""
    fs: ImageFs | None = None
    unmeasured: str = ""
    """Why the file system cannot be measured at all."""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """A whole inspection."""

    images: tuple[ImageRow, ...] = ()
    users: Mapping[str, tuple[str, ...]] = {}
    """Image id -> the containers made from it or mounting it, running or not, as ``namespace/pod/container``."""
    mounts: Mapping[str, tuple[str, ...]] = {}
    fs: ImageFs | None = None
    unmeasured: str = ""


def port_of(call: InspectionCall) -> str:
    """Return the port that carries out a call of an inspection."""
    return IMAGES if isinstance(call, ImageCall) else RUNTIME


def missing(inspection: ImageInspection) -> tuple[InspectionCall, ...]:
    """Return the calls that the inspection still lacks, in a fixed order; none when it is whole."""
    calls: list[InspectionCall] = []
    if inspection.images is None:
        calls.append(ListImages())
    if inspection.pods is None:
        calls.append(ListPods())
    if inspection.fs is None and not inspection.unmeasured:
        calls.append(ImageFsUsage())
    if inspection.images is None or inspection.pods is None:
        return tuple(calls)
    unseen = [
        InspectPod(uid=pod.uid)
        for pod in inspection.pods
        if pod.uid not in inspection.inspected and any(c.id not in inspection.mounts for c in pod.containers)
    ]
    if unseen:
        return (*calls, *unseen)
    index = ImageIndex(inspection.images)
    strange = {
        ref for _, container in containers_of(inspection) for ref in unresolved(inspection, container, index)
    }
    return (*calls, *(ImageStatus(image=ref) for ref in sorted(strange)))


def unresolved(inspection: ImageInspection, container: RuntimeContainer, index: ImageIndex) -> Iterable[str]:
    """Return the references of a container that no listed name says the meaning of."""
    first = container.image_ref or container.image
    refs = (*mounts_of(inspection, container), *(() if container.image_id else (first,)))
    return (ref for ref in refs if ref and ref not in inspection.shown and not index.find(ref))


def with_result(
    inspection: ImageInspection, call: InspectionCall, result: msgspec.Struct | None
) -> ImageInspection:
    """Absorb what a call showed."""
    match call, result:
        case ListImages(), ImageListing(images=images):
            return replace(inspection, images=images)
        case ListPods(), PodListing(pods=pods, complete=complete):
            known = {
                container.id: container.image_mounts if complete else inspection.mounts[container.id]
                for pod in pods
                for container in pod.containers
                if complete or container.id in inspection.mounts
            }
            return replace(inspection, pods=pods, mounts=known)
        case ImageFsUsage(), ImageFs():
            return replace(inspection, fs=result)
        case InspectPod(uid=uid), RuntimePod(containers=containers):
            known = {container.id: container.image_mounts for container in containers}
            # What the listing had and the inspection has not is gone by now, and its mounts with it.
            listed = {c.id: () for pod in inspection.pods or () if pod.uid == uid for c in pod.containers}
            mounts = {**inspection.mounts, **{c: inspection.mounts.get(c, ()) for c in listed}, **known}
            return replace(inspection, mounts=mounts, inspected={**inspection.inspected, uid: result})
        case ImageStatus(image=ref), ImageShown(image=image):
            return replace(inspection, shown={**inspection.shown, ref: image.id if image else ""})
        case _:
            raise AssertionError(f"{type(call).__name__} was answered with {type(result).__name__}")


def with_failure(
    inspection: ImageInspection, call: InspectionCall, failure: Failure, *, must_measure: bool
) -> ImageInspection | None:
    """Absorb that a call failed; None when the inspection is worth nothing without its answer.

    A runtime that keeps its images on no file system rejects the measuring: that is an answer. Where the space decides
    nothing (`must_measure` False), one that cannot be measured now is left unmeasured.
    """
    match call:
        case ImageFsUsage() if failure.kind is FailureKind.REJECTED or not must_measure:
            return replace(inspection, unmeasured=failure.message)
        case InspectPod(uid=uid) if failure.kind is FailureKind.NOT_FOUND:
            return with_result(inspection, call, RuntimePod(uid=uid, name="", namespace=""))
        case ImageStatus(image=ref) if failure.kind is FailureKind.NOT_FOUND:
            return replace(inspection, shown={**inspection.shown, ref: ""})
        case _:
            return None


def inventory(inspection: ImageInspection) -> Inventory:
    """Return what a whole inspection says."""
    assert inspection.images is not None
    index = ImageIndex(inspection.images)
    users: dict[str, list[str]] = {}
    for name, container in containers_of(inspection):
        refs = (container.image_id, container.image_ref, container.image, *mounts_of(inspection, container))
        for image_id in sorted({found for ref in refs for found in meant(inspection, index, ref)}):
            users.setdefault(image_id, []).append(name)
    return Inventory(
        images=inspection.images,
        users={image_id: tuple(sorted(set(names))) for image_id, names in users.items()},
        mounts=inspection.mounts,
        fs=inspection.fs,
        unmeasured=inspection.unmeasured,
    )


def meant(inspection: ImageInspection, index: ImageIndex, ref: str) -> Iterable[str]:
    """Return the ids of all images that a reference may mean."""
    yield from (image.id for image in index.find(ref))
    if inspection.shown.get(ref):
        yield inspection.shown[ref]


def containers_of(inspection: ImageInspection) -> Iterable[tuple[str, RuntimeContainer]]:
    """Return every container of every pod as ``namespace/pod/container``, as listed and as inspected: both count."""
    for pod in inspection.pods or ():
        closer = inspection.inspected.get(pod.uid)
        for container in (*pod.containers, *(closer.containers if closer else ())):
            yield f"{pod.namespace}/{pod.name}/{container.name}", container


def mounts_of(inspection: ImageInspection, container: RuntimeContainer) -> tuple[str, ...]:
    """Return the images mounted into a container."""
    return (*container.image_mounts, *inspection.mounts.get(container.id, ()))
