"""The rules that hold after every step, whatever breaks: each is a function whose docstring is the sentence it checks.

`Checker` sees three things: each delivery (through the seam), the state that the receiver committed, and each row of
the runtime's history. It keeps its own books from them and compares; it never asks the agent what is right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from actors.eviction.state import SELF as EVICTION
from actors.eviction.state import EvictionState
from actors.images.drop import LEASE_S
from actors.images.state import SELF as PULLER
from actors.images.state import Fetching, ImagesState
from actors.oom.state import SELF as OOM
from actors.oom.state import OomState
from actors.pod.containerconfig import own_grace_s
from actors.pod.core import RECALL_TRIES
from actors.pod.hook import instance_of
from actors.pod.mark import HookKind
from actors.pod.state import (
    Finished,
    Gone,
    Kill,
    PodMemo,
    PodState,
    Recalling,
    Syncing,
    Terminated,
    Terminating,
)
from actors.rules.role import in_order, sidecars
from actors.usage.state import SELF as USAGE
from actors.usage.state import UsageState
from api.containers import Container, ContainerState, StopContainer
from api.host import Remember
from api.ids import Path, Uid
from api.messages import Message
from api.messages.kernel import Alarm, Outcome
from api.messages.pod import KillCause, ProbeResult
from api.messages.podconfig import PodsSeen
from api.messages.probes import ProbeKind
from api.objects.podstatus import ContainerStatus, PodStatus
from runtime.drivers.memory.history import Cause, Happening, HistoryRow, Referee
from runtime.kernel.sim import SimSystem
from tests.harness import statuscheck
from tests.harness.admission import SUPERVISOR, Admissions
from tests.harness.coverage import Coverage
from tests.harness.evictionbook import EvictionBook
from tests.harness.hookcheck import HOOK_RULES
from tests.harness.initial import InitBook
from tests.harness.kernelrule import KernelBooks, oom_broken
from tests.harness.probescript import word_of
from tests.harness.usagerule import broken as broken_usage
from tests.harness.world import World

RANK = {Recalling: 0, Syncing: 1, Terminating: 2, Terminated: 3, Finished: 4, Gone: 5}
TERMINAL = ("Succeeded", "Failed")
PODS = "/node/pods/"
WANTED_S = 150.0
"""So long a pod must have been wanted without a break before nobody may take it for unwanted."""
OUR_KILL = 137
HOT_STARTS = 9
RINGS_AT_ONCE = 20
"""So often an actor may be woken at one instant: whoever is told something anew sets its alarm anew."""
HOT_WINDOW_S = 60.0
"""Waits of 0, 10, 20, 40 s allow four starts within this; kills of the agent and lost records a few more."""


class BrokenRuleError(Exception):
    """A rule does not hold."""

    def __init__(self, rule: str, at: float, what: str, actors: tuple[Path, ...]) -> None:
        super().__init__(f"{rule}: at {at:.3f} s: {what}")
        self.rule, self.at, self.what, self.actors = rule, at, what, actors


@dataclass
class Book:
    """What the checker itself knows of one UID."""

    restarts: dict[str, int] = field(default_factory=dict)
    """By container: restart count last shown."""
    phase: str = ""
    """The terminal phase once shown."""
    over: bool = False
    """It was terminated for good; nothing of it may run until the agent forgot it."""
    killed: bool = False
    """A kill of it was durable when this life of the agent began."""
    asked_at: dict[str, float] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    """Containers whose end was in a status."""
    desired: bool = False
    """Its actor knew its spec: only then can there be a status."""
    kill: Kill | None = None
    kill_since: float = float("inf")
    own_grace_s: int = 30
    conditions: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By type: time and status last shown."""
    start_time: str = ""
    restarting: bool = False
    """All its containers are being restarted, which gives them no grace."""
    hooked: set[str] = field(default_factory=set)
    """Ids of the containers whose preStop hook ran in this life of their actor."""


