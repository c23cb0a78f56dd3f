"""Rules on what a PodActor committed, for `tests.harness.check.check`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.agent.assembly import sources_of
from actors.pod.spec.identity import own_grace_s
from actors.pod.state import (
    Finished,
    Gone,
    PodState,
    Recalling,
    Syncing,
    Terminated,
    Terminating,
)
from actors.rules.container.instance import running
from actors.rules.container.role import in_order, sidecars
from actors.rules.resources.request import SOURCE
from api.kube.objects.pod import PodSpec
from api.kube.objects.podstatus import ContainerStatus, PodStatus
from api.messages.pod import KillCause, ProbeResult
from api.messages.probes import ProbeKind
from api.ports.ledger import Remember
from api.ports.runtime import ANNOTATION_POD_GRACE, RuntimeContainer, RuntimeContainerState, StopContainer
from tests.harness.check import statuscheck
from tests.harness.check.hookcheck import HOOK_RULES
from tests.harness.world.probescript import word_of

if TYPE_CHECKING:
    from tests.harness.check.check import Book, Checker

RANK = {Recalling: 0, Syncing: 1, Terminating: 2, Terminated: 3, Finished: 4, Gone: 5}
TERMINAL = ("Succeeded", "Failed")
UNKNOWN_GRACE_S = 30
"""A kubelet's default, for what nobody knows anything of."""
WANTED_S = 150.0
"""So long a pod must have been wanted without a break before nobody may take it for unwanted."""


def all_statuses(status: PodStatus) -> tuple[ContainerStatus, ...]:
    """Return the statuses of all containers of a pod."""
    return (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)


