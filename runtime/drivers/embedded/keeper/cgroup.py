"""Cgroups where the machine permits them: v2, the named v1 hierarchy of systemd, or any v1 one; else none.

They serve four ends: a stop of the agent's unit does not reach the pods, a whole process tree is found and killed,
what a keeper left behind is recognised, and a pod stays within the limits of its own cgroup. That one the agent makes,
with its limits; here containers only enter it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal

from runtime.drivers.embedded.keeper import small

LIMITING = ("cpu", "memory", "pids", "hugetlb")
"""Controllers whose limits a pod's own cgroup has."""
FALLBACKS = ("freezer", "pids")
"""v1 hierarchies used for finding processes when neither v2 nor systemd's is mounted."""


SANDBOX = re.compile("[0-9a-f]{32}")
"""What a sandbox is called."""


class Survey:
    """What the machine permits."""

    __slots__ = ("limiting", "origins", "places", "refused")

    def __init__(
        self,
        places: tuple[str, ...],
        origins: tuple[str, ...],
        refused: tuple[str, ...],
        limiting: tuple[str, ...] = (),
    ) -> None:
        self.places = places
        """Our absolute folder in each hierarchy; the process that surveyed is in `own_corner` of each."""
        self.origins = origins
        """Where that process was before, in the same order."""
        self.refused = refused
        """What was refused, in sentences for people."""
        self.limiting = limiting
        """Where the hierarchies are mounted that can limit CPU, memory or processes."""


class _Mount:
    """A mounted hierarchy; `kind` is ``v2``, ``systemd`` or a v1 controller."""

    __slots__ = ("kind", "point", "root")

    def __init__(self, kind: str, root: str, point: str) -> None:
        self.kind = kind
        self.root = root
        self.point = point


def survey(name: str) -> Survey:
    """Make the folder `name` as high in each hierarchy as permitted and move this process into it; no name, no cgroup."""
    if not name:
        return Survey((), (), ("cgroups are switched off: a pod's processes are found by parent process",))
    places = []
    origins = []
    refused = []
    for mount in _mounts():
        mine = _own_path(mount)
        place, why = _settle(mount, mine, name)
        if place:
            places.append(place)
            origins.append(mine)
            if os.path.dirname(place) == mine and mine != mount.point:  # noqa: PTH120
                refused.append(
                    f"the agent's own cgroup {mine} could not be left: systemd's stop of its unit kills the pods "
                    "unless the unit says KillMode=process"
                )
        else:
            refused.append(
                f"no cgroup in {mount.point} ({why}): a pod's processes are found by parent process, and systemd's stop of "
                "the agent's unit kills them unless the unit says KillMode=process"
            )
    if not places and not refused:
        refused.append("no cgroup hierarchy is mounted: a pod's processes are found by parent process")
    return Survey(tuple(places), tuple(origins), tuple(refused), tuple(_limiting()))


def _limiting() -> list[str]:
    found: dict[str, tuple[bool, int, str]] = {}
    with open("/proc/self/mountinfo") as lines:  # noqa: PTH123
        for line in lines:
            left, _, right = line.partition(" - ")
            fields = left.split()
            fstype, _, options = right.split()[:3]
            words: list[str] = []
            if fstype == "cgroup2":
                with contextlib.suppress(OSError):
                    words = small.read(fields[4] + "/cgroup.controllers").decode().split()
            elif fstype == "cgroup":
                words = options.split(",")
            if any(word in LIMITING for word in words):
                # Of several mounts of a hierarchy the one that the agent works on: the whole before a part.
                rank = (fields[3] != "/", len(fields[4]), fields[4])
                found[fields[2]] = min(found.get(fields[2], rank), rank)
    return [place for _, _, place in found.values()]


def pod_groups(limiting: tuple[str, ...], parent: str) -> list[str]:
    """Return the folders of a pod's own cgroup that are there; none without a `parent`."""
    if not parent.startswith("/") or ".." in parent.split("/"):
        return []
    return [mount + parent for mount in limiting if os.path.isdir(mount + parent)]  # noqa: PTH112


def _mounts() -> list[_Mount]:
    found: dict[str, _Mount] = {}
    with open("/proc/self/mountinfo") as lines:  # noqa: PTH123
        for line in lines:
            left, _, right = line.partition(" - ")
            fields = left.split()
            fstype, _, options = right.split()[:3]
            if fstype == "cgroup2":
                kinds = ["v2"]
            elif fstype == "cgroup":
                words = options.split(",")
                kinds = ["systemd"] if "name=systemd" in words else [w for w in FALLBACKS if w in words]
            else:
                continue
            for kind in kinds:
                found.setdefault(kind, _Mount(kind, fields[3], fields[4]))
    best = [found[kind] for kind in ("v2", "systemd") if kind in found]
    return best or [found[kind] for kind in FALLBACKS if kind in found][:1]


