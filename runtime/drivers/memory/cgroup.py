"""The machine's cgroups in memory: which there are, with which values, and in which of them a process is."""

import msgspec

from api.errors import ConflictError
from api.ports.cgroups import (
    LIMITING,
    CgroupLimits,
    EnsureNodeCgroups,
    EnsurePodCgroup,
    NodeCgroupsMade,
    PodCgroupMade,
    PodCgroupRemoved,
    RemovePodCgroup,
    check_cgroup_path,
    check_pod_cgroup,
)


class MemoryCgroups:
    """The port ``cgroups`` in memory; one hierarchy. It survives a kill of the agent."""

    name = "cgroups"

    def __init__(self) -> None:
        self.groups: dict[str, CgroupLimits] = {}
        """By path, with the values that were given."""
        self.writes: list[str] = []
        """Paths of which values were changed, in order."""
        self.busy: set[str] = set()
        """Paths in which a process is that cannot be killed."""
        self.refused = False
        """Whether nothing may be written."""
        self.controllers: tuple[str, ...] = LIMITING

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call on cgroups; raises an `OperatingError`."""
        match call:
            case RemovePodCgroup(cgroup_parent=path):
                return self._remove(path)
            case EnsurePodCgroup(cgroup_parent=path, limits=limits):
                check_pod_cgroup(path)
                if self.refused:
                    return PodCgroupMade(refused=(refusal(path),))
                return PodCgroupMade(made=self._ensure(path, limits))
            case EnsureNodeCgroups(groups=groups):
                for group in groups:
                    check_cgroup_path(group.path)
                missing = tuple(name for name in LIMITING if name not in self.controllers)
                if self.refused:
                    return NodeCgroupsMade(
                        refused=tuple(refusal(g.path) for g in groups if not g.must_exist), missing=missing
                    )
                absent = []
                for group in groups:
                    if group.must_exist and group.path not in self.groups:
                        absent.append((group.path, f"{group.path} does not exist; make it first"))
                    else:
                        self._ensure(group.path, group.limits)
                return NodeCgroupsMade(missing=missing, unapplied=tuple(absent))
            case _:
                raise TypeError(f"the port cgroups takes no {type(call).__name__}")

    def _ensure(self, path: str, limits: CgroupLimits) -> bool:
        made = path not in self.groups
        above = ""
        for name in path.strip("/").split("/"):
            above = f"{above}/{name}"
            self.groups.setdefault(above, CgroupLimits())
        wanted = merged(self.groups[path], limits)
        if made or wanted != self.groups[path]:
            self.groups[path] = wanted
            self.writes.append(path)
        return made

    def _remove(self, path: str) -> PodCgroupRemoved:
        check_pod_cgroup(path)
        if path in self.busy:
            raise ConflictError(f"processes are still in the cgroup {path}")
        if self.refused and path in self.groups:
            return PodCgroupRemoved(refused=(f"cgroup {path} cannot be removed: it stays, empty",))
        for group in [group for group in self.groups if group == path or group.startswith(f"{path}/")]:
            del self.groups[group]
        return PodCgroupRemoved()


def refusal(path: str) -> str:
    """Refuse to make a cgroup."""
    return f"cgroup {path} cannot be made: Read-only file system"


def merged(known: CgroupLimits, limits: CgroupLimits) -> CgroupLimits:
    """Return the values after a call: 0 keeps one unchanged."""
    changes = {name: value for name in limits.__struct_fields__ if (value := getattr(limits, name))}
    return msgspec.structs.replace(known, **changes)
