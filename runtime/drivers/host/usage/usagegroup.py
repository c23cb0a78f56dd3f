"""Which cgroups count for a container and its pod: found by one of its processes, in every mounted hierarchy.

```text
/proc/<pid>/cgroup    4:memory:/kubepods/pod<uid>/<id>     a v1 hierarchy with its controllers
                      0::/nodeagent-x/<sandbox>/<id>       v2, which may be mounted without any controller
```

Only a cgroup that bears the container's id in its path is its own. What no cgroup counts is counted by process.
"""

import os
import posixpath
from dataclasses import dataclass
from functools import cached_property

from api.ids import Uid
from runtime.drivers.host.usage.usagefile import read

V2 = "v2"
CONTROLLERS = ("cpuacct", "memory", "pids")


@dataclass(frozen=True)
class CgroupFolder:
    """A cgroup's folder in the hierarchy of one controller."""

    folder: str
    v2: bool


@dataclass(frozen=True)
class Groups:
    """The cgroups that count for one thing; None where none does."""

    cpu: CgroupFolder | None = None
    memory: CgroupFolder | None = None
    pids: CgroupFolder | None = None
    members: str = ""
    """A cgroup that contains only its processes, empty when there is none."""

    @property
    def counted(self) -> bool:
        """Return whether any cgroup counts a part of it."""
        return self.cpu is not None or self.memory is not None or self.pids is not None


@dataclass(frozen=True)
class HierarchyMount:
    """Where a hierarchy, or the part of it below `root`, is mounted."""

    point: str
    root: str


class Hierarchies:
    """The cgroup hierarchies of the machine, as ``/proc`` shows them."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc

    @cached_property
    def mounts(self) -> dict[str, HierarchyMount]:
        """Return where each controller's hierarchy is mounted, and v2's."""
        found: dict[str, HierarchyMount] = {}
        for line in read(f"{self._proc}/self/mountinfo").decode(errors="surrogateescape").splitlines():
            left, _, right = line.partition(" - ")
            fields, kind = left.split(), right.split()
            if len(fields) < 5 or len(kind) < 3:
                continue
            names = {"cgroup2": [V2], "cgroup": [w for w in kind[2].split(",") if w in CONTROLLERS]}
            for name in names.get(kind[0], ()):
                mount = HierarchyMount(point=fields[4], root=fields[3])
                if name not in found or (mount.root == "/" and found[name].root != "/"):
                    found[name] = mount
        return found

    def root(self, controller: str) -> CgroupFolder | None:
        """Return the root cgroup that counts by this controller, None when it is not in sight."""
        mount = self.mounts.get(controller)
        if mount is not None and mount.root == "/":
            return CgroupFolder(folder=mount.point, v2=False)
        unified = self.mounts.get(V2)
        if unified is None or unified.root != "/":
            return None
        needed = {"cpuacct": "cpu.stat", "memory": "memory.stat"}.get(controller, "pids.current")
        there = os.path.exists(f"{unified.point}/{needed}")  # noqa: PTH110
        return CgroupFolder(folder=unified.point, v2=True) if there else None

    def below_root(self, controller: str, path: str) -> CgroupFolder | None:
        """Return the cgroup of this path below the root, None where there is none."""
        root = self.root(controller)
        folder = f"{root.folder}{path}" if root is not None else ""
        if root is None or not os.path.isdir(folder):  # noqa: PTH112
            return None
        return CgroupFolder(folder=folder, v2=root.v2)

    def of(self, pid: int, identity: str, uid: Uid) -> tuple[Groups, Groups]:
        """Return the cgroups of the container that a process is in, and those of its pod. Raises OSError."""
        own: dict[str, CgroupFolder] = {}
        pods: dict[str, CgroupFolder] = {}
        members = ""
        for line in read(f"{self._proc}/{pid}/cgroup").decode(errors="surrogateescape").splitlines():
            _, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            for name in names.split(",") if names else (V2,):
                inside = own_part(path, identity)
                if inside and (not members or name == V2):
                    members = self._folder(name, inside) or members
                mount = self.mounts.get(name)
                if mount is None or not inside:
                    continue
                folder = self._folder(name, inside)
                if not folder:
                    continue
                own[name] = CgroupFolder(folder=folder, v2=name == V2)
                parent = posixpath.dirname(inside)
                if is_pods(posixpath.basename(parent), uid):
                    pods[name] = CgroupFolder(folder=posixpath.dirname(folder), v2=name == V2)
        return self._counting(own, members), self._counting(pods, "")

    def _folder(self, name: str, path: str) -> str:
        mount = self.mounts.get(name)
        if mount is None:
            return ""
        if mount.root != "/":
            if not path.startswith(mount.root + "/"):
                return ""
            path = path.removeprefix(mount.root)
        return mount.point.rstrip("/") + path

    def _counting(self, places: dict[str, CgroupFolder], members: str) -> Groups:
        unified = places.get(V2)

        def chosen(controller: str, file: str) -> CgroupFolder | None:
            if controller in places:
                return places[controller]
            # v2 shows a file only where its controller is on; CPU time it counts always.
            if unified is not None and os.path.exists(f"{unified.folder}/{file}"):  # noqa: PTH110
                return unified
            return None

        return Groups(
            cpu=chosen("cpuacct", "cpu.stat"),
            memory=chosen("memory", "memory.current"),
            pids=chosen("pids", "pids.current"),
            members=members,
        )


def own_part(path: str, identity: str) -> str:
    """Return a process's cgroup path up to the step that bears the container's id, empty when none does."""
    if len(identity) < 8:
        return ""
    steps = path.split("/")
    for at, step in enumerate(steps):
        if identity in step:
            return "/".join(steps[: at + 1])
    return ""


def is_pods(name: str, uid: Uid) -> bool:
    """Return whether a cgroup of this name is the pod's own: ``pod<uid>``, or systemd's ``...-pod<uid_>.slice``."""
    return bool(uid) and (
        name == f"pod{uid}" or name.removesuffix(".slice").endswith(f"pod{uid.replace('-', '_')}")
    )
