"""Volumes of pods: what the port ``volumes`` is asked for. It takes `PrepareVolume`, `PrepareSubPath`, `RemoveVolumes`.

A plan is what one kind of volume needs to be told; each kind has one, and a kind that is not in `VolumePlan` is refused by
``actors.pod.spec.support`` before anything is made. What a volume is called on disk is a kubelet's layout (reference ``volumes``
section 2), below the agent's root:

```text
pods/<uid>/volumes/kubernetes.io~empty-dir/<volume>             the volume, a folder or a file system in memory
pods/<uid>/plugins/kubernetes.io~empty-dir/<volume>/ready       written last: the volume is whole
pods/<uid>/volume-subpaths/<volume>/<container>/<index>         a part of it, bound there for one mount
```
"""

import re
from enum import StrEnum

import msgspec

from api.errors import RejectedError
from api.ids import Uid
from api.ports.call import HostCall
from api.ports.podfiles import check_folder_container, check_folder_uid

EMPTY_DIR = "kubernetes.io~empty-dir"
"""Folder of emptyDir volumes: the plugin's name with ``~`` for its slash."""

FOLDER_VOLUME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""What a volume's name must be to name a folder."""


class Medium(StrEnum):
    """What an emptyDir is made of."""

    DISK = ""
    MEMORY = "Memory"


class EmptyDir(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """A folder that is empty at first and lives as long as its pod."""

    medium: Medium = Medium.DISK
    size_bytes: int = 0
    """Of a file system in memory; 0: the kernel's own bound, half of the machine's memory."""
    group: int | None = None
    """Owns it, and all that is made in it (``fsGroup``)."""
    shared: bool = False
    """Whether mounts below it are to be seen in all who have it mounted: some mount of it asks for propagation."""


class HostPath(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """A file or folder of the node, checked before use as its type says."""

    path: str
    kind: str = ""
    """The volume's type, empty: it is not checked."""


VolumePlan = EmptyDir | HostPath


class PrepareVolume(HostCall, frozen=True, kw_only=True):
    """Make a volume, or check that it exists -> VolumeReady. Idempotent, also while containers use it."""

    uid: Uid
    volume: str
    plan: VolumePlan

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PrepareVolume {self.volume} {type(self.plan).__name__}"


class VolumeReady(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A volume can be mounted."""

    host_path: str


class PrepareSubPath(HostCall, frozen=True, kw_only=True):
    """Bind a part of a volume to a place that no container can touch -> SubPathReady.

    What is missing of the path is made as folders, with the mode of the volume's own. A path that leaves the volume, by a
    symbolic link too, is refused. What is bound there already stays when it is the same file.
    """

    uid: Uid
    volume: str
    host_path: str
    """Of the volume."""
    sub_path: str
    """Relative, without ``..``."""
    container: str
    attempt: int
    index: int
    """Of the mount in its container."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PrepareSubPath {self.container}#{self.attempt} {self.index}: {self.volume}/{self.sub_path}"


class SubPathReady(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A part of a volume can be mounted."""

    host_path: str


class RemoveVolumes(HostCall, frozen=True, kw_only=True):
    """Unmount and remove all volumes of a pod of which nothing runs -> VolumesRemoved. Absent ones are fine.

    Fails with Conflict while something is in use, and for what this agent did not make: nothing is ever deleted through a
    mount. Files and folders of the node that the pod had mounted stay as they are.
    """

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RemoveVolumes {self.uid}"


class VolumesRemoved(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """No volume of the pod is left: mount table and folders were checked afterwards."""

    unmounted: tuple[str, ...] = ()
    """What was unmounted, in that order."""


def check_volume_names(uid: str, volume: str, container: str = "c", attempt: int = 0) -> None:
    """Raise `RejectedError` for names that cannot name folders."""
    check_folder_uid(uid)
    check_folder_container(container, attempt)
    if FOLDER_VOLUME.fullmatch(volume) is None:
        raise RejectedError(
            f"volume {volume!r} cannot name a folder: expected a DNS label of at most 63 characters"
        )


def check_sub_path(sub_path: str) -> None:
    """Raise `RejectedError` for a path that is not one inside a volume; the texts are a kubelet's."""
    if sub_path.startswith("/"):
        raise RejectedError(f"error SubPath `{sub_path}` must not be an absolute path")
    if ".." in sub_path.split("/"):
        raise RejectedError(f"unable to provision SubPath `{sub_path}`: must not contain '..'")
    if "\0" in sub_path:
        raise RejectedError("a sub path with a NUL character names nothing")


def check_host_path(path: str) -> None:
    """Raise `RejectedError` for a path of the node that is none; the text is a kubelet's."""
    if ".." in path.split("/"):
        raise RejectedError(f"invalid HostPath `{path}`: must not contain '..'")
    if not path.startswith("/") or "\0" in path:
        raise RejectedError(f"invalid HostPath `{path}`: must be an absolute path")


class HostKind(StrEnum):
    """What is at a path of the node."""

    NOTHING = "nothing"
    FOLDER = "folder"
    FILE = "file"
    SOCKET = "socket"
    CHARACTER_DEVICE = "character device"
    BLOCK_DEVICE = "block device"
    OTHER = "something else"


HOST_RULES: dict[str, tuple[HostKind, str]] = {
    # Type -> what must be there, and how a kubelet says that it is not.
    "DirectoryOrCreate": (HostKind.FOLDER, "is not a directory"),
    "Directory": (HostKind.FOLDER, "is not a directory"),
    "FileOrCreate": (HostKind.FILE, "is not a file"),
    "File": (HostKind.FILE, "is not a file"),
    "Socket": (HostKind.SOCKET, "is not a socket file"),
    "CharDevice": (HostKind.CHARACTER_DEVICE, "is not a character device"),
    "BlockDevice": (HostKind.BLOCK_DEVICE, "is not a block device"),
}
CREATED = {"DirectoryOrCreate": HostKind.FOLDER, "FileOrCreate": HostKind.FILE}
"""What is made when there is nothing."""


def host_path_trouble(plan: HostPath, found: HostKind) -> str:
    """Return what a kubelet says when something else is there than the type asks for, empty when all is well."""
    if not plan.kind:
        return ""
    rule = HOST_RULES.get(plan.kind)
    if rule is None:
        return f"{plan.kind} is an invalid volume type"
    wanted, text = rule
    return "" if found is wanted else f"hostPath type check failed: {plan.path} {text}"