def one_stage_at_a_time(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """Never two stages on one pod: a call begins only when the last stage has wholly ended, or stops beside stops."""
    old = {flight.op for flight in before.calls.inflight} if before is not None else set()
    now = {flight.op for flight in after.calls.inflight}
    stopping = all(isinstance(flight.what.call, StopContainer | Remember) for flight in after.calls.inflight)
    if now - old and now & old and not stopping:
        return f"calls {sorted(now - old)} began while {sorted(now & old)} were in flight"
    if now - old and after.calls.inherited:
        return f"calls {sorted(now - old)} began beside {after.calls.inherited} of an earlier incarnation"
    return ""


def life_is_one_way(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A life goes one way: terminated is absorbing."""
    if before is not None and RANK[type(after.life)] < RANK[type(before.life)]:
        return f"{type(before.life).__name__} -> {type(after.life).__name__}"
    if book.over and isinstance(after.life, Syncing):
        return "it was terminated, durably, and synchronises again"
    return ""


def grace_only_shrinks(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A kill keeps its first cause, and its grace only shrinks."""
    kill = after.killed
    earlier = before.killed if before is not None else None
    if kill is None or earlier is None:
        return ""
    # What comes before the ledger answers is no promise yet: what an earlier life promised is.
    recalled = isinstance(before.life, Recalling) and not isinstance(after.life, Recalling)
    promised_s: int | None = earlier.grace_s
    if recalled:
        promised_s = None if earlier.own and book.promised_s is None else book.promised_s or earlier.grace_s
    if promised_s is not None and kill.grace_s > promised_s:
        return f"grace grew from {promised_s} to {kill.grace_s} s"
    if kill.cause is not earlier.cause and not isinstance(before.life, Recalling):
        return f"cause changed from {earlier.cause} to {kill.cause}"
    return ""


def grace_is_the_pods_own(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A kill gives the pod's own grace, unless it is an orphan that no source describes, is evicted, or a user gave another."""
    kill = after.killed
    if (
        kill is None
        or kill.cause in (KillCause.EVICTED, KillCause.DELETED)
        or after.desired is None
        or isinstance(after.life, Recalling)
    ):
        return ""
    if before is None or not isinstance(before.life, Syncing):
        return ""
    own = max(1, own_grace_s(after.desired))
    return f"{kill.grace_s} s instead of {own} s" if kill.grace_s < own else ""


def grace_outlives_the_agent(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """What no source describes any more gets the grace that it was made with, unless it was promised less before."""
    kill = after.killed
    begins = before is not None and isinstance(before.life, Recalling)
    if kill is None or not begins or isinstance(after.life, Recalling | Finished | Gone):
        return ""
    if after.desired is not None or kill.evict:
        return ""
    made = [dict(c.annotations).get(ANNOTATION_POD_GRACE) for c in running(after.observed)]
    if not made:
        return ""
    least_s = max((1, *(int(text) for text in made if text is not None))) if any(made) else UNKNOWN_GRACE_S
    if book.promised_s is not None:
        least_s = min(least_s, book.promised_s)
    checker.coverage.note("grace", "of what no source describes")
    return f"{kill.grace_s} s instead of {least_s} s" if kill.grace_s < least_s else ""


def absence_is_proven(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """Nothing is stopped for absence before its source was seen, or every source, nor while a source wants it."""
    if not isinstance(after.life, Terminating) or (before is not None and before.killed is not None):
        return ""
    kill = after.life.kill
    if kill.cause not in (KillCause.REMOVED, KillCause.ORPHAN, KillCause.REPLACED) or book.killed:
        return ""
    expected = set(sources_of(checker.world.settings))
    source = source_of(after)
    if kill.cause is KillCause.REMOVED and not source:
        # Its actor never got its spec. Where it came from is known all the same.
        expected = {"api"} if checker.is_of_api(after.uid) else expected - {"api"}
    missing = sorted(({source} if source in expected else expected) - checker.seen_sources)
    if missing and kill.cause is not KillCause.REPLACED:
        return f"killed ({kill.cause}) before {missing} was seen"
    since = checker.wanted_since.get(after.uid)
    if since is not None and checker.world.time.now() - since > WANTED_S:
        return f"killed ({kill.cause}) though wanted since {since:.0f} s"
    return ""


def source_of(state: PodState) -> str:
    """Return the source that a pod came from, as its specification or its newest sandbox says; empty for none."""
    if state.desired is not None:
        return state.desired.metadata.annotations.get(SOURCE, "")
    sandboxes = state.observed.sandboxes if state.observed is not None else ()
    return dict(sandboxes[0].annotations).get(SOURCE, "") if sandboxes else ""


def kill_has_a_cause(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """Whatever stops a pod for good says why, and stops are asked for only by who may."""
    if isinstance(after.life, Terminating):
        kill = after.life.kill
        own = kill.cause in (KillCause.COMPLETED, KillCause.DEADLINE)
        if own == bool(kill.asked_by):
            return f"cause {kill.cause} asked for by {kill.asked_by or 'itself'}"
        if (
            kill.cause is KillCause.COMPLETED
            and before is not None
            and not isinstance(before.life, Terminating)
        ):
            truth = checker.world.runtime._world.pod(after.uid)
            spec = after.desired.spec if after.desired is not None else PodSpec()
            beside = {c.name for c in (*sidecars(spec), *spec.ephemeral_containers)}
            alive = [
                c.name
                for c in truth.containers
                if c.state is RuntimeContainerState.RUNNING and c.name not in beside
            ]
            return f"completed while {alive} run" if alive else ""
    return ""


def restart_count_never_decreases(
    checker: Checker, book: Book, before: PodState | None, after: PodState
) -> str:
    """A restart count never decreases within one life of a UID."""
    if isinstance(after.life, Recalling):
        return ""
    for status in all_statuses(after.base):
        floor = book.restarts.get(status.name, 0)
        if status.restart_count < floor:
            return f"container {status.name}: {floor} -> {status.restart_count}"
    return ""


def terminal_phase_never_leaves(
    checker: Checker, book: Book, before: PodState | None, after: PodState
) -> str:
    """A terminal phase is final."""
    if isinstance(after.life, Recalling) or not book.phase or after.base.phase == book.phase:
        return ""
    return f"{book.phase} -> {after.base.phase}"


def exit_codes_are_true(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A published exit code is the one that the container really ended with."""
    if before is not None and before.base is after.base:
        return ""
    for status in all_statuses(after.base):
        for ended in (status.state.terminated, status.last_state.terminated):
            if ended is None or not ended.container_id:
                continue
            if ended.reason == "ContainerStatusUnknown":
                # Says that nobody saw it end; that nobody could have is checked where the life ends.
                continue
            truth = checker.exits.get(ended.container_id)
            if truth is None:
                return f"container {status.name} ({ended.container_id}) is called ended and never did"
            if truth != ended.exit_code:
                return f"container {status.name}: {ended.exit_code} published, {truth} is true"
    return ""


def running_is_true(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """No container is called running or ready that the runtime never ran."""
    if before is not None and before.base is after.base:
        return ""
    for status in all_statuses(after.base):
        ended = status.state.terminated
        prepared = status in after.base.init_container_statuses and ended is not None and ended.exit_code == 0
        # Removed behind the agent's back, and its page damaged: then what came after it says that it ended well.
        inferred = prepared and not status.container_id and checker.inits.ended_well(after.uid, status.name)
        if (status.state.running or status.ready) and status.container_id not in checker.ran and not inferred:
            return f"container {status.name} ({status.container_id or 'no id'})"
        if status.ready and not status.state.running and not prepared:
            return f"container {status.name} is ready and does not run"
    return ""


def ready_means_probed(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """No container is called ready or started against what its probes say, nor one that never can be."""
    if after.desired is None or (before is not None and before.base is after.base):
        return ""
    reports = (report for one in after.instances.values() for report in one.probes)
    failures = {(r.container_id, r.kind) for r in reports if r.result is ProbeResult.FAILURE}
    asked = {container.name: container for container in after.desired.spec.containers}
    for status in after.base.container_statuses:
        if not status.ready or status.name not in asked:
            continue
        if {(status.container_id, kind) for kind in (ProbeKind.READINESS, ProbeKind.STARTUP)} & failures:
            return f"container {status.name} is called ready and its last probe failed"
        if word_of(asked[status.name].readiness_probe) == "ill":
            return f"container {status.name} is called ready and its readiness probe always fails"
        if not status.started:
            return f"container {status.name} is called ready and not started"
    return ""


def end_is_whole(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """Terminated means: nothing runs, and the exit code of each newest container is in the status."""
    if not isinstance(after.life, Terminated) or (before is not None and isinstance(before.life, Terminated)):
        return ""
    truth = checker.world.runtime._world.pod(after.uid)
    alive = [
        c.name
        for c in truth.containers
        if c.state in (RuntimeContainerState.RUNNING, RuntimeContainerState.UNKNOWN)
    ]
    if alive:
        return f"containers {alive} still run"
    if after.desired is None:
        return ""
    for container in in_order(after.desired.spec):
        newest = next((c for c in truth.containers if c.name == container.name), None)
        status = next((s for s in all_statuses(after.base) if s.name == container.name), None)
        if newest is not None and newest.state is RuntimeContainerState.EXITED:
            said = lost_code(newest, status)
            if said and not checker.knows_later(newest, status):
                return said
    return ""


def lost_code(newest: RuntimeContainer, status: ContainerStatus | None) -> str:
    """Return what is missing of a container's end in its status, empty when nothing is."""
    ended = status.state.terminated if status is not None else None
    if ended is None:
        return f"container {newest.name} ended with {newest.exit_code} and no end is published"
    if ended.container_id != newest.id or ended.exit_code != newest.exit_code:
        return f"container {newest.name} ended with {newest.exit_code}; published is {ended.exit_code}"
    return ""


def stops_wait_for_intent(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A stop of a killed pod begins only after the kill was written, or its writing failed."""
    if not isinstance(after.life, Terminating):
        return ""
    old = {flight.op for flight in before.calls.inflight} if before is not None else set()
    stops = any(isinstance(f.what.call, StopContainer) and f.op not in old for f in after.calls.inflight)
    if stops and (after.remembered is None or after.remembered.kill is None):
        return "containers are stopped before the kill was remembered"
    return ""


POD_RULES: tuple[Callable[[Checker, Book, PodState | None, PodState], str], ...] = (
    one_stage_at_a_time,
    life_is_one_way,
    grace_only_shrinks,
    grace_is_the_pods_own,
    grace_outlives_the_agent,
    absence_is_proven,
    kill_has_a_cause,
    restart_count_never_decreases,
    terminal_phase_never_leaves,
    exit_codes_are_true,
    running_is_true,
    ready_means_probed,
    end_is_whole,
    stops_wait_for_intent,
    *statuscheck.STATUS_RULES,
    *HOOK_RULES,
)
