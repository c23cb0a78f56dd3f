"""Rules on what happened in the runtime, for `tests.harness.check.check`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.drivers.memory.history import Cause, Happening, HistoryRow

if TYPE_CHECKING:
    from tests.harness.check.check import Book, Checker

OUR_KILL = 137
HOT_STARTS = 9
HOT_WINDOW_S = 60.0
"""Waits of 0, 10, 20, 40 s allow four starts within this; kills of the agent and lost records a few more."""


def the_dead_stay_dead(checker: Checker, book: Book, row: HistoryRow) -> str:
    """Nothing of a pod starts after it was terminated, nor after a life of the agent that began with its kill."""
    if row.what in (Happening.STARTED, Happening.SANDBOX_STARTED) and (book.over or book.killed):
        why = "was terminated" if book.over else "was being killed when the agent started"
        return f"{row.what} {row.name} though it {why}"
    return ""


def kill_comes_after_term_and_grace(checker: Checker, book: Book, row: HistoryRow) -> str:
    """Before the agent kills a container it sends SIGTERM and waits its grace."""
    if row.what is not Happening.EXITED or row.cause is not Cause.AGENT or row.exit_code != OUR_KILL:
        return ""
    asked_at = checker.terms.get(row.container_id)
    if asked_at is None:
        return f"container {row.name} was killed without SIGTERM"
    if book.restarting and row.at - asked_at >= 2.0 - 0.01:
        return ""
    if any(asked_at - book.own_grace_s - 600 <= at <= row.at for at in checker.wall_jumps):
        return ""
    grace_s = book.own_grace_s
    least_s = max(1.0, float(grace_s))
    if book.kill is not None:
        # The grace counts from the kill, however often the agent is restarted meanwhile.
        until = book.kill_since + min(book.kill.grace_s, least_s)
        least_s = min(least_s, max(0.9, until - asked_at - 1.5))
    # The time of a hook is a part of the grace; it is counted in whole seconds.
    waited_s = row.at - min(asked_at, checker.leaving.get(row.container_id, asked_at))
    if waited_s < least_s - 0.01:
        return (
            f"container {row.name} was killed {waited_s:.1f} s after SIGTERM; its grace was {least_s:.1f} s"
        )
    return ""


def ends_are_reported_before_removal(checker: Checker, book: Book, row: HistoryRow) -> str:
    """An exit code is in the pod's status before its container may be removed."""
    if row.what is not Happening.REMOVED or row.cause is not Cause.AGENT or not book.desired:
        return ""
    if row.container_id in checker.exits and row.container_id not in book.reported:
        return f"container {row.name} ({row.container_id}) was removed, its end was never published"
    return ""


def one_static_pod_of_a_name(checker: Checker, book: Book, row: HistoryRow) -> str:
    """One static pod of a name runs at a time: the next version waits until nothing of the last one runs."""
    if row.what is not Happening.STARTED:
        return ""
    if checker.is_of_api(row.uid):
        # What was deleted without grace makes room for its name at once, wherever it still ends.
        return ""
    name = checker.names[row.uid]
    others = sorted({uid for uid, _ in checker.live.get(name, ()) if uid != row.uid})
    return f"{name} starts while {others} of the same name run" if others else ""


def a_sandbox_is_made_in_its_cgroup(checker: Checker, book: Book, row: HistoryRow) -> str:
    """A sandbox is made when its pod's cgroup is there."""
    if row.what is not Happening.SANDBOX_STARTED:
        return ""
    parent = checker.world.runtime._world._sandbox_specs[row.sandbox_id].cgroup_parent
    return "" if parent in checker.world.cgroups.groups else f"its cgroup {parent or '(none)'} is not there"


def restarts_back_off(checker: Checker, book: Book, row: HistoryRow) -> str:
    """A container that keeps ending is not started in a hot loop."""
    if row.what is not Happening.STARTED:
        return ""
    starts = checker.starts.setdefault((row.uid, row.name), deque(maxlen=HOT_STARTS))
    starts.append(row.at)
    if len(starts) == HOT_STARTS and row.at - starts[0] < HOT_WINDOW_S:
        return f"container {row.name} was started {HOT_STARTS} times within {row.at - starts[0]:.0f} s"
    return ""


def init_containers_come_first(checker: Checker, book: Book, row: HistoryRow) -> str:
    """Nothing starts before the init containers before it are done in its sandbox, and none is run under what it prepared."""
    return checker.inits.judge(row)


def volumes_come_first(checker: Checker, book: Book, row: HistoryRow) -> str:
    """No container runs before its volumes, and the parts of them that it mounts, are there."""
    if row.what is not Happening.STARTED:
        return ""
    spec = checker.world.runtime._world._container_specs[row.container_id]
    folder = f"/pods/{row.uid}/volume"
    there = checker.world.volumes.paths_of(row.uid)
    missing = [m.host_path for m in spec.mounts if folder in m.host_path and m.host_path not in there]
    return f"container {row.name} starts without {missing}" if missing else ""


ROW_RULES: tuple[Callable[[Checker, Book, HistoryRow], str], ...] = (
    the_dead_stay_dead,
    kill_comes_after_term_and_grace,
    ends_are_reported_before_removal,
    one_static_pod_of_a_name,
    a_sandbox_is_made_in_its_cgroup,
    restarts_back_off,
    init_containers_come_first,
    volumes_come_first,
)
