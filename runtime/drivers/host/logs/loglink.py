"""Links to container logs, and the removal of all that a dead container instance left on disk."""

import contextlib
import os
import stat
from pathlib import Path

from api.errors import ConflictError, RejectedError
from api.ports.logs import LinkContainerLog, RemoveContainerLogs, check_link_name, place_of
from runtime.drivers.host.logs.logfolder import files_of, log_folder, remove
from runtime.drivers.host.oserror import translate


def link_log(logs: Path, links: Path, call: LinkContainerLog) -> bool:
    """Make a link to a container's log and return True, or False when the log is not there (yet).

    Raises an `OperatingError`; `ConflictError` for a name that something other than a link has.
    """
    check_link_name(call.name)
    place_of(str(logs), call.log_path)
    path = links / call.name
    new = links / f".{os.getpid()}.new"
    try:
        if not os.path.lexists(call.log_path):
            return False
        # Usually nothing has that name; other cases are handled below.
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            path.symlink_to(call.log_path)
            return True
        with contextlib.suppress(OSError):
            if os.fspath(path.readlink()) == call.log_path:
                return True
        make_folder(links)
        check_replaceable(path)
        new.unlink(missing_ok=True)
        new.symlink_to(call.log_path)
        new.replace(path)
    except OSError as error:
        raise translate(error, f"could not make the link {path} to a container's log") from error
    return True


def make_folder(path: Path) -> None:
    """Make the folder of links, which everybody may read. Raises OSError."""
    if not path.is_dir():
        path.mkdir(mode=0o755, parents=True, exist_ok=True)


def check_replaceable(path: Path) -> None:
    """Raise `ConflictError` when something other than a link has this name."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISLNK(path.lstat().st_mode):
            raise ConflictError(f"{path} is in the way of a link to a container's log; remove it")


def remove_logs(logs: Path, links: Path, call: RemoveContainerLogs) -> None:
    """Remove a container instance's log files and its link; what is not there is fine. Raises an `OperatingError`."""
    if call.link:
        check_link_name(call.link)
    try:
        if call.log_path:
            place = place_of(str(logs), call.log_path)
            if place.uid != call.uid:
                raise RejectedError(f"{call.log_path} is not a log of pod {call.uid}")
            with contextlib.suppress(FileNotFoundError), log_folder(logs, place) as folder:
                for name in (*files_of(folder, place.name), place.name):
                    remove(folder, name)
        if call.link:
            remove_link(links / call.link, str(logs))
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        raise translate(error, f"could not remove the logs {call.log_path}{where}") from error


def remove_link(path: Path, logs: str) -> None:
    """Remove a link into the pods' logs; anything else of that name is left. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISLNK(path.lstat().st_mode) and os.fspath(path.readlink()).startswith(logs + "/"):
            path.unlink()


def remove_message(containers: Path, path: str) -> None:
    """Remove the file of a termination message, ``<containers>/<container>/<file>``.

    Anything else that is mounted there is a volume's, and left. Raises an `OperatingError`.
    """
    parts = Path(path).parts
    if len(parts) != len(containers.parts) + 2 or not path.startswith(f"{containers}/") or ".." in parts:
        return
    folder, name = Path(path).parent, Path(path).name
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with contextlib.suppress(FileNotFoundError):
            opened = os.open(folder, flags)
            try:
                remove(opened, name)
            finally:
                os.close(opened)
    except OSError as error:
        raise translate(error, f"could not remove the termination message {path}") from error