def _own_path(mount: _Mount) -> str:
    """Return the absolute folder of this process in a hierarchy; its mount point when that is out of sight."""
    with open("/proc/self/cgroup") as lines:  # noqa: PTH123
        for line in lines:
            _, names, path = line.rstrip("\n").split(":", 2)
            kinds = {"v2"} if not names else {n.removeprefix("name=") for n in names.split(",")}
            if mount.kind in kinds:
                inside = path.removeprefix(mount.root.rstrip("/")) if mount.root != "/" else path
                if ".." in inside.split("/"):
                    return mount.point
                return (mount.point + "/" + inside.strip("/")).rstrip("/")
    return mount.point


def _settle(mount: _Mount, mine: str, name: str) -> tuple[str, str]:
    """Return our folder and an empty text, or an empty text and why not; the highest permitted place wins."""
    steps = [step for step in mine.removeprefix(mount.point).split("/") if step]
    why = "not permitted"
    for depth in range(len(steps) + 1):
        place = "/".join([mount.point, *steps[:depth], name])
        try:
            _occupy(place)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            for made in (own_corner(place), place):
                with contextlib.suppress(OSError):
                    os.rmdir(made)  # noqa: PTH106
        else:
            return place, ""
    return "", why


def own_corner(place: str) -> str:
    """Return the cgroup of this process in our folder, apart from pods and from an older keeper server."""
    return f"{place}/nursery-{os.getpid()}"


def _occupy(place: str) -> None:
    for attempt in range(3):
        try:
            os.makedirs(own_corner(place), 0o755, exist_ok=True)  # noqa: PTH103
            break
        except FileNotFoundError:
            # The keeper server of a closed driver removed the empty folder in between.
            if attempt == 2:
                raise
    join(own_corner(place), os.getpid())
    for name in os.listdir(place):  # noqa: PTH208
        if name.startswith("nursery-") and place + "/" + name != own_corner(place):
            # Left by a killed keeper server; the cgroup of a live one is not empty and cannot be removed.
            with contextlib.suppress(OSError):
                os.rmdir(place + "/" + name)  # noqa: PTH106


def join(group: str, pid: int) -> None:
    """Move a process into a cgroup. Raises OSError."""
    small.write(group + "/cgroup.procs", str(pid).encode())


def members(group: str) -> list[int]:
    """Return the processes of a cgroup and of all below it; empty when it does not exist."""
    found = []
    for folder, _, _ in os.walk(group):
        try:
            found += [pid for pid in map(int, small.read(folder + "/cgroup.procs").split()) if pid]
        except OSError:
            # Removed between listing and opening: it has no members then.
            continue
    return found


def kill(group: str) -> bool:
    """SIGKILL all of a v2 cgroup at once; return False where the kernel has no such file."""
    try:
        small.write(group + "/cgroup.kill", b"1")
    except OSError:
        return False
    return True


def kill_members(group: str) -> bool:
    """SIGKILL every process that is in a cgroup now; the caller repeats until there is none.

    Returns whether the kernel did it itself, which asks of no process whose it is.
    """
    if kill(group):
        return True
    for pid in members(group):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return False


def remove(group: str) -> bool:
    """Remove a cgroup and all below it; return whether it is gone. False while processes are in it."""
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106
    return not os.path.isdir(group)  # noqa: PTH112


def sweep(place: str, known: tuple[str, ...]) -> None:
    """Remove empty cgroups in our folder `place`: except sandboxes of `known` and that of a live keeper server.

    A keeper whose creator died before its first request cannot remove its own cgroup, and a keeper server
    that ends while it forks a keeper cannot remove its own.
    """
    try:
        names = os.listdir(place)  # noqa: PTH208
    except OSError:
        return
    for name in names:
        group = f"{place}/{name}"
        owner = name.removeprefix("nursery-")
        if owner == name and not SANDBOX.fullmatch(name):
            # The agent has cgroups of its own in the same folder.
            continue
        lives = os.path.exists(f"/proc/{owner}") if owner != name else name in known  # noqa: PTH110
        if not lives and os.path.isdir(group) and not members(group):  # noqa: PTH112
            remove(group)


def oom_kills(group: str) -> int:
    """Return the number of OOM kills in a cgroup, 0 where the kernel does not count them."""
    for name in ("/memory.events", "/memory.oom_control"):
        try:
            lines = small.read(group + name).splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.startswith(b"oom_kill "))
    return 0
