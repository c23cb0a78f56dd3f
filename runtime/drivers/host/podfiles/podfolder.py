"""Folders of pods: ``<pods>/<uid>/{volumes,plugins,containers}`` and the pods' log folders.

The files in them that a container is made with are those of `containerfile`, the node's own those of `nodefile`.

Removal works on directory descriptors, one level at a time. It never follows a symbolic link, never enters a folder
that is another mount or file system (a bind mount on the same file system too: its mount id differs), and takes only
empty folders out of ``volumes``, whose content belongs to who mounted or filled it.
"""

import os
import stat
from pathlib import Path

import msgspec

from api.errors import ConflictError, OperatingError, RejectedError
from api.ids import Uid
from api.ports.call import Done
from api.ports.logs import LinkContainerLog, LogLinked, RemoveContainerLogs
from api.ports.podfiles import (
    FOLDER_UID,
    ListPodFolders,
    MakePodFolders,
    PrepareContainer,
    ReadEnding,
    ReadNodeFiles,
    RemovePodFolders,
    check_folder_uid,
    uid_of_log_folder,
)
from api.ports.podfiles import PodFolders as PodFolderListing
from runtime.drivers.host.logs.loglink import link_log, remove_logs, remove_message
from runtime.drivers.host.node.nodefile import read_node_files
from runtime.drivers.host.oserror import translate
from runtime.drivers.host.podfiles import containerfile

FOLDER_MODE = 0o750
INSIDE = ("containers", "plugins", "volumes")
DEPTH_LIMIT = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class PodFolderDriver:
    """The port ``podfiles`` under the roots of pods, of their logs, and of the links to logs; all may be missing."""

    name = "podfiles"
    short = ("MakePodFolders", "ReadNodeFiles", "PrepareContainer", "LinkContainerLog")
    """Calls that are done one after the other: see `runtime.kernel.offload`."""

    def __init__(self, pods_root: Path, logs_root: Path, links_root: Path | None = None) -> None:
        self._pods = pods_root
        self._logs = logs_root
        self._links = links_root or logs_root.parent / "containers"

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call on folders; raises an `OperatingError`. Local disks have no use for a deadline."""
        match call:
            case MakePodFolders():
                check_folder_uid(call.uid)
                return self._make(call.uid)
            case RemovePodFolders():
                return self._remove(call)
            case ListPodFolders():
                return self._list()
            case PrepareContainer():
                return containerfile.prepare(self._pods, call)
            case ReadEnding():
                return containerfile.read_ending(call)
            case ReadNodeFiles():
                return read_node_files(call)
            case LinkContainerLog():
                return LogLinked(made=link_log(self._logs, self._links, call))
            case RemoveContainerLogs():
                return self._remove_logs(call)
            case _:
                raise TypeError(f"the port podfiles takes no {type(call).__name__}")

    def _make(self, uid: Uid) -> Done:
        path = f"{self._pods}/{uid}"
        try:
            try:
                _make_folder(path)
            except FileNotFoundError:
                self._pods.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                _make_folder(path)
            for name in INSIDE:
                _make_folder(f"{path}/{name}")
        except OSError as error:
            raise translate(error, f"could not make the folders of pod {uid} at {path}") from error
        return Done()

    def _remove(self, call: RemovePodFolders) -> Done:
        check_folder_uid(call.uid)
        log_name = self._log_name(call)
        try:
            names = {log_name} if log_name else set()
            if call.find_logs:
                names |= {name for name in _folders_in(self._logs) if uid_of_log_folder(name) == call.uid}
            # The pod's own folder is removed last: as long as it exists, the pod is known to have files left.
            for name in sorted(names):
                _remove_entry(self._logs, name)
            _remove_entry(self._pods, call.uid, keep_files_in="volumes")
        except OSError as error:
            where = f" at {error.filename}" if error.filename else ""
            raise translate(error, f"could not remove the folders of pod {call.uid}{where}") from error
        return Done()

    def _remove_logs(self, call: RemoveContainerLogs) -> Done:
        check_folder_uid(call.uid)
        remove_logs(self._logs, self._links, call)
        remove_message(self._pods / call.uid / "containers", call.termination_log)
        return Done()

    def _log_name(self, call: RemovePodFolders) -> str:
        if not call.log_directory:
            return ""
        path = Path(call.log_directory)
        # Comparing with the UID keeps a name that was parsed wrongly from costing a living pod its logs.
        if path.parent != self._logs or uid_of_log_folder(path.name) != call.uid:
            raise RejectedError(
                f"{call.log_directory} is not the log folder of pod {call.uid}: that is"
                f" {self._logs}/<namespace>_<name>_{call.uid}"
            )
        return path.name

    def _list(self) -> PodFolderListing:
        try:
            pods = [Uid(name) for name in _folders_in(self._pods) if FOLDER_UID.fullmatch(name)]
            logs = [
                (uid, str(self._logs / name))
                for name in _folders_in(self._logs)
                if (uid := uid_of_log_folder(name)) is not None
            ]
        except OSError as error:
            raise translate(error, f"could not list the folders of pods at {error.filename}") from error
        return PodFolderListing(uids=tuple(sorted(pods)), log_directories=tuple(sorted(logs)))


def _make_folder(path: str) -> None:
    """Make a folder unless it is there, with the mode that the agent's umask allows."""
    try:
        os.mkdir(path, FOLDER_MODE)  # noqa: PTH102  # paths as text: this is done some hundred times at once
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise


