"""Part of a volume, bound to a place of ours, so that nothing a container does to the path meanwhile leads elsewhere.

Reference ``volumes`` section 18. The volume's content belongs to containers, which may exchange a folder for a symbolic
link at any moment. So the path is resolved once, must be inside the volume, and is then walked one component at a time by
descriptor without following links. The folder of the last descriptor cannot be exchanged any more, and that one is bound.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from api.errors import ConflictError, DeniedError, RejectedError
from api.ports.volumes import PrepareSubPath, SubPathReady
from runtime.drivers.host.oserror import DENIED
from runtime.drivers.host.volumes import mount

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Opens a folder and no link to one."""
FOLDER_MODE = 0o750
REASON = "CreateContainerConfigError"
FILE_MODE = 0o640


def prepare(pod: Path, call: PrepareSubPath) -> SubPathReady:
    """Bind the part of the volume below the pod's folder; raises an `OperatingError` or an `OSError`."""
    volume = os.path.realpath(call.host_path, strict=True)
    parts = [part for part in call.sub_path.split("/") if part not in ("", ".")]
    make_missing(volume, parts)
    inside = relative_parts(volume, os.path.realpath(Path(volume, *parts), strict=True), call.sub_path)
    target = pod / "volume-subpaths" / call.volume / call.container / str(call.index)
    with walked(volume, inside) as source:
        bind_at(target, source)
    return SubPathReady(host_path=str(target))


def relative_parts(volume: str, path: str, asked: str) -> list[str]:
    """Return the components of `path` below `volume`, both resolved. Raises `RejectedError` when it is not below."""
    if path == volume:
        return []
    prefix = volume.rstrip("/") + "/"
    if not path.startswith(prefix):
        raise RejectedError(f"the sub path {asked} leads out of its volume: {path} is not below {volume}")
    return path.removeprefix(prefix).split("/")


@contextlib.contextmanager
def walked(volume: str, parts: list[str]) -> Iterator[int]:
    """Open what is at `parts` below `volume`, none of them a symbolic link; closed at the end."""
    fd = os.open(volume, _PATH)
    try:
        for part in parts:
            # The slash lets a file system that is mounted on demand appear before it is walked into.
            with contextlib.suppress(OSError):
                os.stat(f"{part}/", dir_fd=fd, follow_symlinks=False)
            below = os.open(part, _PATH, dir_fd=fd)
            os.close(fd)
            fd = below
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                raise ConflictError(f"unexpected symlink found {'/'.join((volume, *parts))}")
        yield fd
    finally:
        os.close(fd)


def make_missing(volume: str, parts: list[str]) -> None:
    """Make the folders of a path that are not there yet, with the mode of the volume's own folder."""
    known = len(parts)
    while known and not os.path.lexists(Path(volume, *parts[:known])):
        known -= 1
    missing = parts[known:]
    if not missing:
        return
    mode = stat.S_IMODE(os.stat(volume).st_mode)  # noqa: PTH116  # as resolved before
    there = relative_parts(
        volume, os.path.realpath(Path(volume, *parts[:known]), strict=True), "/".join(parts)
    )
    with walked(volume, there) as start:
        fd = os.open(".", FOLDER, dir_fd=start)
        try:
            for part in missing:
                below = make_folder_at(fd, part, mode)
                os.close(fd)
                fd = below
        finally:
            os.close(fd)


def make_folder_at(parent: int, name: str, mode: int) -> int:
    """Return a folder in an open one, made with all of this mode if it is missing; one that was there keeps its own.

    Any user who may write into the parent may replace the new folder before it is opened: so a mode that
    the umask took a part of is completed only for a folder that is our user's and empty. A link is never followed.
    """
    made = True
    try:
        os.mkdir(name, mode & 0o777, dir_fd=parent)
    except FileExistsError:
        made = False
    fd = os.open(name, FOLDER, dir_fd=parent)
    try:
        there = os.fstat(fd)
        mode |= stat.S_IMODE(there.st_mode)
        ours = made and there.st_uid == os.geteuid() and not os.listdir(fd)  # noqa: PTH208  # an open folder
        if ours and mode != stat.S_IMODE(there.st_mode):
            os.fchmod(fd, mode)
    except OSError:
        os.close(fd)
        raise
    return fd


def bind_at(target: Path, source: int) -> None:
    """Bind the folder or file of the descriptor `source` at `target`, unless it is bound there already."""
    wanted = os.fstat(source)
    folder = stat.S_ISDIR(wanted.st_mode)
    for level in (target.parents[2], target.parents[1], target.parents[0]):
        make_folder(level)
    while (there := look(target)) is not None and there[1]:
        if (there[0].st_dev, there[0].st_ino) == (wanted.st_dev, wanted.st_ino):
            return
        mount.unmount(str(target))
    if there is not None and stat.S_ISDIR(there[0].st_mode) != folder:
        remove_target(target)
        there = None
    if there is None and folder:
        target.mkdir(mode=FOLDER_MODE)
    elif there is None:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE))
    try:
        # The path of the descriptor is not resolved by anybody but the kernel, and leads to what was walked to.
        mount.bind(f"/proc/self/fd/{source}", str(target))
    except OSError as error:
        remove_target(target)
        if error.errno in DENIED:
            # It contains no path of the host, so the pod may see it.
            raise DeniedError(
                "volumeMounts.subPath needs the right to mount, which the agent's user does not have here: run the agent as"
                " root, or mount the whole volume",
                reason=REASON,
            ) from error
        raise


def make_folder(path: Path) -> None:
    """Make one folder of ours; raises FileExistsError when something else is there."""
    try:
        path.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        if path.is_symlink() or not path.is_dir():
            raise


def look(target: Path) -> tuple[os.stat_result, bool] | None:
    """Return what is at a path and whether it is mounted there, None when there is nothing."""
    try:
        fd = os.open(target, _PATH)
    except FileNotFoundError:
        return None
    try:
        above = os.open(target.parent, _PATH)
        try:
            return os.fstat(fd), mount.mount_id(fd) != mount.mount_id(above)
        finally:
            os.close(above)
    finally:
        os.close(fd)


def remove_target(target: Path) -> None:
    """Remove an empty folder or a file of ours on which nothing is mounted; what is in a folder stays, with an error."""
    try:
        if target.is_dir() and not target.is_symlink():
            target.rmdir()
        else:
            target.unlink()
    except FileNotFoundError:
        return


def remove_all(pod: Path) -> None:
    """Remove the places of a pod's sub paths, from which all was unmounted: never deeper than they are made."""
    top = pod / "volume-subpaths"
    for volume in folders_in(top):
        for container in folders_in(volume):
            for target in sorted(container.iterdir()):
                remove_target(target)
            container.rmdir()
        volume.rmdir()
    with contextlib.suppress(FileNotFoundError):
        top.rmdir()


def folders_in(folder: Path) -> list[Path]:
    """Return the entries of a folder that may be missing, by name. Raises NotADirectoryError for another kind of file."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