class Checker:
    """Keeps the books and applies the rules."""

    def __init__(self, coverage: Coverage) -> None:
        self.world: World
        self.coverage = coverage
        self.books: dict[Uid, Book] = {}
        self.states: dict[Path, tuple[tuple[int, int], PodState]] = {}
        self.exits: dict[str, int] = {}
        """By container id: how it really ended."""
        self.ran: set[str] = set()
        self.terms: dict[str, float] = {}
        self.leaving: dict[str, float] = {}
        """By container id: when its stop began, of which its preStop hook is a part."""
        self.seen_sources: set[str] = set()
        self.wanted_since: dict[Uid, float] = {}
        self.wall_jumps: list[float] = []
        self._referee = Referee()
        self._rows = 0
        self._rings: dict[Path, tuple[float, int]] = {}
        """By actor: when it was woken last, and how often at that instant."""
        self._updates = 0
        self._touched: Path | None = None
        self._wall_offset: int | None = None
        self.steps = 0
        self.live: dict[str, set[tuple[Uid, str]]] = {}
        """By full name of a pod: its running containers, with the UID that they belong to."""
        self.names: dict[Uid, str] = {}
        self.starts: dict[tuple[Uid, str], deque[float]] = {}
        self.admissions = Admissions()
        self.inits = InitBook()
        self.evictions: EvictionBook | None = None
        self.kernel_books = KernelBooks()

    def book(self, uid: Uid) -> Book:
        """Return the book of a UID."""
        found = self.books.get(uid)
        if found is None:
            found = self.books[uid] = Book()
        return found

    def knows_later(self, newest: Container, status: ContainerStatus | None) -> bool:
        """Tell whether a status shows the true end of a later instance, whose record the world removed."""
        ended = status.state.terminated if status is not None else None
        return (
            status is not None
            and ended is not None
            and status.restart_count > newest.attempt
            and self.exits.get(ended.container_id) == ended.exit_code
        )

    # ------------------------------------------------------------ what is seen

    def see(self, path: Path, message: Message) -> None:
        """Note who is about to handle what."""
        self._touched = path
        if isinstance(message, Alarm):
            self._take_alarm(path)
        self.admissions.see(path, message)
        if self.evictions is not None:
            self.evictions.see(path, message)
        if isinstance(message, Outcome):
            self.coverage.note(
                "outcome", f"{message.call} {message.failure.kind if message.failure else 'ok'}"
            )
        elif isinstance(message, PodsSeen) and not message.restored:
            self.seen_sources.add(message.source)

    def _take_alarm(self, path: Path) -> None:
        """Count alarms of one actor that ring while no time passes."""
        now = self.world.time.now()
        at, count = self._rings.get(path, (now, 0))
        count = count + 1 if at == now else 1
        self._rings[path] = now, count
        if count > RINGS_AT_ONCE:
            self.fail("an alarm is for later", f"{path} was woken {count} times at {now:.3f} s", path)

    def on_step(self) -> None:
        """Apply every rule to what this step changed."""
        self.steps += 1
        history = self.world.runtime._world.history
        if len(history) > self._rows:
            rows, self._rows = history[self._rows :], len(history)
            for row in rows:
                self._take_row(row)
        self.admissions.take_page(self.world)
        doubles = self.world.runtime.doubles
        if doubles:
            self.fail("an image is fetched once for all who want it", doubles[0], PULLER)
        overlaps = self.world.runtime.overlaps
        if overlaps:
            self.fail("never two stages on one pod", overlaps[0])
        torn = self.world.volumes.torn
        if torn:
            self.fail("nothing is removed while a container uses it", torn[0])
        if self.world.runtime.updates > self._updates:
            self._updates = self.world.runtime.updates
            said = self.admissions.judge_shares(self.world, {uid for uid, b in self.books.items() if b.over})
            if said:
                self.fail("what runs was admitted and fits the node", said, SUPERVISOR)
        path, self._touched = self._touched, None
        system = self.world.system
        if path is None or system is None or system.halted:
            return
        cell = system._cells.get(path)
        if cell is None:
            return
        if not cell.inbox.accounts().balanced:
            self.fail("accounts of messages balance", f"{path}: {cell.inbox.accounts()}", path)
        if self.evictions is not None:
            broken = self.evictions.step(path, (cell.actor_id, cell.number), cell.committed)
            if broken is not None:
                self.fail(*broken, path)
        if path == USAGE and isinstance(cell.committed, UsageState):
            said = broken_usage(cell.committed, self.world.usage.memory_bytes)
            if said:
                self.fail("no reading that can not be is ever told", said, path)
        if path == EVICTION and isinstance(cell.committed, EvictionState):
            said = self.kernel_books.asked((cell.actor_id, cell.number), cell.committed)
            if said:
                self.fail("however many hints, one reading a second", said, path)
            if cell.committed.hints:
                self.coverage.note("kernel", "told of memory")
        if path == OOM and isinstance(cell.committed, OomState):
            said = oom_broken(cell.committed, self.world.kernel)
            if said:
                self.fail("nothing is counted that was not killed", said, path)
            if cell.committed.tolls:
                self.coverage.note("kernel", "counted a kill")
        if path.startswith(PODS) and isinstance(cell.committed, PodState):
            self._take_state(path, (cell.actor_id, cell.number), cell.committed)

    def fail(self, rule: str, what: str, *actors: Path) -> None:
        """Raise: this rule does not hold."""
        raise BrokenRuleError(rule, self.world.time.now(), what, actors)

    def _take_state(self, path: Path, number: tuple[int, int], after: PodState) -> None:
        known = self.states.get(path)
        before = known[1] if known is not None and known[0] == number else None
        if before is after:
            return
        self.states[path] = (number, after)
        book = self.book(after.uid)
        if known is not None and before is None:
            # A new incarnation knows what the ledger knows, as a new life of the agent does.
            self.recall(after.uid, known[1])
        if gave_up_the_ledger(before, after):
            self.forgotten(after.uid, "status")
            book = self.book(after.uid)
        if after.desired is not None:
            book.desired = True
            book.own_grace_s = own_grace_s(after.desired)
            self.inits.learn(after)
        if after.observed is not None:
            self._referee.agent_looked(after.uid, after.observed_as_of)
        self._cover(before, after)
        said = self.admissions.take_state(self.world, before, after)
        if said:
            self.fail("admission is decided once, and remembered before it is told", said, path)
        for rule in POD_RULES:
            said = rule(self, book, before, after)
            if said:
                self.fail(sentence(rule), f"pod {after.uid}: {said}", path)
        self._keep(book, before, after)

    def _cover(self, before: PodState | None, after: PodState) -> None:
        was = type(before.life) if before is not None else None
        now = type(after.life)
        if was is not now:
            self.coverage.note("life", f"{was.__name__ if was else 'start'} -> {now.__name__}")
            kill = after.killed
            if kill is not None and now is Terminating:
                self.coverage.note("cause", kill.cause.name)
        old = {flight.op for flight in before.inflight} if before is not None else set()
        fresh = sorted({type(f.what.call).__name__ for f in after.inflight if f.op not in old})
        if fresh:
            self.coverage.note("stage", "+".join(fresh))

    def _keep(self, book: Book, before: PodState | None, after: PodState) -> None:
        if isinstance(after.life, Recalling):
            return
        statuscheck.keep(book, after.base)
        for status in all_statuses(after.base):
            book.restarts[status.name] = status.restart_count
            for ended in (status.state.terminated, status.last_state.terminated):
                if ended is not None and ended.container_id:
                    book.reported.add(ended.container_id)
        if after.base.phase in TERMINAL:
            book.phase = after.base.phase
        if after.memo.restarting and not book.restarting:
            self.coverage.note("stage", "all containers restarted")
        book.restarting = after.memo.restarting
        for mark in after.memo.hooks:
            instance = instance_of(after, mark) if mark.kind is HookKind.PRE_STOP else None
            if instance is not None:
                self.leaving.setdefault(instance.id, self.world.time.now())
        kill = after.killed
        if kill is not None:
            if book.kill is None:
                book.kill_since = self.world.time.now()
            book.kill = kill
        if isinstance(after.life, Gone):
            self.books[after.uid] = Book(reported=book.reported)
        elif RANK[type(after.life)] >= RANK[Terminated]:
            book.over = True

    def _take_row(self, row: HistoryRow) -> None:
        where = Path(f"{PODS}{row.uid}")
        for said in self._referee.judge(row):
            self.fail(
                "the runtime's own rules: one sandbox, one container, nothing started twice", said, where
            )
        if row.uid.startswith("foreign"):
            agents = (Happening.TERM_SENT, Happening.EXITED, Happening.REMOVED, Happening.SANDBOX_REMOVED)
            if row.cause is Cause.AGENT and row.what in (*agents, Happening.SANDBOX_STOPPED):
                self.fail("what is not ours is not touched", f"{row.what} of {row.uid}")
            return
        self.coverage.note("world", f"{row.what} by {row.cause}")
        book = self.book(row.uid)
        if row.what is Happening.SANDBOX_STARTED:
            sandbox = self.world.runtime._world.sandboxes[row.sandbox_id]
            self.names[row.uid] = f"{sandbox.name}_{sandbox.namespace}"
        for rule in ROW_RULES:
            said = rule(self, book, row)
            if said:
                self.fail(sentence(rule), f"pod {row.uid}: {said}", where)
        over = {uid for uid, book in self.books.items() if book.over}
        said = self.admissions.take_row(self.world, row, over)
        if said:
            self.fail("what runs was admitted and fits the node", said, where, SUPERVISOR)
        self.inits.note(row)
        match row.what:
            case Happening.STARTED:
                self.ran.add(row.container_id)
                self.live.setdefault(self.names[row.uid], set()).add((row.uid, row.container_id))
            case Happening.EXITED:
                self.live.get(self.names[row.uid], set()).discard((row.uid, row.container_id))
                assert row.exit_code is not None
                self.exits[row.container_id] = row.exit_code
            case Happening.REMOVED:
                # The world takes away what runs, too.
                self.live.get(self.names[row.uid], set()).discard((row.uid, row.container_id))
            case Happening.TERM_SENT:
                self.terms.setdefault(row.container_id, row.at)
            case Happening.SANDBOX_STARTED:
                self.world.folders.add_logs(
                    self.world.runtime._world._sandbox_specs[row.sandbox_id].log_directory
                )

    # ------------------------------------------------------------ lives of the agent

    def forgotten(self, uid: Uid, section: str) -> None:
        """Note that the ledger lost a page of a pod; without its memo the same UID may begin anew."""
        old = self.book(uid)
        fresh = Book(reported=old.reported)
        if section == "status":
            # Its kill is in the memo, which is whole.
            fresh = replace(old, restarts={}, phase="", conditions={}, start_time="")
        else:
            self.admissions.forget(uid)
        self.books[uid] = fresh
        self._referee.forget(uid)

    def wall_jumped(self) -> None:
        """Note that the wall clock was set: graces that are counted by it are not judged for a while."""
        self.wall_jumps.append(self.world.time.now())

    def agent_started(self) -> None:
        """Take over what the ledger holds as the truth that this life of the agent begins with."""
        self._referee.agent_began(self.world.time.now())
        last = {state.uid: state for _, state in self.states.values()}
        self.states.clear()
        self.kernel_books = KernelBooks()
        self.seen_sources.clear()
        self._touched = None
        if self.evictions is not None:
            self.evictions.agent_started()
        for uid in list(self.books):
            self.recall(uid, last.get(uid))

    def recall(self, uid: Uid, before: PodState | None) -> None:
        """Set one book to what the ledger holds; `before` is what its actor last knew.

        A pod whose ledger page is missing, damaged, or was not taken when it was last to be written, which the agent
        said in each case, may have forgotten what it started: where all containers are restarted, nothing but the page
        and the status has their numbers once the records are removed. What the status still says of them counts.
        """
        ledger = self.world.ledger
        memo_data = ledger._now.get(("pods", uid))
        status_data = ledger._now.get(("status", uid))
        old = self.book(uid)
        if ("pods", uid) in ledger._damaged:
            memo_data = None
        memo = msgspec.msgpack.decode(memo_data, type=PodMemo) if memo_data else None
        book = Book(reported=old.reported, own_grace_s=old.own_grace_s, restarting=old.restarting)
        if memo is None or (before is not None and before.rewrite_at is not None):
            self._referee.forget(uid)
        if memo is not None:
            book.over, book.killed = memo.terminated, memo.kill is not None
            if memo.kill is not None:
                book.kill, book.kill_since = memo.kill, min(old.kill_since, self.world.time.now())
            if status_data and ("status", uid) not in ledger._damaged:
                status = msgspec.msgpack.decode(status_data, type=PodStatus)
                book.restarts = {s.name: s.restart_count for s in all_statuses(status)}
                book.phase = status.phase if status.phase in TERMINAL else ""
                statuscheck.keep(book, status)
        self.books[uid] = book

    def evicted_before(self) -> tuple[Uid, ...]:
        """Return the pods whose eviction was durable when this life of the agent began."""
        return tuple(
            uid
            for uid, book in self.books.items()
            if book.killed and book.kill is not None and book.kill.cause is KillCause.EVICTED
        )

    def check_leases(self, system: SimSystem) -> None:
        """At rest the puller knows what pods want, no more and no less, and keeps nothing beside that for long."""
        puller = system.committed(PULLER)
        assert isinstance(puller, ImagesState)
        wanted = {
            (state.uid, want.container, want.image)
            for _, state in system.committed_children(Path("/node/pods"))
            if isinstance(state, PodState)
            for want in state.wants or ()
        }
        held = {(entry.uid, entry.want.container, entry.want.image) for entry in puller.entries.values()}
        if held != wanted:
            self.fail(
                "leases are what pods want, no more and no less",
                f"{sorted(held)} instead of {sorted(wanted)}",
                PULLER,
            )
        late = [lease for lease in puller.leases if lease.until > self.world.time.now() + LEASE_S]
        if late:
            self.fail("what is wanted no more is kept for a moment only", f"{late[0]}", PULLER)
        waiting = {entry.step.pull for entry in puller.entries.values() if isinstance(entry.step, Fetching)}
        if not waiting <= puller.pulls.keys():
            self.fail("nothing waits for a pull that is not under way", f"{sorted(waiting)}", PULLER)

    def check_whole(self) -> None:
        """Apply the rules that look at everything, at rest or from time to time."""
        system = self.world.system
        assert system is not None
        figures = system.summarize_actors()
        total = figures.handled + figures.conflated + figures.dead_lettered + figures.pending
        if figures.accepted != total:
            self.fail("accounts of messages balance", f"{figures}")
        self.check_leases(system)
        for row in system.list_actors():
            for operation in row.operations:
                if operation.deadline_in_s < -0.001:
                    self.fail("no operation outlives its deadline", f"{row.path} {operation}", row.path)
            if row.path.startswith(f"{PODS}foreign"):
                self.fail("no actor for what is not ours", row.path)


