"""Cgroups of the node and of its pods, as they must be, on the port ``cgroups``.

A path is full, below the root of every hierarchy. `EnsurePodCgroup` and `EnsureNodeCgroups` are idempotent: what has its
value already is not written again. `api.ports.cgroups.RemovePodCgroup` removes a pod's.

Where a hierarchy may not be written, that is part of the result and no failure: pods run without these limits. A value
that the kernel does not take is part of the result too (reference ``node`` section 9.4); a cgroup that cannot be made
for another reason is a failure.
"""

import re

import msgspec

from api.errors import RejectedError
from api.ports.call import HostCall
from api.ports.node import CgroupDriver

LIMITING = ("cpu", "memory", "pids")
"""Controllers that pods are limited by."""
UNLIMITED = -1
"""No limit, where a limit may be given."""


class CgroupLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Values of one cgroup. 0 leaves a value as it is, `UNLIMITED` takes a limit away."""

    cpu_shares: int = 0
    """Of cgroup version 1; `cpu_weight` is the same for version 2."""
    cpu_weight: int = 0
    cpu_quota_us: int = 0
    """Per `cpu_period_us`."""
    cpu_period_us: int = 0
    memory_bytes: int = 0
    pids: int = 0
    """Processes and threads."""
    hugepages: tuple[tuple[str, int], ...] = ()
    """Page size (``2MB``) and limit in bytes, where 0 is none at all."""


class NodeCgroup(msgspec.Struct, frozen=True, kw_only=True):
    """One cgroup of the node, with its values."""

    path: str
    limits: CgroupLimits = CgroupLimits()
    must_exist: bool = False
    """It is the operator's: it is never made, and its absence is reported."""


class EnsurePodCgroup(HostCall, frozen=True, kw_only=True):
    """Make a pod's cgroup in every hierarchy, with those above it, and give it its values -> PodCgroupMade."""

    cgroup_parent: str
    """As in the sandbox's specification."""
    driver: CgroupDriver = CgroupDriver.CGROUPFS
    limits: CgroupLimits = CgroupLimits()

    def brief(self) -> str:
        """Return one line for traces."""
        return f"EnsurePodCgroup {self.cgroup_parent}"


class PodCgroupMade(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The pod's cgroup is there wherever this machine lets us make it."""

    made: bool = False
    """It was not there in some hierarchy."""
    refused: tuple[str, ...] = ()
    """Hierarchies that may not be written, each as a sentence for people: asking again does not help."""
    unapplied: tuple[str, ...] = ()
    """Values that the kernel did not take, each with its file and why."""


class EnsureNodeCgroups(HostCall, frozen=True, kw_only=True):
    """Make the cgroups above the pods in every hierarchy and give them their values -> NodeCgroupsMade."""

    groups: tuple[NodeCgroup, ...]
    """In this order: a parent before its children."""
    driver: CgroupDriver = CgroupDriver.CGROUPFS

    def brief(self) -> str:
        """Return one line for traces."""
        return f"EnsureNodeCgroups {' '.join(group.path for group in self.groups)}"


class NodeCgroupsMade(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The result: which values were applied, and which not."""

    refused: tuple[str, ...] = ()
    """What may not be written, each as a sentence for people."""
    missing: tuple[str, ...] = ()
    """Controllers that limit pods and that no hierarchy has."""
    unapplied: tuple[tuple[str, str], ...] = ()
    """Path of a cgroup, and what of it the kernel did not take."""


def check_cgroup_path(path: str) -> None:
    """Raise `RejectedError` for what is no plain full path."""
    parts = path.split("/")
    if not path.startswith("/") or any(part in ("", ".", "..") or "\0" in part for part in parts[1:]):
        raise RejectedError(f'{path!r} is no cgroup: expected a full path without ".", ".." or an empty part')


POD_CGROUP = re.compile(
    r"(?:/[A-Za-z0-9_.:@-]+)*/(?:(?:[A-Za-z0-9_.:@]+-)*kubepods-(?:[a-z]+-)?)?pod[A-Za-z0-9_.-]+", re.ASCII
)
"""A pod's own cgroup below the root of a hierarchy: ``.../pod<uid>``, or ``.../ROOT-kubepods-...-pod<uid>.slice``."""


class RemovePodCgroup(HostCall, frozen=True, kw_only=True):
    """Remove a pod's cgroup, with the empty ones below it, in every hierarchy -> PodCgroupRemoved.

    Absent ones are fine. Fails with Conflict while a process is in it: ask again later.
    """

    cgroup_parent: str
    """Full path below the root of each hierarchy, as in the sandbox's specification."""

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
