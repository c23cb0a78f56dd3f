"""The machine in memory: container log files and the links to them."""

import threading
from collections.abc import MutableMapping

import msgspec

from api.errors import NotFoundError, RejectedError
from api.ports.call import Done
from api.ports.logs import (
    LIVE_LOG,
    DeadLink,
    DeadLinks,
    FindDeadLinks,
    FindLogs,
    LinkContainerLog,
    LogLinked,
    LogRotated,
    LogSeen,
    LogsFound,
    RemoveContainerLogs,
    RemoveDeadLink,
    RestoreLog,
    RotateLog,
    check_link_name,
    place_of,
)

HEADER_BYTES = 45
"""What the time, the stream and the tag of a line take in a real log."""

Lines = list[tuple[str, str]]
"""(stream, text) of each line of a file."""


class MemoryLogFiles:
    """The port ``logfiles``, and the calls on logs of ``podfiles``, over virtual files: `files` by absolute path.

    `files` may be shared with who writes them, as a disk is.
    """

    name = "logfiles"

    def __init__(self, root: str, files: MutableMapping[str, Lines] | None = None) -> None:
        self.files: MutableMapping[str, Lines] = {} if files is None else files
        self.links: dict[str, str] = {}
        """Targets by name."""
        self._root = root
        self._rotations = 0
        self._lock = threading.Lock()

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call on log files; raises an `OperatingError`."""
        with self._lock:
            match call:
                case FindLogs(limit_bytes=limit_bytes):
                    return self._find(limit_bytes)
                case RotateLog():
                    return self._rotate(call)
                case RestoreLog():
                    place_of(self._root, call.path)
                    if call.rotated not in self.files:
                        raise NotFoundError(f"there is no rotated log {call.rotated} any more")
                    if call.path not in self.files:
                        self.files[call.path] = self.files.pop(call.rotated)
                    return Done()
                case FindDeadLinks(limit=limit):
                    dead = [
                        DeadLink(name=name, target=target, uid=place_of(self._root, target).uid)
                        for name, target in sorted(self.links.items())
                        if target not in self.files
                    ]
                    return DeadLinks(links=tuple(dead[:limit]))
                case RemoveDeadLink():
                    check_link_name(call.name)
                    if self.links.get(call.name) == call.target and call.target not in self.files:
                        del self.links[call.name]
                    return Done()
                case _:
                    raise TypeError(f"the port logfiles takes no {type(call).__name__}")

    def link(self, call: LinkContainerLog) -> LogLinked:
        """Make a link, if its target is there."""
        check_link_name(call.name)
        place_of(self._root, call.log_path)
        with self._lock:
            if call.log_path in self.files:
                self.links[call.name] = call.log_path
            return LogLinked(made=call.log_path in self.files)

    def remove(self, call: RemoveContainerLogs) -> Done:
        """Remove a container's logs and link."""
        if call.link:
            check_link_name(call.link)
        if call.log_path:
            place = place_of(self._root, call.log_path)
            if place.uid != call.uid:
                raise RejectedError(f"{call.log_path} is not a log of pod {call.uid}")
        with self._lock:
            gone = [
                path for path in self.files if call.log_path and f"{path}.".startswith(f"{call.log_path}.")
            ]
            for path in gone:
                del self.files[path]
            self.links.pop(call.link, None)
        return Done()

    def remove_folder(self, path: str) -> None:
        """Remove a pod's log folder with all in it."""
        with self._lock:
            for name in [name for name in self.files if name.startswith(path + "/")]:
                del self.files[name]

    def _find(self, limit_bytes: int) -> LogsFound:
        logs = []
        rotated = {path.rpartition(".log.")[0] for path in self.files if ".log." in path}
        for path in (f"{stem}.log" for stem in rotated if f"{stem}.log" not in self.files):
            place = place_of(self._root, path)
            logs.append(LogSeen(uid=place.uid, container=place.container, path=path, missing=True))
        for path, lines in sorted(self.files.items()):
            if LIVE_LOG.fullmatch(path.rpartition("/")[2]) is None:
                continue
            place = place_of(self._root, path)
            size = size_of(lines)
            if size > limit_bytes:
                logs.append(LogSeen(uid=place.uid, container=place.container, path=path, size_bytes=size))
        return LogsFound(logs=tuple(sorted(logs, key=lambda log: log.path)))

    def _rotate(self, call: RotateLog) -> LogRotated:
        place_of(self._root, call.path)
        lines = self.files.pop(call.path, None)
        if lines is None:
            raise NotFoundError(f"there is no log {call.path}")
        self._rotations += 1
        rotated = f"{call.path}.20000101-{self._rotations % 1_000_000:06d}"
        older = sorted(path for path in self.files if path.startswith(f"{call.path}."))
        for path in older[: max(0, len(older) - (call.max_files - 2))]:
            del self.files[path]
        if call.keep_bytes:
            rest: Lines = []
            while lines and size_of([lines[-1], *rest]) <= call.keep_bytes:
                rest.insert(0, lines.pop())
            self.files[call.path] = rest
            rotated += ".gz"
        self.files[rotated] = lines
        return LogRotated(rotated=rotated)


def size_of(lines: Lines) -> int:
    """Return how many bytes these lines would take in a real log."""
    return sum(len(text) + HEADER_BYTES for _, text in lines)
