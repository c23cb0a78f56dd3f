"""The port ``cgroups``: the pods' own cgroups below the roots of all mounted hierarchies, v1, v2 or both."""

import errno
import os
import posixpath
from pathlib import Path

import msgspec

from api.errors import ConflictError
from api.host import PodCgroupRemoved, RemovePodCgroup, check_pod_cgroup
from runtime.drivers.host.oserror import DENIED, translate


class PodCgroups:
    """The port ``cgroups``. `hierarchies`: the folder in each that stands for its root; None finds the mounted ones."""

    name = "cgroups"

    def __init__(self, hierarchies: tuple[Path, ...] | None = None) -> None:
        self._hierarchies = hierarchies

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call on cgroups; raises an `OperatingError`. The kernel's files have no use for a deadline."""
        match call:
            case RemovePodCgroup():
                return self._remove(call)
            case _:
                raise TypeError(f"the port cgroups takes no {type(call).__name__}")

    def _remove(self, call: RemovePodCgroup) -> PodCgroupRemoved:
        check_pod_cgroup(call.cgroup_parent)
        hierarchies = mounted_hierarchies() if self._hierarchies is None else self._hierarchies
        refused, busy = [], []
        for root in hierarchies:
            path = f"{root}{call.cgroup_parent}"
            try:
                remove_cgroup(path)
            except OSError as error:
                if error.errno == errno.EBUSY:
                    busy.append(path)
                elif error.errno in DENIED:
                    refused.append(f"cgroup {path} can not be removed: {error.strerror}; it stays, empty")
                else:
                    raise translate(error, f"could not remove the cgroup {path}") from error
        if busy:
            raise ConflictError(
                f"processes are still in the cgroup {', '.join(busy)}; it is removed when they ended"
            )
        return PodCgroupRemoved(refused=tuple(refused))


def remove_cgroup(path: str) -> None:
    """Remove a cgroup and those below it, from below; an absent one is fine. Raises OSError."""
    for folder, below, _ in os.walk(path, topdown=False):
        for name in below:
            remove_empty(f"{folder}/{name}")
    remove_empty(path)


def remove_empty(path: str) -> None:
    """Remove one cgroup unless it is gone already. Raises OSError: EBUSY while processes or other cgroups are in it."""
    try:
        Path(path).rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        # An ordinary folder says of what is in it what a cgroup says: it is still in use.
        if error.errno == errno.ENOTEMPTY:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path) from error
        raise


def mounted_hierarchies(mountinfo: Path = Path("/proc/self/mountinfo")) -> tuple[Path, ...]:
    """Return where the cgroup hierarchies of this machine are mounted, one place for each, ascending."""
    found: dict[str, tuple[bool, int, str]] = {}
    try:
        lines = mountinfo.read_text().splitlines()
    except OSError as error:
        raise translate(error, "could not read which cgroup hierarchies are mounted") from error
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split()
        if right.partition(" ")[0] not in ("cgroup", "cgroup2") or len(fields) < 5:
            continue
        _, _, device, root, place = fields[:5]
        # A hierarchy may be mounted several times, parts of it too: the whole comes before a part, short before long.
        rank = (root != "/", len(place), posixpath.normpath(place))
        found[device] = min(found.get(device, rank), rank)
    return tuple(sorted(Path(place) for _, _, place in found.values()))
