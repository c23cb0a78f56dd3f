"""Volumes of pods on this machine: the port ``volumes``.

The disk and the kernel's table of mounts are the truth; nothing is cached. Calls on one pod run one after the other, so that one
that hung cannot take effect beside, or after, a later one; and so do checks of one path of the node, so that a file system
that is away blocks one thread, not one more with every retry.
"""

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from api.errors import ConflictError, DeniedError, RejectedError, UnavailableError
from api.ids import Uid
from api.ports.podfiles import check_folder_uid
from api.ports.volumes import (
    CREATED,
    EMPTY_DIR,
    EmptyDir,
    HostKind,
    HostPath,
    Medium,
    PrepareSubPath,
    PrepareVolume,
    RemoveVolumes,
    VolumeReady,
    VolumesRemoved,
    check_host_path,
    check_sub_path,
    check_volume_names,
    host_path_trouble,
)
from runtime.drivers.host.oserror import DENIED, translate
from runtime.drivers.host.podfiles.emptytree import empty_tree
from runtime.drivers.host.volumes import mount, subpath

VOLUME_MODE = 0o777
GROUP_MODE = 0o2770
"""What a volume's folder has in addition when a group owns it: all that is made in it is the group's too."""
NOT_MOUNTED = (errno.EINVAL, errno.ENOENT)
KINDS = (
    (stat.S_ISDIR, HostKind.FOLDER),
    (stat.S_ISREG, HostKind.FILE),
    (stat.S_ISSOCK, HostKind.SOCKET),
    (stat.S_ISCHR, HostKind.CHARACTER_DEVICE),
    (stat.S_ISBLK, HostKind.BLOCK_DEVICE),
)


class Volumes:
    """The port ``volumes`` under the root of pods' folders, which may be missing."""

    name = "volumes"
    bounds: Mapping[str, int] = MappingProxyType({"PrepareVolume": 256})
    """A check of a path of the node may hang for ever: pods with such paths must not delay all others."""

    def __init__(self, pods_root: Path) -> None:
        # The table of mounts names no symbolic links.
        self._pods = Path(os.path.realpath(pods_root))
        self._turn = threading.Condition()
        self._busy: set[str] = set()
        """Pods and paths of the node that a call is at work on."""
        self._swaps = threading.Event()
        """Set once this kernel refused to keep a file system in memory out of swap."""

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:
        """Carry out a call on volumes; raises an `OperatingError`."""
        match call:
            case PrepareVolume(plan=HostPath() as plan):
                # It may block for ever, and blocks no other call of the pod.
                check_volume_names(call.uid, call.volume)
                check_host_path(plan.path)
                if not plan.kind:
                    return VolumeReady(host_path=plan.path)
                what = f"could not look at {plan.path}"
                with self._exclusive(plan.path, f"look at {plan.path}", deadline_s), translated(what):
                    return prepare_host_path(plan)
            case PrepareVolume(plan=EmptyDir() as plan):
                check_volume_names(call.uid, call.volume)
                with self._exclusive_pod(call.uid, deadline_s), translated("could not make an emptyDir"):
                    return self._prepare_empty_dir(call, plan)
            case PrepareSubPath():
                check_volume_names(call.uid, call.volume, call.container, call.attempt)
                check_sub_path(call.sub_path)
                what = f"could not prepare the sub path {call.sub_path} of volume {call.volume}"
                with self._exclusive_pod(call.uid, deadline_s), translated(what):
                    return subpath.prepare(self._pods / call.uid, call)
            case RemoveVolumes():
                check_folder_uid(call.uid)
                what = f"could not remove the volumes of pod {call.uid}"
                with self._exclusive_pod(call.uid, deadline_s), translated(what):
                    return self._remove(call.uid)
            case _:
                raise TypeError(f"the port volumes takes no {type(call).__name__}")

    def _exclusive_pod(self, uid: Uid, deadline_s: float) -> contextlib.AbstractContextManager[None]:
        return self._exclusive(uid, f"call on the volumes of pod {uid}", deadline_s)

    @contextlib.contextmanager
    def _exclusive(self, key: str, what: str, deadline_s: float) -> Iterator[None]:
        with self._turn:
            if not self._turn.wait_for(lambda: key not in self._busy, deadline_s):
                raise UnavailableError(f"an earlier {what} is still under way")
            self._busy.add(key)
        try:
            yield
        finally:
            with self._turn:
                self._busy.discard(key)
                self._turn.notify_all()

    # ------------------------------------------------------------ emptyDir

    def _prepare_empty_dir(self, call: PrepareVolume, plan: EmptyDir) -> VolumeReady:
        pod = self._pods / call.uid
        folder = pod / "volumes" / EMPTY_DIR / call.volume
        scratch = pod / "plugins" / EMPTY_DIR / call.volume
        ready = scratch / "ready"
        there = subpath.look(folder)
        if there is not None and not stat.S_ISDIR(there[0].st_mode):
            raise ConflictError(f"{folder} is no folder; remove it, then the volume is made")
        mounted = there is not None and there[1]
        needs_mount = plan.shared or plan.medium is Medium.MEMORY
        if ready.exists():
            if there is not None and (mounted or not needs_mount):
                return VolumeReady(host_path=str(folder))
            # A tmpfs does not outlive a restart of the machine; and a part of the root directory may have been deleted.
            ready.unlink()
        self._pods.mkdir(mode=0o750, parents=True, exist_ok=True)
        for level in (pod, pod / "volumes", folder.parent, folder, pod / "plugins", scratch.parent, scratch):
            subpath.make_folder(level)
        if not mounted and plan.medium is Medium.MEMORY:
            self._mount_memory(folder, plan.size_bytes)
        elif not mounted and plan.shared:
            with mounting("mountPropagation"):
                mount.bind(str(folder), str(folder))
        if plan.shared:
            with mounting("mountPropagation"):
                mount.share(str(folder))
        own(folder, plan.group)
        ready.touch(mode=0o640)
        return VolumeReady(host_path=str(folder))

    def _mount_memory(self, folder: Path, size_bytes: int) -> None:
        size = (f"size={size_bytes}",) if size_bytes > 0 else ()
        with mounting("emptyDir.medium: Memory"):
            if not self._swaps.is_set():
                try:
                    mount.attach("tmpfs", str(folder), "tmpfs", 0, ",".join((*size, "noswap")))
                except OSError as error:
                    if error.errno in DENIED:
                        raise
                    # A kernel before 6.4, or a user namespace, does not know the option.
                    self._swaps.set()
                else:
                    return
            mount.attach("tmpfs", str(folder), "tmpfs", 0, ",".join(size))

    # ------------------------------------------------------------ removal

    def _remove(self, uid: Uid) -> VolumesRemoved:
        pod = self._pods / uid
        unmounted = unmount_all(pod)
        subpath.remove_all(pod)
        for folder in subpath.folders_in(pod / "volumes"):
            if folder.name != EMPTY_DIR:
                raise ConflictError(f"{folder} holds volumes that this agent did not make; remove them")
        for folder in subpath.folders_in(pod / "volumes" / EMPTY_DIR):
            # The marker file is removed first: a half removed volume is not complete.
            scratch = pod / "plugins" / EMPTY_DIR / folder.name
            (scratch / "ready").unlink(missing_ok=True)
            empty_tree(folder)
            folder.rmdir()
            with contextlib.suppress(FileNotFoundError):
                scratch.rmdir()
        for folder in (pod / "volumes" / EMPTY_DIR, pod / "plugins" / EMPTY_DIR):
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()
        return VolumesRemoved(unmounted=unmounted)


