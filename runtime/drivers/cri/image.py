"""The port ``images`` on the image service of a container runtime; see `api.ports.images` for the rules that it keeps."""

import os
import re
import time
from typing import Any, assert_never

import msgspec

from api.errors import (
    DeniedError,
    FailureKind,
    NotFoundError,
    OperatingError,
    RejectedError,
    UnavailableError,
)
from api.ports import images as i
from api.ports.port import Done, Undo
from runtime.drivers.cri import request, shown
from runtime.drivers.cri.link import Channels
from runtime.drivers.cri.opencall import Steps, start_call
from runtime.wire import cri
from runtime.wire.generated import cri_pb2 as pb
from runtime.wire.status import BROKEN

PUBLISHED = ("RegistryUnavailable", "SignatureValidationFailed")
"""What a runtime puts before a message when it knows better why a pull failed."""
_REFUSED = re.compile(
    r"pull access denied|access to the resource is denied|authorization failed|failed to authorize|"
    r"no basic auth credentials|authentication required|unauthorized|\b40[13]\b|insufficient_scope|requested access",
    re.IGNORECASE,
)
_NO_REFERENCE = re.compile(
    r"invalid reference format|parse image reference|invalid image (name|reference)", re.IGNORECASE
)


class CriImages:
    """The image service over CRI v1. Its connection is closed by who made it."""

    name = "images"

    def __init__(self, link: Channels) -> None:
        self._link = link

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start one call of `AnyImageCall`; the deadline is in seconds."""
        assert isinstance(call, i.ImageCall)
        return start_call(
            self._steps(call),  # type: ignore[arg-type]
            deadline_s,
            done,
            what=call.brief(),
            cancellable=not isinstance(call, i.RemoveImage),
        )

    def _steps(self, call: i.AnyImageCall) -> Steps[Any]:
        match call:
            case i.ListImages():
                return self._list()
            case i.ImageStatus():
                return self._status(call)
            case i.PullImage():
                return self._pull(call)
            case i.RemoveImage():
                return self._remove(call)
            case i.ImageFsUsage():
                return self._fs_usage()
            case _:
                assert_never(call)

    def _list(self) -> Steps[i.ImageListing]:
        reply = yield self._link.ask(cri.LIST_IMAGES, pb.ListImagesRequest())
        rows = (shown.image(row) for row in reply.images)
        return i.ImageListing(images=tuple(sorted(rows, key=lambda row: row.id)))

    def _status(self, call: i.ImageStatus) -> Steps[i.ImageShown]:
        """ImageStatus; absent is an answer, not an error."""
        spec = pb.ImageSpec(image=call.image, annotations=dict(call.annotations))
        try:
            reply = yield self._link.ask(cri.IMAGE_STATUS, pb.ImageStatusRequest(image=spec))
        except NotFoundError:
            return i.ImageShown()
        return i.ImageShown(image=shown.image(reply.image) if reply.HasField("image") else None)

    def _pull(self, call: i.PullImage) -> Steps[i.ImagePulled]:
        message = pb.PullImageRequest(
            image=pb.ImageSpec(image=call.image, annotations=dict(call.annotations)),
            auth=request.auth_config(call.auth),
        )
        try:
            reply = yield self._link.ask(
                cri.PULL_IMAGE, message, limit_s=i.PULL_LIMIT_S, what=f"image {call.image}"
            )
        except OperatingError as error:
            raise pull_error(error, call) from None
        return i.ImagePulled(ref=reply.image_ref)

    def _remove(self, call: i.RemoveImage) -> Steps[i.ImageRemoved]:
        """RemoveImage; an unknown one is removed."""
        try:
            yield self._link.ask(
                cri.REMOVE_IMAGE, pb.RemoveImageRequest(image=pb.ImageSpec(image=call.image))
            )
        except NotFoundError:
            return i.ImageRemoved()
        return i.ImageRemoved()

    def _fs_usage(self) -> Steps[i.ImageFs]:
        """ImageFsInfo for where and how much, the file system itself for the rest."""
        reply = yield self._link.ask(cri.IMAGE_FS, pb.ImageFsInfoRequest())
        if not reply.image_filesystems:
            raise UnavailableError("the runtime reports no image file system")
        reported = reply.image_filesystems[0]
        mountpoint = reported.fs_id.mountpoint
        try:
            measured = os.statvfs(mountpoint)
        except OSError as error:
            raise UnavailableError(
                f"the image file system at {mountpoint!r} cannot be measured: {error.strerror}; "
                "agent and runtime must see the same files"
            ) from None
        return i.ImageFs(
            mountpoint=mountpoint,
            capacity_bytes=measured.f_blocks * measured.f_frsize,
            available_bytes=measured.f_bavail * measured.f_frsize,
            used_bytes=reported.used_bytes.value,
            inodes=measured.f_files,
            inodes_free=measured.f_favail,
            measured_at=reported.timestamp or time.time_ns(),
        )


def pull_error(error: OperatingError, call: i.PullImage) -> OperatingError:
    """Return the error of a failed pull, without credentials. Runtimes have no codes for it, only texts."""
    text = hidden(str(error), call)
    if error.kind in (FailureKind.CANCELLED, FailureKind.TIMED_OUT) or error.reason == BROKEN:
        return type(error)(text, reason=error.reason)
    said = text.removeprefix(f"image {call.image}: ")
    for reason in PUBLISHED:
        if said.startswith(reason):
            return UnavailableError(text, reason=reason)
    if _NO_REFERENCE.search(said):
        return RejectedError(text, reason="InvalidImageName")
    if error.kind is FailureKind.DENIED or _REFUSED.search(said.replace(call.image, "")):
        return DeniedError(text)
    return UnavailableError(text)


def hidden(text: str, call: i.PullImage) -> str:
    """Return a text without the secrets of a call and without passwords in URLs."""
    if call.auth is not None:
        auth = call.auth
        for secret in (auth.password, auth.auth, auth.identity_token, auth.registry_token):
            if secret:
                text = text.replace(secret, "<hidden>")
    return re.sub(r"(\w+://)[^/\s@]+@", r"\1<hidden>@", text)
