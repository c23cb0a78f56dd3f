"""Container log files on the host: which are too big, rotating one, the links that point at them.

The port ``logfiles`` takes `FindLogs`, `RotateLog`, `RestoreLog`, `FindDeadLinks` and `RemoveDeadLink`; the port
``podfiles`` takes `LinkContainerLog` and `RemoveContainerLogs` beside the calls of `api.ports`.

```text
<pod logs>/<namespace>_<pod>_<uid>/<container>/<n>.log                       the live file
                                              /<n>.log.<YYYYMMDD-HHMMSS>     the newest rotated one
                                              /<n>.log.<YYYYMMDD-HHMMSS>.gz  older ones
<links>/<pod>_<namespace>_<container>-<id>.log -> the live file
```
"""

import re

import msgspec

from api.errors import RejectedError
from api.ids import Uid
from api.ports.call import HostCall
from api.ports.podfiles import uid_of_log_folder

LIVE_LOG = re.compile(r"[0-9]+\.log", re.ASCII)
"""What a live log file is called: the container's attempt."""
ROTATED = re.compile(r"[0-9]{8}-[0-9]{6}(?:-[0-9]+)?", re.ASCII)
"""What follows the live name and a dot in the name of a rotated file: local time, and a number when that was taken."""


class LogPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a live log file is below the root of all pods' logs: three plain names."""

    uid: Uid
    folder: str
    """``<namespace>_<pod>_<uid>``."""
    container: str
    name: str
    """``<n>.log``."""


def place_of(root: str, path: str) -> LogPlace:
    """Return the parts of a live log file's path. Raises `RejectedError` for any other path."""
    inside = path.removeprefix(root.rstrip("/") + "/")
    parts = inside.split("/")
    uid = uid_of_log_folder(parts[0])
    plain = len(parts) == 3 and uid is not None and all(part not in ("", ".", "..") for part in parts)
    if inside == path or not plain or uid is None or LIVE_LOG.fullmatch(parts[2]) is None or "\0" in path:
        raise RejectedError(
            f"{path} is not a container's log: that is {root}/<namespace>_<pod>_<uid>/<container>/<n>.log"
        )
    return LogPlace(uid=uid, folder=parts[0], container=parts[1], name=parts[2])


# ---------------------------------------------------------------- rotation


class FindLogs(HostCall, frozen=True, kw_only=True):
    """Look through all pods' logs for live files over `limit_bytes`, and for those that are missing -> LogsFound."""

    limit_bytes: int

    def brief(self) -> str:
        """Return one line for traces."""
        return f"FindLogs over {self.limit_bytes} bytes"


class LogSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One live log file that something is to be done about."""

    uid: Uid
    container: str
    path: str
    """Absolute. Of a missing file it may be only the container's folder, when nothing in there says which it is."""
    size_bytes: int = 0
    """0 of a missing one."""
    missing: bool = False


class LogsFound(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The log files found, by path ascending. Only the runtime knows their containers and which of them run."""

    logs: tuple[LogSeen, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Folders that could not be read, each with its reason."""


class RotateLog(HostCall, frozen=True, kw_only=True):
    """Put a live log file aside -> LogRotated.

    Removes leftovers and the oldest rotated files, so that with a new live file `max_files` are left; compresses what
    was rotated before. Fails with NotFound when the file is not there, Conflict while it is being rotated already.
    """

    path: str
    max_files: int
    """At least 2: the live one and a rotated one."""
    keep_bytes: int = 0
    """0 for a log that its writer will open again. More: it has no writer any more, so its last lines of at most this
    many bytes stay in place, and only what is before them goes into a rotated, compressed file."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RotateLog {self.path}{' of an ended container' if self.keep_bytes else ''}"


class LogRotated(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A log was put aside."""

    rotated: str
    """Absolute path of the file that holds what was rotated."""
    trouble: str = ""
    """Why an older file could not be compressed, empty when all were."""


class RestoreLog(HostCall, frozen=True, kw_only=True):
    """Take a rotation back: give the rotated file its live name again, unless there is a live one -> Done."""

    path: str
    rotated: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RestoreLog {self.path}"


# ---------------------------------------------------------------- links


class FindDeadLinks(HostCall, frozen=True, kw_only=True):
    """List the links to container logs whose target is missing -> DeadLinks. At most `limit` of them."""

    limit: int = 500


class DeadLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link to a log file that is not there: its pod is gone, or it is just being rotated."""

    name: str
    target: str
    uid: Uid
    """Of the pod whose log the target is."""


class DeadLinks(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Links without a target, by name. Links to anything but the pods' logs are ignored."""

    links: tuple[DeadLink, ...] = ()


class RemoveDeadLink(HostCall, frozen=True, kw_only=True):
    """Remove a link if it still points at `target` and that is still missing -> Done."""

    name: str
    target: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RemoveDeadLink {self.name}"


class LinkContainerLog(HostCall, frozen=True, kw_only=True):
    """Make the link `name` to a container's live log -> LogLinked. One that is there and points elsewhere is replaced."""

    name: str
    """File name in the folder of links: `actors.rules.container.loglink`."""
    log_path: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"LinkContainerLog {self.name}"


class LogLinked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Whether the link is there; not when its target is not (yet)."""

    made: bool


class RemoveContainerLogs(HostCall, frozen=True, kw_only=True):
    """Remove all that a dead container instance left on disk -> Done. What is not there is fine.

    That is its log files, live and rotated, the link, and the file of its termination message; of the last, only one
    in the pod's own folder: what a volume put at that path is the user's.
    """

    uid: Uid
    log_path: str = ""
    """Absolute; empty for a container that has none."""
    link: str = ""
    """File name in the folder of links."""
    termination_log: str = ""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RemoveContainerLogs {self.log_path}"


def check_link_name(name: str) -> None:
    """Raise `RejectedError` for what is not the file name of a link to a log."""
    if not name.endswith(".log") or "/" in name or "\0" in name or len(name.encode()) > 255:
        raise RejectedError(f"{name!r} is not the name of a link to a log: a file name that ends in .log")