def gave_up_the_ledger(before: PodState | None, after: PodState) -> bool:
    """Tell whether a pod goes on, and says so, without what the ledger may know of it."""
    was_recalling = before is not None and isinstance(before.life, Recalling)
    return was_recalling and not isinstance(after.life, Recalling) and after.recall_failures >= RECALL_TRIES


def all_statuses(status: PodStatus) -> tuple[ContainerStatus, ...]:
    """Return the statuses of a pod's init and regular containers."""
    return (*status.init_container_statuses, *status.container_statuses)


def sentence(rule: Callable[..., str]) -> str:
    """Return the sentence that a rule checks."""
    assert rule.__doc__ is not None
    return rule.__doc__.splitlines()[0].rstrip(".")


# ---------------------------------------------------------------- rules on what a PodActor committed


def one_stage_at_a_time(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """Never two stages on one pod: a call begins only when the last stage has wholly ended, or stops beside stops."""
    old = {flight.op for flight in before.inflight} if before is not None else set()
    now = {flight.op for flight in after.inflight}
    stopping = all(isinstance(flight.what.call, StopContainer | Remember) for flight in after.inflight)
    if now - old and now & old and not stopping:
        return f"calls {sorted(now - old)} began while {sorted(now & old)} were in flight"
    if now - old and after.inherited:
        return f"calls {sorted(now - old)} began beside {after.inherited} of an earlier incarnation"
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
    promised = book.kill if recalled and book.kill is not None else earlier
    if kill.grace_s > promised.grace_s:
        return f"grace grew from {promised.grace_s} to {kill.grace_s} s"
    if kill.cause is not earlier.cause and not isinstance(before.life, Recalling):
        return f"cause changed from {earlier.cause} to {kill.cause}"
    return ""


def grace_is_the_pods_own(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """A kill gives the pod's own grace, unless it is an orphan that no source describes, or is evicted."""
    kill = after.killed
    if (
        kill is None
        or kill.cause is KillCause.EVICTED
        or after.desired is None
        or isinstance(after.life, Recalling)
    ):
        return ""
    if before is None or not isinstance(before.life, Syncing):
        return ""
    own = max(1, own_grace_s(after.desired))
    return f"{kill.grace_s} s instead of {own} s" if kill.grace_s < own else ""


def absence_is_proven(checker: Checker, book: Book, before: PodState | None, after: PodState) -> str:
    """Nothing is stopped for absence before every source was seen, nor while a source wants it."""
    if not isinstance(after.life, Terminating) or (before is not None and before.killed is not None):
        return ""
    kill = after.life.kill
    if kill.cause not in (KillCause.REMOVED, KillCause.ORPHAN, KillCause.REPLACED) or book.killed:
        return ""
    expected = {"file", "http"} if checker.world.settings.manifest_url else {"file"}
    missing = sorted(expected - checker.seen_sources)
    if missing and kill.cause is not KillCause.REPLACED:
        return f"killed ({kill.cause}) before {missing} was seen"
    since = checker.wanted_since.get(after.uid)
    if since is not None and checker.world.time.now() - since > WANTED_S:
        return f"killed ({kill.cause}) though wanted since {since:.0f} s"
    return ""


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
            beside = {c.name for c in sidecars(after.desired.spec)} if after.desired is not None else set()
            alive = [
                c.name for c in truth.containers if c.state is ContainerState.RUNNING and c.name not in beside
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
    failures = {(r.container_id, r.kind) for r in after.probes if r.result is ProbeResult.FAILURE}
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
    alive = [c.name for c in truth.containers if c.state in (ContainerState.RUNNING, ContainerState.UNKNOWN)]
    if alive:
        return f"containers {alive} still run"
    if after.desired is None:
        return ""
    for container in in_order(after.desired.spec):
        newest = next((c for c in truth.containers if c.name == container.name), None)
        status = next((s for s in all_statuses(after.base) if s.name == container.name), None)
        if newest is not None and newest.state is ContainerState.EXITED:
            said = lost_code(newest, status)
            if said and not checker.knows_later(newest, status):
                return said
    return ""


def lost_code(newest: Container, status: ContainerStatus | None) -> str:
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
    old = {flight.op for flight in before.inflight} if before is not None else set()
    stops = any(isinstance(f.what.call, StopContainer) and f.op not in old for f in after.inflight)
    if stops and (after.remembered is None or after.remembered.kill is None):
        return "containers are stopped before the kill was remembered"
    return ""


POD_RULES: tuple[Callable[[Checker, Book, PodState | None, PodState], str], ...] = (
    one_stage_at_a_time,
    life_is_one_way,
    grace_only_shrinks,
    grace_is_the_pods_own,
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


# ---------------------------------------------------------------- rules on what happened in the runtime


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
