"""The port ``cgroups``: the node's and the pods' cgroups in all mounted hierarchies, v1, v2 or both."""

import contextlib
import errno
import threading
import time

import msgspec

from api.errors import ConflictError, TimedOutError, UnavailableError
from api.ports.cgroups import (
    LIMITING,
    CgroupLimits,
    EnsureNodeCgroups,
    EnsurePodCgroup,
    NodeCgroup,
    NodeCgroupsMade,
    PodCgroupMade,
    PodCgroupRemoved,
    RemovePodCgroup,
    check_cgroup_path,
    check_pod_cgroup,
)
from api.ports.node import CgroupDriver
from runtime.drivers.host.cgroups.cgroupfile import (
    REFUSED,
    WANTED,
    Hierarchy,
    apply_limits,
    are_applied,
    kill_rest,
    make_cgroup,
    mounted_hierarchies,
    remove_cgroup,
    remove_empty,
)
from runtime.drivers.host.cgroups.dbus import DbusError
from runtime.drivers.host.cgroups.slice import SUFFIX, Slices
from runtime.drivers.host.oserror import translate

SLICE_DEADLINE_S = 10.0
MOUNTED_FOR_S = 30.0
"""How long what was found mounted counts: a hundred pods that come at once read it once."""


class PodCgroups:
    """The port ``cgroups``.

    `hierarchies` None: find the mounted ones; `own_root` is a cgroup that no other process manages.
    """

    name = "cgroups"
    short = ("EnsurePodCgroup",)
    """Calls that are done one after the other: see `runtime.kernel.offload`."""

    def __init__(
        self,
        hierarchies: tuple[Hierarchy, ...] | None = None,
        *,
        own_root: str = "",
        slices: Slices | None = None,
    ) -> None:
        self._hierarchies = hierarchies
        self._slices = slices or Slices()
        self._own_root = own_root
        self._lock = threading.Lock()
        self._mounted: tuple[Hierarchy, ...] = ()
        self._look_again_at = 0.0
        self._made: list[tuple[Hierarchy, str]] = []
        """Folders of the node's cgroups that were not there before, a parent before its children."""
        self._asked: tuple[str, ...] = ()
        """Paths of the node's cgroups at the last request."""

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:
        """Carry out a call on cgroups; raises an `OperatingError`. The deadline is systemd's: files have no use for one."""
        match call:
            case RemovePodCgroup():
                return self._remove(call, deadline_s)
            case EnsurePodCgroup():
                return self._ensure_pod(call, deadline_s)
            case EnsureNodeCgroups():
                return self._ensure_node(call, deadline_s)
            case _:
                raise TypeError(f"the port cgroups takes no {type(call).__name__}")

    def close(self) -> None:
        """Remove the node's cgroups that were made here, by an earlier life too below a root of our own, and are empty."""
        with self._lock:
            made, self._made = self._made, []
            asked, self._asked = self._asked, ()
        if self._own_root:
            inside = [path for path in asked if path.startswith(f"{self._own_root}/")]
            made += [(one, one.folder(path)) for one in self._all() for path in (self._own_root, *inside)]
        for hierarchy, folder in reversed(made):
            with contextlib.suppress(OSError):
                remove_empty(hierarchy, folder)

    def _all(self) -> tuple[Hierarchy, ...]:
        if self._hierarchies is not None:
            return self._hierarchies
        with self._lock:
            now = time.monotonic()
            if now >= self._look_again_at:
                self._mounted, self._look_again_at = mounted_hierarchies(), now + MOUNTED_FOR_S
            return self._mounted

    def _wanted(self) -> tuple[Hierarchy, ...]:
        return tuple(one for one in self._all() if one.unified or not set(WANTED).isdisjoint(one.controllers))

    def _slice(self, driver: CgroupDriver, path: str, limits: CgroupLimits, deadline_s: float) -> str:
        """Have systemd make a slice where that makes cgroups here; return why it does not, empty when all is well."""
        if driver is not CgroupDriver.SYSTEMD:
            return ""
        wanted = [one for one in self._wanted() if one.unified or "name=systemd" in one.controllers]
        if all(one.has(path) for one in wanted) and all(
            are_applied(one, path, limits) for one in self._wanted()
        ):
            return ""
        try:
            self._slices.start(
                path,
                limits,
                unified=any(one.unified and "cpu" in one.controllers for one in wanted),
                deadline_s=min(deadline_s, SLICE_DEADLINE_S),
                is_there=lambda: any(one.has(path) for one in wanted),
            )
        except TimeoutError as error:
            raise TimedOutError(f"could not make the slice {path}: {error}") from error
        except OSError as error:
            return f"slice {path} cannot be made: systemd does not answer: {error.strerror or error}"
        except DbusError as error:
            raise UnavailableError(f"systemd did not make the slice {path}: {error}") from error
        return ""

    def _ensure_pod(self, call: EnsurePodCgroup, deadline_s: float) -> PodCgroupMade:
        check_pod_cgroup(call.cgroup_parent)
        no_slice = self._slice(call.driver, call.cgroup_parent, call.limits, deadline_s)
        if no_slice:
            return PodCgroupMade(refused=(no_slice,))
        made = False
        refused: list[str] = []
        unapplied: list[str] = []
        for hierarchy in self._wanted():
            fresh, why, failed = ensure(hierarchy, call.cgroup_parent, call.limits)
            made = made or fresh
            refused += why
            unapplied += failed
        return PodCgroupMade(made=made, refused=tuple(refused), unapplied=tuple(unapplied))

    def _ensure_node(self, call: EnsureNodeCgroups, deadline_s: float) -> NodeCgroupsMade:
        hierarchies = self._wanted()
        with self._lock:
            self._asked = tuple(group.path for group in call.groups if not group.must_exist)
        refused: list[str] = []
        unapplied: list[tuple[str, str]] = []
        for group in call.groups:
            check_cgroup_path(group.path)
            own = CgroupDriver.CGROUPFS if group.must_exist else call.driver
            no_slice = self._slice(own, group.path, group.limits, deadline_s)
            if no_slice:
                refused.append(no_slice)
                continue
            for hierarchy in hierarchies:
                fresh, why, failed = self._ensure_one(hierarchy, group)
                if fresh and not group.path.endswith(SUFFIX):
                    with self._lock:
                        self._made.append((hierarchy, hierarchy.folder(group.path)))
                refused += why
                unapplied += [(group.path, text) for text in failed]
        have = {name for hierarchy in hierarchies for name in hierarchy.controllers}
        missing = tuple(name for name in LIMITING if name not in have)
        return NodeCgroupsMade(refused=tuple(refused), missing=missing, unapplied=tuple(unapplied))

    def _ensure_one(self, hierarchy: Hierarchy, group: NodeCgroup) -> tuple[bool, list[str], list[str]]:
        if not group.must_exist:
            return ensure(hierarchy, group.path, group.limits)
        if not set(LIMITING).isdisjoint(hierarchy.controllers):
            if not hierarchy.has(group.path):
                return False, [], [f"{hierarchy.folder(group.path)} does not exist; make it first"]
            return False, *apply_limits(hierarchy, group.path, group.limits)
        return False, [], []

    def _remove(self, call: RemovePodCgroup, deadline_s: float) -> PodCgroupRemoved:
        check_pod_cgroup(call.cgroup_parent)
        refused, busy = [], []
        if call.cgroup_parent.endswith(SUFFIX) and any(one.has(call.cgroup_parent) for one in self._all()):
            # Check the folders themselves, whatever systemd reports.
            with contextlib.suppress(OSError, DbusError):
                self._slices.stop(call.cgroup_parent, min(deadline_s, SLICE_DEADLINE_S))
        for hierarchy in self._all():
            path = hierarchy.folder(call.cgroup_parent)
            try:
                kill_rest(path)
                remove_cgroup(hierarchy, call.cgroup_parent)
            except OSError as error:
                if error.errno == errno.EBUSY:
                    busy.append(path)
                elif error.errno in REFUSED:
                    refused.append(f"cgroup {path} cannot be removed: {error.strerror}; it stays, empty")
                else:
                    raise translate(error, f"could not remove the cgroup {path}") from error
        if busy:
            raise ConflictError(
                f"processes are still in the cgroup {', '.join(busy)}; it is removed when they ended"
            )
        return PodCgroupRemoved(refused=tuple(refused))


def ensure(hierarchy: Hierarchy, path: str, limits: CgroupLimits) -> tuple[bool, list[str], list[str]]:
    """Make a cgroup with its values; return whether it is new, why it may not be made, and what was not taken.

    Raises an `OperatingError` for what may go well the next time.
    """
    folder = hierarchy.folder(path)
    try:
        made, troubles = make_cgroup(hierarchy, path)
    except OSError as error:
        if error.errno in REFUSED:
            return False, [f"cgroup {folder} cannot be made: {error.strerror}"], []
        raise translate(error, f"could not make the cgroup {folder}") from error
    refused, failed = apply_limits(hierarchy, path, limits, fresh=made)
    return made, refused, [*troubles, *failed]
