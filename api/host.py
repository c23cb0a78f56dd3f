"""What the machine itself does for us: manifest files, URLs, the ledger, the pods' folders.

Ports: ``manifests`` takes `ReadManifests`, ``urls`` takes `FetchManifests`, ``ledger`` takes `Remember`, `Forget`,
`Recall`, `RecallAll`, ``podfiles`` takes `MakePodFolders`, `RemovePodFolders`, `ListPodFolders`, of the files around a container
`ReadNodeFiles`, `PrepareContainer`, `ReadEnding`, and the calls on container logs of `api.logfile`,
``cgroups`` takes `RemovePodCgroup`, ``credentials`` takes `ReadNodeCredentials`. The stream ``manifests.changes`` brings `FileSettled` items.
"""

import re
from urllib.parse import urlsplit

import msgspec

from api.errors import RejectedError
from api.ids import Uid
from api.messages import Message
from api.messages.images import Credential

MANIFEST_LIMIT_BYTES = 1 << 20
"""A manifest file over this size is refused unread; a URL's body too (times ten, as a PodList)."""


class HostCall(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One call on a port of the host."""

    def brief(self) -> str:
        """Return one line for traces."""
        return type(self).__name__


class Done(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A call that has no other result was carried out."""


# ---------------------------------------------------------------- manifests


class ReadManifests(HostCall, frozen=True, kw_only=True):
    """Read a folder (not recursive) or one file -> ManifestListing."""

    path: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ReadManifests {self.path}"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with an input: where, why, and what to do."""

    where: str
    """File and line, or file and field path: ``web.yaml:7``, ``web.yaml: spec.containers[0].image``."""
    message: str


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is to hold a manifest."""

    path: str
    """Absolute, as the source names it (symbolic links not resolved)."""
    digest: str
    """Of the content (sha256, hex); of name and size when it was refused unread."""
    document: bytes | None = None
    """The one document of the file as compact JSON, None when there is a problem."""
    problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        # A document may hold secrets in environment values.
        return f"ManifestFile(path={self.path!r}, digest={self.digest!r}, problems={self.problems!r})"


class ManifestListing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is at a manifest path, files sorted by name."""

    files: tuple[ManifestFile, ...] = ()
    ignored: tuple[Problem, ...] = ()
    """What is no manifest by its name or is no regular file, and why."""
    missing: bool = False
    """The path itself does not exist: as good as an empty folder."""
    place: str = ""
    """What is there and on which file system, in words; empty when nothing is."""


class FileSettled(Message, frozen=True, kw_only=True):
    """An item of ``manifests.changes``: a writer closed this file, or it was renamed, moved or removed."""

    path: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"FileSettled {self.path}"

    def conflation_key(self) -> str | None:
        """Keep one per file."""
        return self.path


class FetchManifests(HostCall, frozen=True, kw_only=True):
    """GET a URL -> FetchedManifests. Header values are secret and never shown."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    known_digest: str = ""
    """Digest of the last body: an equal one comes back as `unchanged`, without documents."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"FetchManifests {shown_url(self.url)}"

    def __repr__(self) -> str:
        return f"FetchManifests(url={shown_url(self.url)!r}, headers=<hidden>)"


def shown_url(url: str) -> str:
    """Return a URL as it may be shown: without user, password, query and fragment.

    Where these can not be told from the rest, as in a URL without ``//`` or with a slash in its password, nothing is shown.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.netloc.rpartition("@")[2], parts.port
    except ValueError:
        return "<malformed URL>"
    if not host:
        return "<malformed URL>"
    return f"{parts.scheme}://{host}{parts.path}{'?...' if parts.query else ''}"


class FetchedManifests(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The body of a URL. An empty body is an empty list; a status other than 200 is a failure of the call."""

    digest: str
    unchanged: bool = False
    document: bytes | None = None
    """A Pod, PodList or List as compact JSON; None for an empty body or when there is a problem."""
    problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"FetchedManifests(digest={self.digest!r}, unchanged={self.unchanged}, problems={self.problems!r})"


# ---------------------------------------------------------------- ledger

LEDGER_LIMIT_BYTES = 4 << 20
"""An entry over this size is refused."""

LEDGER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""What a section and a key may be: both are file names."""

LEDGER_DAMAGED = ".damaged-"
"""Stands in the name of an entry that was set aside; no key may hold it."""


def check_ledger_names(section: str, key: str = "key") -> None:
    """Raise `RejectedError` for a section or key that is no plain file name."""
    for what, name in (("section", section), ("key", key)):
        if LEDGER_NAME.fullmatch(name) is None or LEDGER_DAMAGED in name:
            raise RejectedError(
                f"ledger {what} {name!r} is not usable: at most 200 letters, digits, '.', '_' and '-', the first one"
                f" a letter or digit, without {LEDGER_DAMAGED!r}"
            )


def not_ours(section: str, key: str) -> str:
    """Say that an entry is whole and holds something else than its owner writes there."""
    return f"ledger entry {section}/{key} holds what no agent of this version writes; it counts as missing"


class Remember(HostCall, frozen=True, kw_only=True):
    """Write one entry, atomically -> Done. `durable`: on disk (fsync, folder too) before it completes."""

    section: str
    key: str
    data: bytes
    durable: bool = False

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Remember {self.section}/{self.key}{' durable' if self.durable else ''}"


class Forget(HostCall, frozen=True, kw_only=True):
    """Remove one entry -> Done; a missing one is fine. `durable`: no power failure brings it back once that is done."""

    section: str
    key: str
    durable: bool = False

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Forget {self.section}/{self.key}{' durable' if self.durable else ''}"


class Recall(HostCall, frozen=True, kw_only=True):
    """Read one entry -> Recalled."""

    section: str
    key: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"Recall {self.section}/{self.key}"


class RecallAll(HostCall, frozen=True, kw_only=True):
    """Read a whole section -> RecalledAll, keys ascending."""

    section: str
    only_look: bool = False
    """A damaged entry stays where it is: its owner reads it, and says that it was lost."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RecallAll {self.section}"


class Recalled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One entry; `data` None when there is none, `damaged` says that a broken one was set aside."""

    data: bytes | None = None
    damaged: str = ""


class RecalledAll(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All entries of a section."""

    entries: tuple[tuple[str, bytes], ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    """Keys of what could not be read and why, set aside or left; the empty key stands for the whole section."""


# ---------------------------------------------------------------- folders of pods

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


# ---------------------------------------------------------------- files around a container

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
    """Read the node's resolver and hosts files -> `api.node.NodeFiles`; a file that cannot be read is a problem in it."""

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
    """Read what a container that ended left as its last words -> Ending.

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


class Ending(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The last words of a container, empty when it left none."""

    message: str = ""


def own_ending(call: ReadEnding) -> bool:
    """Tell whether the call's termination file is one that an agent makes for this pod's container."""
    match = ENDING_PATH.fullmatch(call.termination_log)
    return match is not None and (match["uid"], match["container"]) == (call.uid, call.container)


def own_log(call: ReadEnding) -> bool:
    """Tell whether the call's log is one that an agent asks for from this pod's container."""
    match = LOG_PATH.fullmatch(call.log_path)
    return match is not None and (uid_of_log_folder(match["folder"]), match["container"]) == (
        call.uid,
        call.container,
    )


def log_tail(text: bytes) -> bytes:
    """Return the part at the end of a log's text that stands in for a termination message."""
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text)
    return b"".join(lines[-LOG_TAIL_LINES:])[-LOG_TAIL_BYTES:]


# ---------------------------------------------------------------- cgroups of pods

POD_CGROUP = re.compile(
    r"(?:/[A-Za-z0-9_.:@-]+)*/(?:(?:[A-Za-z0-9_.:@]+-)*kubepods-(?:[a-z]+-)?)?pod[A-Za-z0-9_.-]+", re.ASCII
)
"""A pod's own cgroup below the root of a hierarchy: ``.../pod<uid>``, or ``.../ROOT-kubepods-...-pod<uid>.slice``."""


class RemovePodCgroup(HostCall, frozen=True, kw_only=True):
    """Remove a pod's cgroup, with the empty ones below it, in every hierarchy -> PodCgroupRemoved.

    Absent ones are fine. Fails with Conflict while a process is in it: ask again later.
    """

    cgroup_parent: str
    """Full path below the root of each hierarchy, as the sandbox was told."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RemovePodCgroup {self.cgroup_parent}"


class PodCgroupRemoved(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The pod's cgroup is gone wherever this machine lets us remove it."""

    refused: tuple[str, ...] = ()
    """Hierarchies that may not be written, each as a sentence for people: asking again does not help."""


def check_pod_cgroup(path: str) -> None:
    """Raise `RejectedError` for what cannot be a pod's own cgroup."""
    if POD_CGROUP.fullmatch(path) is None or any(part in (".", "..") for part in path.split("/")):
        raise RejectedError(
            f"{path!r} is not the cgroup of a pod: that is a full path that ends in pod<uid> or pod<uid>.slice"
        )


# ---------------------------------------------------------------- credentials for registries


class ReadNodeCredentials(HostCall, frozen=True, kw_only=True):
    """Read what the node itself may use at registries -> NodeCredentials. A file that cannot be read is a problem in it."""


class NodeCredentials(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The node's own credentials, those of the file that is looked for first in front."""

    credentials: tuple[Credential, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Files that are broken, by name; nothing of what is in them is told."""