def _folders_in(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _remove_entry(root: Path, name: str, *, keep_files_in: str = "") -> None:
    """Remove `name` in `root`, which may be missing; raises `ConflictError` for what must not be removed."""
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        status = _status(fd, name)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=fd)
            return
        if keep_files_in:
            # Volumes go first: what must stay then keeps the rest of the pod's folder too.
            _remove_volumes(fd, root / name, name, keep_files_in)
        _remove_tree(fd, name, str(root / name), _mount_id(fd), DEPTH_LIMIT, files=True)
    finally:
        os.close(fd)


def _remove_volumes(root_fd: int, path: Path, name: str, volumes: str) -> None:
    pod = os.open(name, _FOLDER, dir_fd=root_fd)
    try:
        mount = _mount_id(root_fd)
        if _mount_id(pod) != mount:
            raise _mounted(str(path))
        status = _status(pod, volumes)
        if status is not None and stat.S_ISDIR(status.st_mode):
            _remove_tree(pod, volumes, str(path / volumes), mount, DEPTH_LIMIT, files=False)
    finally:
        os.close(pod)


def _remove_tree(parent: int, name: str, path: str, mount: str, depth: int, *, files: bool) -> None:
    """Remove a folder from below; with `files` False, only when nothing but folders is in it."""
    if depth == 0:
        raise ConflictError(f"{path} is deeper than {DEPTH_LIMIT} folders; remove it by hand")
    fd = os.open(name, _FOLDER, dir_fd=parent)
    try:
        if _mount_id(fd) != mount:
            raise _mounted(path)
        for entry in sorted(os.listdir(fd)):  # noqa: PTH208  # pathlib has no folders by descriptor
            status = _status(fd, entry)
            if status is None:
                continue
            below = f"{path}/{entry}"
            if stat.S_ISDIR(status.st_mode):
                _remove_tree(fd, entry, below, mount, depth - 1, files=files)
            elif files:
                _remove_name(fd, entry, below, folder=False)
            else:
                raise ConflictError(f"{below} is still in a volume; its volume must be torn down first")
    finally:
        os.close(fd)
    _remove_name(parent, name, path, folder=True)


def _remove_name(parent: int, name: str, path: str, *, folder: bool) -> None:
    try:
        if folder:
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise translate(error, f"could not remove {path}") from error


def _status(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _mounted(path: str) -> OperatingError:
    return ConflictError(f"{path} is a mount; it must be unmounted before the pod's folder is removed")


def _mount_id(fd: int) -> str:
    """Return the id of the mount of an open folder; it distinguishes bind mounts, which a device number cannot."""
    for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines():
        if line.startswith("mnt_id:"):
            return line.partition(":")[2].strip()
    raise ConflictError(
        "this kernel does not tell mounts apart (no mnt_id in /proc/self/fdinfo); remove folders by hand"
    )
