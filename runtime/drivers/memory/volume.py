"""Volumes of pods in memory: which exist, what is bound where, and the given files of a node.

They survive a kill of the agent; what is in memory or bound does not survive a reboot of the machine.
"""

import threading

import msgspec

from api.errors import ConflictError, NotFoundError, RejectedError, UnavailableError
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
    SubPathReady,
    VolumeReady,
    VolumesRemoved,
    check_host_path,
    check_sub_path,
    check_volume_names,
    host_path_trouble,
)


class MemoryVolumes:
    """The port ``volumes``: volumes and sub paths by their path on the host."""

    name = "volumes"

    def __init__(self, pods_root: str = "/var/lib/nodeagent/pods") -> None:
        self._pods = pods_root
        self.volumes: dict[str, EmptyDir] = {}
        """By path."""
        self.bound: dict[str, str] = {}
        """Places of sub paths, and what is bound there."""
        self.busy: set[str] = set()
        """Paths that are in use, so that they cannot be unmounted."""
        self._host: dict[str, HostKind] = {"/": HostKind.FOLDER}
        self._lock = threading.Lock()

    def put(self, path: str, kind: HostKind) -> None:
        """Let something be at a path of the node; its folder must be there."""
        with self._lock:
            self._put(path, kind)

    def kind(self, path: str) -> HostKind:
        """Return what is at a path of the node."""
        return self._host.get(path, HostKind.NOTHING)

    def paths_of(self, uid: Uid) -> tuple[str, ...]:
        """Return every path of a pod at which something is that can be mounted."""
        folder = f"{self._pods}/{uid}/"
        return tuple(sorted(path for path in (*self.volumes, *self.bound) if path.startswith(folder)))

    def uids(self) -> tuple[Uid, ...]:
        """Return the pods that have something that can be mounted."""
        start = len(self._pods) + 1
        return tuple(sorted({Uid(path[start:].partition("/")[0]) for path in (*self.volumes, *self.bound)}))

    def reboot(self) -> None:
        """Lose what was mounted."""
        with self._lock:
            self.bound.clear()
            kept = {path: plan for path, plan in self.volumes.items() if plan.medium is Medium.DISK}
            self.volumes = kept

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call on volumes; raises an `OperatingError`."""
        with self._lock:
            match call:
                case PrepareVolume(plan=HostPath() as plan):
                    check_volume_names(call.uid, call.volume)
                    return self._prepare_host_path(plan)
                case PrepareVolume(plan=EmptyDir() as plan):
                    check_volume_names(call.uid, call.volume)
                    path = f"{self._pods}/{call.uid}/volumes/{EMPTY_DIR}/{call.volume}"
                    self.volumes.setdefault(path, plan)
                    return VolumeReady(host_path=path)
                case PrepareSubPath():
                    check_volume_names(call.uid, call.volume, call.container, call.attempt)
                    check_sub_path(call.sub_path)
                    return self._prepare_sub_path(call)
                case RemoveVolumes():
                    check_folder_uid(call.uid)
                    return self._remove(call.uid)
                case _:
                    raise TypeError(f"the port volumes takes no {type(call).__name__}")

    def _put(self, path: str, kind: HostKind) -> None:
        if self.kind(path.rpartition("/")[0] or "/") is not HostKind.FOLDER:
            raise UnavailableError(f"could not look at {path}: No such file or directory")
        self._host[path] = kind

    def _prepare_host_path(self, plan: HostPath) -> VolumeReady:
        check_host_path(plan.path)
        made = CREATED.get(plan.kind)
        if made is not None and self.kind(plan.path) is HostKind.NOTHING:
            parts = plan.path.strip("/").split("/")
            for count in range(1, len(parts)) if made is HostKind.FOLDER else ():
                above = "/" + "/".join(parts[:count])
                if self.kind(above) is HostKind.NOTHING:
                    self._put(above, HostKind.FOLDER)
            self._put(plan.path, made)
        trouble = host_path_trouble(plan, self.kind(plan.path))
        if trouble:
            raise RejectedError(trouble)
        return VolumeReady(host_path=plan.path)

    def _prepare_sub_path(self, call: PrepareSubPath) -> SubPathReady:
        if call.host_path not in self.volumes and self.kind(call.host_path) is HostKind.NOTHING:
            raise NotFoundError(f"there is no volume at {call.host_path}")
        path = f"{self._pods}/{call.uid}/volume-subpaths/{call.volume}/{call.container}/{call.index}"
        self.bound[path] = f"{call.host_path}/{call.sub_path}"
        return SubPathReady(host_path=path)

    def _remove(self, uid: Uid) -> VolumesRemoved:
        ours = self.paths_of(uid)
        for path in ours:
            if path in self.busy:
                raise ConflictError(f"{path} is still mounted; see what uses it")
        mounted = tuple(
            path
            for path in ours
            if path in self.bound or self.volumes[path].medium is Medium.MEMORY or self.volumes[path].shared
        )
        for path in ours:
            self.volumes.pop(path, None)
            self.bound.pop(path, None)
        return VolumesRemoved(unmounted=mounted)
