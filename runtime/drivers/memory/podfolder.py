"""The pods' folders and the files around their containers, in memory. They survive a kill of the agent."""

import threading

import msgspec

from api.errors import RejectedError
from api.ids import Uid
from api.ports.call import Done
from api.ports.logs import LinkContainerLog, RemoveContainerLogs
from api.ports.manifests import Problem
from api.ports.node import NodeFiles, parse_resolver
from api.ports.podfiles import (
    ENDING_LIMIT_BYTES,
    ListPodFolders,
    MakePodFolders,
    PodFolders,
    PrepareContainer,
    ReadEnding,
    ReadNodeFiles,
    RemovePodFolders,
    TerminationMessage,
    check_folder_container,
    check_folder_uid,
    ending_file,
    log_tail,
    own_ending,
    own_log,
    uid_of_log_folder,
)
from runtime.drivers.memory.logs import MemoryLogFiles


class MemoryPodFolders:
    """The port ``podfiles``: which pods have folders under ``pods`` and under the log root, and files by their path."""

    name = "podfiles"

    def __init__(
        self,
        logs_root: str = "/var/log/pods",
        pods_root: str = "/var/lib/nodeagent/pods",
        *,
        logs: MemoryLogFiles | None = None,
    ) -> None:
        self._log_files = logs or MemoryLogFiles(logs_root)
        self._logs_root = logs_root
        self._pods_root = pods_root
        self._pods: set[Uid] = set()
        self._logs: set[str] = set()
        self._files: dict[str, bytes] = {}
        self._node: dict[str, str] = {
            "/etc/resolv.conf": "nameserver 192.0.2.53\n",
            "/etc/hosts": "127.0.0.1\tlocalhost\n",
        }
        self._lock = threading.Lock()

    def add_logs(self, log_directory: str) -> None:
        """Add a pod's log folder, as a runtime makes it."""
        with self._lock:
            self._logs.add(log_directory)

    def write(self, path: str, content: bytes) -> None:
        """Write the output of a container at an absolute path: its termination message, or the text of its log."""
        with self._lock:
            self._files[path] = content

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None when it is not there."""
        with self._lock:
            return self._files.get(path)

    def put_node_file(self, path: str, text: str | None) -> None:
        """Write a file of the node, or remove it."""
        with self._lock:
            if text is None:
                self._node.pop(path, None)
            else:
                self._node[path] = text

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call on folders and files; raises an `OperatingError`."""
        with self._lock:
            match call:
                case MakePodFolders():
                    check_folder_uid(call.uid)
                    self._pods.add(call.uid)
                    return Done()
                case RemovePodFolders():
                    return self._remove(call)
                case ListPodFolders():
                    return self._list()
                case PrepareContainer():
                    return self._prepare(call)
                case ReadEnding():
                    return self._read_ending(call)
                case ReadNodeFiles():
                    return self._read_node(call)
                case LinkContainerLog():
                    return self._log_files.link(call)
                case RemoveContainerLogs():
                    check_folder_uid(call.uid)
                    self._files.pop(call.termination_log, None)
                    return self._log_files.remove(call)
                case _:
                    raise TypeError(f"the port podfiles takes no {type(call).__name__}")

    def _remove(self, call: RemovePodFolders) -> Done:
        check_folder_uid(call.uid)
        root, _, name = call.log_directory.rpartition("/")
        if call.log_directory and (root != self._logs_root or uid_of_log_folder(name) != call.uid):
            raise RejectedError(
                f"{call.log_directory} is not the log folder of pod {call.uid}: that is"
                f" {self._logs_root}/<namespace>_<name>_{call.uid}"
            )
        self._pods.discard(call.uid)
        logs = {call.log_directory} if call.log_directory else set()
        if call.find_logs:
            logs |= {path for path in self._logs if uid_of_log_folder(path.rpartition("/")[2]) == call.uid}
        self._logs -= logs
        for path in sorted(logs):
            self._log_files.remove_folder(path)
        gone = [f"{self._pods_root}/{call.uid}/", *(f"{path}/" for path in sorted(logs))]
        self._files = {
            path: content for path, content in self._files.items() if not path.startswith(tuple(gone))
        }
        return Done()

    def _list(self) -> PodFolders:
        logs = [
            (uid, path)
            for path in self._logs
            if (uid := uid_of_log_folder(path.rpartition("/")[2])) is not None
        ]
        return PodFolders(uids=tuple(sorted(self._pods)), log_directories=tuple(sorted(logs)))

    def _prepare(self, call: PrepareContainer) -> Done:
        check_folder_uid(call.uid)
        check_folder_container(call.container, call.attempt)
        self._pods.add(call.uid)
        if call.hosts is not None:
            self._files[f"{self._pods_root}/{call.uid}/etc-hosts"] = call.hosts.encode()
        if call.ending:
            self._files.setdefault(self._ending(call), b"")
        return Done()

    def _ending(self, call: PrepareContainer) -> str:
        return f"{self._pods_root}/{call.uid}/containers/{call.container}/{ending_file(call.attempt)}"

    def _read_ending(self, call: ReadEnding) -> TerminationMessage:
        check_folder_uid(call.uid)
        check_folder_container(call.container)
        found = self._files.get(call.termination_log, b"")[-ENDING_LIMIT_BYTES:] if own_ending(call) else b""
        if not found and call.fall_back and own_log(call):
            found = log_tail(self._files.get(call.log_path, b""))
        return TerminationMessage(message=found.decode(errors="replace"))

    def _read_node(self, call: ReadNodeFiles) -> NodeFiles:
        wanted = [path for path in (call.resolv_conf, "/etc/hosts") if path]
        problems = tuple(
            Problem(where=path, message="No such file or directory")
            for path in wanted
            if path not in self._node
        )
        text = self._node.get(call.resolv_conf)
        return NodeFiles(
            resolver=None if text is None else parse_resolver(text, call.resolv_conf),
            hosts=self._node.get("/etc/hosts", ""),
            problems=problems,
        )
