"""The port ``podfiles``: the pods' folders, the files around a container, and the calls on logs of `api.ports.logs`.

It takes `MakePodFolders`, `RemovePodFolders`, `ListPodFolders`, `ReadNodeFiles`, `PrepareContainer` and `ReadEnding`.
"""

import re

import msgspec

from api.errors import RejectedError
from api.ids import Uid
from api.ports.call import HostCall

LEDGER_LIMIT_BYTES = 4 << 20
"""An entry over this size is refused."""


FOLDER_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,199}")
"""What a UID must be to name a folder. No underscore: in the names of log folders that one separates."""


def check_folder_uid(uid: str) -> None:
    """Raise `RejectedError` for a UID that cannot name a folder."""
    if FOLDER_UID.fullmatch(uid) is None:
        raise RejectedError(
            f"pod uid {uid!r} cannot name a folder: at most 200 letters, digits, '.' and '-', the first one a letter"
            " or digit; give the pod another metadata.uid, or none"
        )


def uid_of_log_folder(name: str) -> Uid | None:
    """Return the UID in ``<namespace>_<name>_<uid>``: what follows the last underscore; None for other names."""
    rest, _, uid = name.rpartition("_")
    if "_" not in rest or FOLDER_UID.fullmatch(uid) is None:
        return None
    return Uid(uid)


class MakePodFolders(HostCall, frozen=True, kw_only=True):
    """Make ``pods/<uid>`` with volumes, plugins, containers (mode 0750) -> Done."""

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"MakePodFolders {self.uid}"


class RemovePodFolders(HostCall, frozen=True, kw_only=True):
    """Remove ``pods/<uid>`` and, when named, the pod's log folder -> Done. Never into a mount, never outside the roots."""

    uid: Uid
    log_directory: str = ""
    find_logs: bool = False
    """Nobody knows what the pod's log folder is called: whatever folders of logs are named by its UID are removed."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RemovePodFolders {self.uid}"


class ListPodFolders(HostCall, frozen=True, kw_only=True):
    """List the folders under ``pods`` and under the log root -> PodFolders."""


class PodFolders(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """UIDs with a folder under ``pods``, ascending, and all log folders by UID and absolute path.

    The log root may be shared with other agents: a log folder alone does not make a pod ours.
    """

    uids: tuple[Uid, ...] = ()
    log_directories: tuple[tuple[Uid, str], ...] = ()


ENDING_LIMIT_BYTES = 4096
"""How much of a termination message's file counts, from its end."""


LOG_TAIL_LINES = 80


LOG_TAIL_BYTES = 2048
"""How much of a container's log stands in for a termination message, from its end."""


FOLDER_CONTAINER = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""What a container's name must be to name a folder."""


ATTEMPT_LIMIT = 1 << 32


ENDING_PATH = re.compile(
    r"(?P<root>/.*)?/pods/(?P<uid>[^/]+)/containers/(?P<container>[^/]+)/[0-9a-f]{8}", re.DOTALL
)


LOG_PATH = re.compile(r"(?P<root>/.*)?/(?P<folder>[^/]+)/(?P<container>[^/]+)/[0-9]+\.log", re.DOTALL)


def check_folder_container(name: str, attempt: int = 0) -> None:
    """Raise `RejectedError` for a container's name or attempt that cannot name a folder and a file."""
    if FOLDER_CONTAINER.fullmatch(name) is None or not 0 <= attempt < ATTEMPT_LIMIT:
        raise RejectedError(
            f"container {name!r}, attempt {attempt}, cannot name a file: expected a DNS label of at most 63 characters"
            f" and an attempt of 0 to {ATTEMPT_LIMIT - 1}"
        )


def ending_file(attempt: int) -> str:
    """Return the name of the file that takes an attempt's termination message: eight hex digits, as a kubelet's."""
    return f"{attempt:08x}"


def ending_path(root_dir: str, uid: str, container: str, attempt: int) -> str:
    """Return the absolute path on the host of the file that takes a container's termination message."""
    return f"{root_dir.rstrip('/')}/pods/{uid}/containers/{container}/{ending_file(attempt)}"


def hosts_path(root_dir: str, uid: str) -> str:
    """Return the absolute path on the host of the pod's hosts file."""
    return f"{root_dir.rstrip('/')}/pods/{uid}/etc-hosts"


class ReadNodeFiles(HostCall, frozen=True, kw_only=True):
    """Read the node's resolver and hosts files -> `api.ports.node.NodeFiles`; a file that cannot be read is a problem in it."""

    resolv_conf: str = "/etc/resolv.conf"
    """Empty: no resolver file is read."""


class PrepareContainer(HostCall, frozen=True, kw_only=True):
    """Write the files that a container is made with -> Done. Idempotent; folders that are missing are made.

    The pod's hosts file is written in place, since running containers have that very file mounted. A termination file
    that exists keeps what is in it.
    """

    uid: Uid
    container: str
    attempt: int
    hosts: str | None = None
    """Text of the pod's hosts file, None to leave it alone."""
    ending: bool = True
    """Whether to make the file for the termination message (0666: any user of the container may write to it)."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PrepareContainer {self.container} attempt={self.attempt}"


class ReadEnding(HostCall, frozen=True, kw_only=True):
    """Read the termination message of a container that ended -> Ending.

    Only files of this pod's container are read, and only regular ones: a path of another form gives an empty message.
    They may be of another agent, whose folders have the same names under a root of its own.
    """

    uid: Uid
    container: str
    termination_log: str = ""
    """Absolute path on the host; empty: nothing was mounted for it."""
    log_path: str = ""
    """Absolute path of the container's log, read when `fall_back` is set and the file says nothing."""
    fall_back: bool = False

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ReadEnding {self.container}{' or its log' if self.fall_back else ''}"


class TerminationMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The termination message of a container, empty when it wrote none."""

    message: str = ""


def own_ending(call: ReadEnding) -> bool:
    """Return whether the call's termination file is one that an agent makes for this pod's container."""
    match = ENDING_PATH.fullmatch(call.termination_log)
    return match is not None and (match["uid"], match["container"]) == (call.uid, call.container)


def own_log(call: ReadEnding) -> bool:
    """Return whether the call's log is one that an agent asks for from this pod's container."""
    match = LOG_PATH.fullmatch(call.log_path)
    return match is not None and (uid_of_log_folder(match["folder"]), match["container"]) == (
        call.uid,
        call.container,
    )


def log_tail(text: bytes) -> bytes:
    """Return the part at the end of a log's text that stands in for a termination message."""
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text)
    return b"".join(lines[-LOG_TAIL_LINES:])[-LOG_TAIL_BYTES:]
