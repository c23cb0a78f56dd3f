"""The port ``images`` on the embedded runtime, which has one image; and what it says of pods that name others."""

import os
import re
from typing import assert_never

import msgspec

from api.errors import OperatingError, RejectedError
from api.ports.images import (
    AnyImageCall,
    ImageCall,
    ImageFsUsage,
    ImageListing,
    ImagePulled,
    ImageRemoved,
    ImageRow,
    ImageShown,
    ImageStatus,
    ListImages,
    PullImage,
    RemoveImage,
)
from api.ports.port import Done, Undo
from api.ports.runtime import HOST_IMAGE, ContainerSpec

_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:localhost|{_LABEL}(?:\.{_LABEL})+|{_LABEL}(?=:[0-9])|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
"""A registry is known by a dot, a port or the name localhost; any other first word belongs to the path."""
_REFERENCE = re.compile(
    rf"(?P<path>(?:{_HOST}/)?{_WORD}(?:/{_WORD})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[A-Za-z0-9+._-]+:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)


class EmbeddedImages:
    """The port ``images``: it holds nothing, so it answers at once, on the caller's thread."""

    name = "images"

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:  # noqa: ARG002  # at once
        """Carry out one call of `AnyImageCall`."""
        assert isinstance(call, ImageCall)
        try:
            result = answer(call)  # type: ignore[arg-type]
        except OperatingError as error:
            done(None, error.failure())
        else:
            done(result, None)
        return _answered


def _answered() -> None:
    """Take back what was answered already."""


def answer(call: AnyImageCall) -> msgspec.Struct:
    """Return the result of a call on images. Raises RejectedError for what this runtime does not do."""
    match call:
        case ListImages():
            return ImageListing(images=(host_row(os.geteuid()),))
        case ImageStatus():
            return ImageShown(image=host_row(os.geteuid()) if is_host_image(call.image) else None)
        case PullImage():
            require_host_image(call.image)
            return ImagePulled(ref=call.image)
        case RemoveImage():
            if is_host_image(call.image):
                raise RejectedError(f"image {call.image} is built in and cannot be removed")
            return ImageRemoved()
        case ImageFsUsage():
            raise RejectedError("the embedded runtime keeps no images on any file system")
        case _:
            assert_never(call)


def host_row(user: int) -> ImageRow:
    """Return the built-in image for listings: it runs as the agent's own user."""
    return ImageRow(id=HOST_IMAGE, names=(f"{HOST_IMAGE}:latest",), pinned=True, user=user)


def is_host_image(image: str) -> bool:
    """Return whether a reference names the built-in image, whatever its tag."""
    parsed = _REFERENCE.fullmatch(image)
    return parsed is not None and parsed["path"] == HOST_IMAGE and not parsed["digest"]


def require_host_image(image: str) -> None:
    """Raise RejectedError, with the reason to publish, for an image that this runtime does not have."""
    if _REFERENCE.fullmatch(image) is None:
        raise RejectedError(
            f"image {image!r} is not a valid image reference; write [registry/]name[:tag][@digest]",
            reason="InvalidImageName",
        )
    if not is_host_image(image):
        raise RejectedError(
            f"image {image!r} cannot run here: the embedded runtime runs only its built-in image {HOST_IMAGE} (commands"
            " on the host's own files). use containerd or CRI-O:"
            " --container-runtime-endpoint unix:///run/containerd/containerd.sock",
            reason="ErrImagePull",
        )


def require_runnable(spec: ContainerSpec) -> None:
    """Raise RejectedError, with the reason to publish, for what this runtime cannot run."""
    try:
        require_host_image(spec.image)
    except RejectedError as error:
        raise RejectedError(f"container {spec.name}: {error}", reason=error.reason) from None
    if not (spec.command or spec.args):
        raise RejectedError(
            f"container {spec.name}: image {HOST_IMAGE} has no entry point of its own; set command",
            reason="CreateContainerError",
        )
    if spec.tty or spec.stdin:
        field = "tty" if spec.tty else "stdin"
        raise RejectedError(
            f"container {spec.name}: {field}: true is not supported by the embedded runtime yet; remove it",
            reason="CreateContainerError",
        )
    _require_plain(spec)


def require_own_user(spec: ContainerSpec) -> None:
    """Raise RejectedError for a container that runs as another user or group than an agent without root."""
    if os.geteuid() == 0:
        return
    for field, wanted, own in (
        ("runAsUser", spec.user, os.geteuid()),
        ("runAsGroup", spec.group, os.getegid()),
    ):
        if wanted not in (None, own):
            raise RejectedError(
                f"container {spec.name}: {field} {wanted} needs root, and the agent runs as user {os.geteuid()} group"
                f" {os.getegid()}; remove {field}, or run the agent as root",
                reason="CreateContainerError",
            )


def _require_plain(spec: ContainerSpec) -> None:
    """Refuse what no process can be given; an environment value is never repeated."""
    for variable in spec.env:
        if not variable.name or "=" in variable.name or "\0" in variable.name or "\0" in variable.value:
            raise RejectedError(
                f"container {spec.name}: environment variable {variable.name!r} has an empty name, "
                "a '=' in its name or a NUL byte",
                reason="CreateContainerError",
            )
    for word in (*spec.command, *spec.args, spec.working_dir):
        if "\0" in word:
            raise RejectedError(
                f"container {spec.name}: command, args and workingDir must not hold NUL bytes",
                reason="CreateContainerError",
            )
    parts = spec.log_path.split("/")
    if spec.log_path.startswith("/") or ".." in parts:
        raise RejectedError(
            f"container {spec.name}: log path {spec.log_path!r} leaves the pod's log folder",
            reason="CreateContainerError",
        )
