"""Why a container of plain processes cannot mount a volume, checked before anything is started."""

import os
import stat
from pathlib import Path

from api.errors import RejectedError
from api.ports.confinement import Mount, MountPropagation
from api.ports.runtime import ContainerSpec
from runtime.drivers.embedded.keeper.mount import find

REASON = "CreateContainerError"
CAP_SYS_ADMIN = 21


def require_mountable(spec: ContainerSpec) -> None:
    """Raise `RejectedError` with what to do when the volumes of a container cannot be mounted on this host."""
    if not spec.mounts:
        return
    if not may_mount():
        raise RejectedError(
            f"container {spec.name}: volumeMounts needs a mount namespace, which the agent's user may not create"
            " on this machine; run the agent as root, or remove volumeMounts",
            reason=REASON,
        )
    for mount in spec.mounts:
        why = trouble(mount, spec.mounts)
        if why:
            raise RejectedError(
                f"container {spec.name}: volumeMounts: mountPath {mount.container_path} {why}", reason=REASON
            )


def trouble(mount: Mount, mounts: tuple[Mount, ...]) -> str:
    """Return what keeps one mount from being made, empty when nothing is seen."""
    path = os.path.normpath(mount.container_path)
    if path == "/":
        return "is the root of the host, which cannot be mounted over; choose a folder below it"
    if mount.propagation is MountPropagation.BIDIRECTIONAL:
        return "has mountPropagation Bidirectional, which the embedded runtime does not support; remove it"
    outer = (os.path.normpath(other.container_path) for other in mounts if other is not mount)
    if any(path.startswith(f"{other}/") for other in outer):
        # Its path is inside another mounted volume.
        return ""
    try:
        source, target = kind_of(mount.host_path), kind_of(path)
    except OSError as error:
        return f"cannot be mounted: {error.strerror}"
    if target is None:
        kind = "folder" if source in (None, stat.S_IFDIR) else "file"
        return (
            f"does not exist on this host, and the host's own image has no files to make it in; make that {kind}, or"
            " choose one that exists"
        )
    is_folder = target == stat.S_IFDIR
    if source is not None and (source == stat.S_IFDIR) != is_folder:
        return f"is {'a folder' if is_folder else 'no folder'} on this host, and the volume is not; choose another path"
    return ""


def kind_of(path: str) -> int | None:
    """Return the type bits of what a keeper would find at a path, None where there is nothing. Raises OSError."""
    try:
        found = find(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return stat.S_IFMT(os.fstat(found).st_mode)
    finally:
        os.close(found)


def may_mount() -> bool:
    """Return whether this process may create mount namespaces."""
    for line in Path("/proc/self/status").read_bytes().splitlines():
        if line.startswith(b"CapEff:"):
            return bool(int(line.split()[1], 16) >> CAP_SYS_ADMIN & 1)
    return os.geteuid() == 0
