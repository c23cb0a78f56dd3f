"""Folders that stand for cgroup hierarchies of version 1 and 2: the files that the kernel makes are made with a folder."""

import errno
import os
from pathlib import Path

from runtime.drivers.host.cgroups.cgroupfile import Hierarchy, mounted_hierarchies

NO_LIMIT = "9223372036854771712"
FILES_V1 = {
    "cpu": {"cpu.shares": "1024", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"},
    "cpuset": {"cpuset.cpus": "", "cpuset.mems": ""},
    "memory": {"memory.limit_in_bytes": "9223372036854771712"},
    "pids": {"pids.max": "max"},
    "hugetlb": {"hugetlb.2MB.limit_in_bytes": "9223372036854771712"},
    "name=systemd": {},
}
FILES_V2 = {
    "cpu": {"cpu.weight": "100", "cpu.max": "max 100000"},
    "cpuset": {"cpuset.cpus": ""},
    "memory": {"memory.max": "max"},
    "pids": {"pids.max": "max"},
    "hugetlb": {"hugetlb.2MB.max": "max"},
    "io": {},
}


def version_1(root, *controllers):
    """Return one folder for each controller, as hierarchies of version 1."""
    made = []
    for name in controllers or tuple(FILES_V1):
        place = root / name.removeprefix("name=")
        place.mkdir(parents=True)
        fill(place, {"cpuset.cpus": "0-3", "cpuset.mems": "0"} if name == "cpuset" else {})

        def make(path, files=FILES_V1[name]):
            Path(path).mkdir()
            fill(Path(path), {**files, "cgroup.procs": ""})

        made.append(Hierarchy(root=place, controllers=(name,), make=make, drop=drop))
    return tuple(made)


def version_2(root, *controllers):
    """Return a folder as the hierarchy of version 2: a cgroup has files of what its parent enabled."""
    names = controllers or tuple(FILES_V2)
    place = root / "unified"
    place.mkdir(parents=True)
    fill(place, {"cgroup.controllers": " ".join(names), "cgroup.subtree_control": ""})

    def make(path):
        Path(path).mkdir()
        # What is written in pieces stands in one file here, one piece after the other.
        enabled = enabled_in(Path(path).parent)
        fill(Path(path), {"cgroup.controllers": " ".join(enabled), "cgroup.subtree_control": ""})
        for name in enabled:
            fill(Path(path), {**FILES_V2[name], "cgroup.procs": ""})

    return (Hierarchy(root=place, unified=True, controllers=names, make=make, drop=drop),)


def enabled_in(folder):
    """Return what a cgroup of version 2 enabled for its children."""
    return (folder / "cgroup.subtree_control").read_text().replace("+", " ").split()


def fill(folder, files):
    """Write files into a folder."""
    for name, text in files.items():
        (folder / name).write_text(text)


def drop(path):
    """Remove a folder with its files, as the kernel removes a cgroup that nothing is in."""
    inside = list(Path(path).iterdir())
    if any(at.is_dir() or at.name == "process" for at in inside):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
    for at in inside:
        at.unlink()
    Path(path).rmdir()


def value(hierarchies, path, file):
    """Return what a file of a cgroup says, in whichever hierarchy has it."""
    found = [at for one in hierarchies for at in [Path(one.folder(path)) / file] if at.exists()]
    text = found[0].read_text().strip() if found else None
    # Plain folders show what was written, where the kernel shows the highest number.
    return NO_LIMIT if text == "-1" and file.startswith("memory.") else text


def own_hierarchies():
    """Make a cgroup of this process's own in each mounted hierarchy that permits it, to stand for its root."""
    found = []
    for hierarchy in mounted_hierarchies():
        path = hierarchy.root / f"nodeagent-test-{os.getpid()}"
        try:
            path.mkdir()
        except OSError:
            continue
        if "cpuset" in hierarchy.controllers and not hierarchy.unified:
            for name in ("cpuset.cpus", "cpuset.mems"):
                (path / name).write_text((hierarchy.root / name).read_text().strip())
        found.append(Hierarchy(root=path, unified=hierarchy.unified, controllers=hierarchy.controllers))
    return tuple(found)


def remove_hierarchies(hierarchies):
    """Remove what `own_hierarchies` made, with every empty cgroup below it."""
    for hierarchy in hierarchies:
        for folder, _, _ in os.walk(hierarchy.root, topdown=False):
            Path(folder).rmdir()


BOMB = "(n=0; while test $n -lt 120; do n=$((n+1)); sleep 1000 & done; echo forked) 2>/dev/null & exec sleep 1000000"
"""Script that forks 120 times, which is more than a small limit lets live; a shell that may not fork gives up."""
READ_ONLY = (
    "mount --make-rprivate / && "
    "awk '$9 ~ /^cgroup/ || $10 ~ /^cgroup/ || $8 ~ /^cgroup/ {print $5}' /proc/self/mountinfo | "
    'while read at; do mount -o remount,bind,ro "$at" || exit 1; done && exec "$@"'
)
"""Runs a command that sees every hierarchy of cgroups read-only."""


def blind(agent):
    """Let an agent see every hierarchy of cgroups read-only."""
    command = agent.command
    agent.command = lambda *flags, **more: (
        "unshare",
        "-m",
        "sh",
        "-c",
        READ_ONLY,
        "sh",
        *command(*flags, **more),
    )


def first_value(paths, *files):
    """Return what the first of these files says that one of these cgroups has; None when none has one."""
    found = (path / file for file in files for path in paths if (path / file).exists())
    return next((at.read_text().strip() for at in found), None)


def tasks(paths):
    """Return how many processes and threads are in a cgroup and below it."""
    return int(first_value(paths, "pids.current") or 0)


def stamps(paths):
    """Return when each of these cgroups was changed last: they are the same ones as long as that is the same."""
    return {path: path.stat().st_ctime_ns for path in paths}