def unmount_all(pod: Path) -> tuple[str, ...]:
    """Unmount what is mounted in a pod's volumes, what was mounted last first; return it once the table shows none left."""
    ours = (pod / "volume-subpaths", pod / "volumes" / EMPTY_DIR)
    unmounted = []
    for point in mount.mounts_below(str(pod)):
        if not any(Path(point).is_relative_to(folder) for folder in ours):
            raise ConflictError(f"{point} is a mount that this agent did not make; unmount it")
        try:
            mount.unmount(point)
        except OSError as error:
            # Unmounting one place of a shared mount unmounts its others too; what is left is seen below.
            if error.errno not in NOT_MOUNTED:
                raise
        else:
            unmounted.append(point)
    left = mount.mounts_below(str(pod))
    if left:
        raise ConflictError(f"{left[0]} is still mounted; see what uses it")
    return tuple(unmounted)


def own(folder: Path, group: int | None) -> None:
    """Let everybody write into a volume's folder, and the group own it; an agent that may not give it away does not."""
    mode = VOLUME_MODE
    fd = os.open(folder, subpath.FOLDER)
    try:
        if group is not None:
            with contextlib.suppress(OSError):
                os.fchown(fd, -1, group)
                mode |= GROUP_MODE
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


@contextlib.contextmanager
def mounting(field: str) -> Iterator[None]:
    """Name the field of the pod that needs a missing permission."""
    try:
        yield
    except OSError as error:
        if error.errno in DENIED:
            raise DeniedError(
                f"{field} needs the right to mount, which the agent's user does not have here: run the agent as root, or"
                " leave the field out"
            ) from error
        raise


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Return an error of the operating system as one of ours."""
    try:
        yield
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        raise translate(error, what + where) from error


# ---------------------------------------------------------------- hostPath


def prepare_host_path(plan: HostPath) -> VolumeReady:
    """Check a path of the node by its type, and create it where the type allows."""
    found = kind_of(plan.path)
    made = CREATED.get(plan.kind)
    if found is HostKind.NOTHING and made is not None:
        if Path(plan.path).is_symlink():
            raise RejectedError(
                f"hostPath type check failed: {plan.path} is a symbolic link to nothing, through which nothing is made;"
                " make what it leads to, or remove the link"
            )
        if made is HostKind.FOLDER:
            make_folders(plan.path)
        else:
            make_file(plan.path)
        found = kind_of(plan.path)
    trouble = host_path_trouble(plan, found)
    if trouble:
        raise RejectedError(trouble)
    return VolumeReady(host_path=plan.path)


def kind_of(path: str) -> HostKind:
    """Return the kind of file at a path; symbolic links are followed, as by the mount."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # a path of the pod's spec, verbatim
    except (FileNotFoundError, NotADirectoryError):
        return HostKind.NOTHING
    return next((kind for test, kind in KINDS if test(mode)), HostKind.OTHER)


def make_folders(path: str) -> None:
    """Make a folder and those above it that are missing, all 0755. Links are followed only above the first one made."""
    there, missing = Path(path), list[str]()
    while True:
        try:
            # The dot lets a file system that is mounted on demand appear before anything is made in it.
            fd = os.open(f"{there}/.", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            break
        except FileNotFoundError:
            missing.append(there.name)
            there = there.parent
    try:
        for name in reversed(missing):
            below = subpath.make_folder_at(fd, name, 0o755)
            os.close(fd)
            fd = below
    finally:
        os.close(fd)


def make_file(path: str) -> None:
    """Make an empty file, 0644, unless something is there, a link to nothing too; the folder above it must be there."""
    with contextlib.suppress(FileExistsError):
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        try:
            os.fchmod(fd, 0o644)
        finally:
            os.close(fd)
