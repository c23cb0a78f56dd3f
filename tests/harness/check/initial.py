"""What must hold of init containers and sidecars: their order while things break, and where they rest once all is healed."""

from __future__ import annotations

from actors.pod.state import PodState
from actors.rules.container.role import is_sidecar
from api.ids import Uid
from api.kube.objects.pod import PodSpec
from api.kube.objects.podstatus import ContainerStatus
from api.ports.runtime import RuntimeContainer, RuntimeContainerState, RuntimePod
from runtime.drivers.memory.history import Happening, HistoryRow

DEBUG = "debug"
"""What the names of ephemeral containers begin with here: they wait for no init container, nor does one wait for them."""


class InitBook:
    """What of each pod has to come before what, and what of it has happened in each sandbox."""

    def __init__(self) -> None:
        self._order: dict[Uid, tuple[tuple[str, bool], ...]] = {}
        """By pod: its init containers, and whether each is a sidecar."""
        self._done: dict[str, set[str]] = {}
        """By sandbox: plain init containers that ended with 0 in it, sidecars that were started in it."""
        self._ended_well: set[tuple[Uid, str]] = set()
        self._mains: dict[str, set[str]] = {}
        """By sandbox: its regular containers that run."""

    def learn(self, state: PodState) -> None:
        """Learn the order of a pod's containers from its spec."""
        if state.desired is not None and state.uid not in self._order:
            spec = state.desired.spec
            self._order[state.uid] = tuple((one.name, is_sidecar(spec, one)) for one in spec.init_containers)

    def judge(self, row: HistoryRow) -> str:
        """Return what a start comes too early or too late for, empty when it comes in time."""
        order = self._order.get(row.uid, ())
        names = [name for name, _ in order]
        if row.name.startswith(DEBUG):
            return ""
        if row.what is not Happening.STARTED or not order:
            return ""
        done = self._done.get(row.sandbox_id, set())
        before = names[: names.index(row.name)] if row.name in names else names
        missing = [name for name in before if name not in done]
        if missing:
            return f"container {row.name} starts before init containers {missing} are done"
        mains = sorted(self._mains.get(row.sandbox_id, ()))
        if row.name in names and not dict(order)[row.name] and mains:
            return f"init container {row.name} starts while {mains} run"
        return ""

    def ended_well(self, uid: Uid, name: str) -> bool:
        """Tell whether a plain init container of the pod really did its work once."""
        return (uid, name) in self._ended_well

    def note(self, row: HistoryRow) -> None:
        """Note what happened."""
        order = dict(self._order.get(row.uid, ()))
        if row.name.startswith(DEBUG):
            return
        match row.what:
            case Happening.STARTED if row.name not in order:
                self._mains.setdefault(row.sandbox_id, set()).add(row.container_id)
            case Happening.STARTED if order[row.name]:
                self._done.setdefault(row.sandbox_id, set()).add(row.name)
            case Happening.EXITED if row.name not in order:
                self._mains.get(row.sandbox_id, set()).discard(row.container_id)
            case Happening.EXITED if not order[row.name] and row.exit_code == 0:
                self._done.setdefault(row.sandbox_id, set()).add(row.name)
                self._ended_well.add((row.uid, row.name))
            case _:
                pass


def init_complaint(state: PodState, truth: RuntimePod | None) -> tuple[str, bool]:
    """Return what is not as it must be of a wanted pod's init containers, and whether its regular ones are to run."""
    assert state.desired is not None
    spec = state.desired.spec
    if not spec.init_containers:
        return "", True
    if truth is None or not truth.sandboxes:
        return "it has no sandbox", False
    here = [one for one in truth.containers if one.sandbox_id == truth.sandboxes[0].id]
    regular = {one.name for one in spec.containers}
    begun = any(one.name in regular for one in here)
    live = (RuntimeContainerState.CREATED, RuntimeContainerState.RUNNING)
    serves = any(one.name in regular and one.state in live for one in here)
    last = spec.init_containers[-1]
    made = [index for index, one in enumerate(spec.init_containers) if any(c.name == one.name for c in here)]
    statuses = {status.name: status for status in state.base.init_container_statuses}
    for index, container in enumerate(spec.init_containers):
        newest = next((one for one in here if one.name == container.name), None)
        # Whatever became of its record: that a later one was made proves that this one was done.
        passed = begun or index < max(made, default=0)
        if container is last and is_sidecar(spec, last):
            # Regular ones that all ended wait for it again.
            passed = serves
        said, goes_on = resting_place(
            spec, container.name, newest, statuses.get(container.name), passed=passed
        )
        if said or not goes_on:
            return f"init container {container.name}: {said}" if said else "", False
    return "", True


def resting_place(
    spec: PodSpec, name: str, newest: RuntimeContainer | None, status: ContainerStatus | None, *, passed: bool
) -> tuple[str, bool]:
    """Return what is not as it must be of one init container, and whether what comes after it is to run."""
    sidecar = any(one.name == name and one.restart_policy == "Always" for one in spec.init_containers)
    if status is None:
        return "it has no status", False
    if passed and not sidecar:
        return "" if status.ready else "its turn is over and it is not ready", True
    if newest is None:
        return "it never ran", False
    if newest.state is RuntimeContainerState.RUNNING:
        return "" if status.state.running else "it runs and is not called running", sidecar
    if newest.state is not RuntimeContainerState.EXITED:
        return f"it is {newest.state}", False
    if newest.exit_code == 0 and not sidecar:
        return "" if status.ready else "it ended well and is not ready", True
    waiting = status.state.waiting
    fine = waiting is not None and waiting.reason == "CrashLoopBackOff"
    return "" if fine else "it ended and waits for nothing", passed
