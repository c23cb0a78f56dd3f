"""Rules on what a PodActor publishes: times go forward, what has ended stays ended, ready means running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from actors.pod.state import PodState, Recalling
from actors.pod.status.history import UNSEEN
from actors.rules.container.ownership import say_the_same
from actors.status.state import StatusState
from api.kube.objects.podstatus import PodStatus

if TYPE_CHECKING:
    from tests.harness.check.check import Book, Checker
    from tests.harness.world.world import World

TERMINAL = ("Succeeded", "Failed")


def transitions_go_forward(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A condition's time changes with its status and never goes back."""
    if isinstance(after.life, Recalling):
        return ""
    for condition in after.base.conditions:
        at, status = book.conditions.get(condition.type, ("", ""))
        now = condition.last_transition_time or ""
        if now < at:
            return f"{condition.type} went from {at} back to {now}"
        if status == condition.status and now != at:
            return f"{condition.type} stayed {status} and went from {at} to {now}"
    return ""


def start_time_is_immutable(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A pod's start time never changes."""
    if isinstance(after.life, Recalling) or not book.start_time or after.base.start_time == book.start_time:
        return ""
    return f"{book.start_time} -> {after.base.start_time}"


def readiness_is_true(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """Ready means that every container is and the pod is not over."""
    if before is not None and before.base is after.base:
        return ""
    ready = {c.type: c.status for c in after.base.conditions}
    unready = [s.name for s in after.base.container_statuses if not s.ready]
    for kind in ("Ready", "ContainersReady"):
        if ready.get(kind) == "True" and (unready or after.base.phase in TERMINAL):
            return f"{kind} in phase {after.base.phase}, though {unready or 'nothing'} is not ready"
    return ""


def what_never_restarts_stays_ended(
    checker: Checker, book: Book, before: PodState | None, after: PodState
) -> str:
    """A container of a pod that restarts nothing stays terminated once it is."""
    pod = after.desired
    if before is None or pod is None or pod.spec.restart_policy != "Never":
        return ""
    if any(
        one.restart_policy or one.restart_policy_rules
        for one in (*pod.spec.init_containers, *pod.spec.containers)
    ):
        # These have a say of their own.
        return ""
    if isinstance(before.life, Recalling):
        # What was recalled may turn out to be an earlier life's of the same UID.
        return ""
    # One that nobody saw end is run again, as a kubelet does.
    ended = {
        s.name
        for s in before.base.container_statuses
        if s.state.terminated and s.state.terminated.reason != UNSEEN
    }
    alive = [s.name for s in after.base.container_statuses if s.name in ended and not s.state.terminated]
    return f"containers {alive} were terminated" if alive else ""


def holds(data: bytes | None, status: PodStatus) -> bool:
    """Tell whether an entry of the ledger says of a pod what `status` says."""
    return data is not None and say_the_same(msgspec.msgpack.decode(data, type=PodStatus), status)


def unwritten_status(world: World, before: StatusState | None, after: StatusState) -> str:
    """Return which status counts as written and is not in the ledger, of those that changed; empty for none."""
    known = before.pods if before is not None else {}
    for uid, entry in after.pods.items():
        if known.get(uid) is entry or entry.newest.forgotten or uid in world.damaged:
            continue
        # The ledger is the one sink of the world.
        [progress] = entry.progress
        if progress.is_dirty or progress.write is not None:
            continue
        if not holds(world.ledger.read("status").get(uid), entry.newest.status):
            return f"version {entry.newest.number} of pod {uid} counts as written and the ledger does not hold it"
    return ""


STATUS_RULES = (
    transitions_go_forward,
    start_time_is_immutable,
    readiness_is_true,
    what_never_restarts_stays_ended,
)


def keep(book: Book, status: PodStatus) -> None:
    """Note in a book what a status says that must not change."""
    book.conditions = {c.type: (c.last_transition_time or "", c.status) for c in status.conditions}
    book.start_time = status.start_time or ""
