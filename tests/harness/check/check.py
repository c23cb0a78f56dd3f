"""The rules that hold after every step, whatever breaks: each is a function whose docstring is the sentence it checks.

`Checker` sees three things: each delivery (through the seam), the state that the receiver committed, and each row of
the runtime's history. It keeps its own books from them and compares; it never asks the agent what is right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from actors.eviction.state import EvictionState
from actors.images.state import Fetching, ImagesState
from actors.oom.state import OomState
from actors.pod.container.hook import instance_of
from actors.pod.core import LEDGER_UNREAD
from actors.pod.hookrecord import HookKind
from actors.pod.spec.identity import own_grace_s
from actors.pod.state import (
    Gone,
    Kill,
    PodMemo,
    PodState,
    Recalling,
    Terminated,
    Terminating,
)
from actors.status.state import StatusState
from actors.usage.state import UsageState
from api import paths
from api.ids import Path, Uid
from api.kube.objects.podstatus import ContainerStatus, PodStatus
from api.messages import Message
from api.messages.kernel import Alarm, Outcome
from api.messages.pod import KillCause
from api.messages.podconfig import PodsSeen
from api.ports.runtime import RuntimeContainer
from runtime.drivers.memory.history import Cause, Happening, HistoryRow, Referee
from runtime.kernel.sim import SimSystem
from tests.harness.check import statuscheck
from tests.harness.check.admission import SUPERVISOR, Admissions
from tests.harness.check.clusterbook import ClusterBook
from tests.harness.check.initial import InitBook
from tests.harness.check.podcheck import POD_RULES, RANK, TERMINAL, all_statuses
from tests.harness.check.rowcheck import ROW_RULES
from tests.harness.eviction.evictionbook import EvictionBook
from tests.harness.world.coverage import Coverage
from tests.harness.world.kernelrule import KernelBooks, oom_broken
from tests.harness.world.usagerule import broken as broken_usage
from tests.harness.world.world import World

PODS = "/node/pods/"
RINGS_AT_ONCE = 20
"""So often an actor may be woken at one instant: whoever is told something anew sets its alarm anew."""


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
    promised_s: int | None = None
    """The grace of a kill that was durable when this life of the agent began."""
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
        self._statuses: StatusState | None = None
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
        self.cluster: ClusterBook | None = None

    def book(self, uid: Uid) -> Book:
        """Return the book of a UID."""
        found = self.books.get(uid)
        if found is None:
            found = self.books[uid] = Book()
        return found

    def knows_later(self, newest: RuntimeContainer, status: ContainerStatus | None) -> bool:
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
        if self.cluster is not None:
            self.cluster.step()
        doubles = self.world.images.doubles
        if doubles:
            self.fail("an image is fetched once for all who want it", doubles[0], paths.IMAGES)
        overlaps = self.world.runtime.overlaps
        if overlaps:
            self.fail("never two stages on one pod", overlaps[0])
        hot = self.world.runtime.pace.hot
        if hot:
            self.fail("what changes nothing is not asked for in a hot loop", hot[0])
        torn = self.world.volumes.torn
        if torn:
            self.fail("nothing is removed while a container uses it", torn[0])
        if self.world.runtime.updates > self._updates:
            self._updates = self.world.runtime.updates
            said = self.admissions.judge_shares(self.world, {uid for uid, b in self.books.items() if b.over})
            if said:
                self.fail("what runs was admitted and fits the node", said, SUPERVISOR)
        deaths = self.world.seam.unplanned if self.world.seam is not None else []
        if deaths:
            where, cause = deaths[0]
            self.fail(
                "no actor ends or restarts by an exception that was not planned", f"{where}: {cause}", where
            )
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
        if path == paths.USAGE and isinstance(cell.committed, UsageState):
            said = broken_usage(cell.committed, self.world.usage.memory_bytes)
            if said:
                self.fail("no reading that cannot be is ever told", said, path)
        if path == paths.STATUS and isinstance(cell.committed, StatusState):
            said = statuscheck.unwritten_status(self.world, self._statuses, cell.committed)
            self._statuses = cell.committed
            if said:
                self.fail("a status counts as written once the ledger holds it", said, path)
        if path == paths.EVICTION and isinstance(cell.committed, EvictionState):
            said = self.kernel_books.asked((cell.actor_id, cell.number), cell.committed)
            if said:
                self.fail("however many hints, one reading a second", said, path)
            if cell.committed.kernel is not None and cell.committed.kernel.count:
                self.coverage.note("kernel", "told of memory")
        if path == paths.OOM and isinstance(cell.committed, OomState):
            said = oom_broken(cell.committed, self.world.kernel)
            if said:
                self.fail("nothing is counted that was not killed", said, path)
            if cell.committed.oom_counts:
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
            self._referee.owner_began(after.uid)
        if gave_up_the_ledger(before, after):
            memo_read = before is not None and before.remembered is not None
            self.forgotten(after.uid, "status" if memo_read else "pods")
            book = self.book(after.uid)
        if after.killed is not None:
            # Also of a pod that is still asking the ledger: its grace counts from when it was asked to end.
            book.kill_since = min(book.kill_since, self.world.time.now())
        if after.desired is not None:
            book.desired = True
            book.own_grace_s = own_grace_s(after.desired)
            self.inits.learn(after)
        if after.observed is not None:
            self._referee.agent_saw(after.uid, ((one.name, one.attempt) for one in after.observed.containers))
        self._cover(before, after)
        said = self.admissions.take_state(self.world, before, after)
        if said:
            self.fail("admission is decided once, and remembered before it is told", said, path)
        for rule in POD_RULES:
            said = rule(self, book, before, after)
            if said:
                self.fail(sentence(rule), f"pod {after.uid}: {said}", path)
        if self.cluster is not None:
            said = self.cluster.take_state(before, after)
            if said:
                self.fail(
                    "what nobody deleted at the API server is not ended for its absence",
                    f"pod {after.uid}: {said}",
                    path,
                )
        self._keep(book, before, after)

    def _cover(self, before: PodState | None, after: PodState) -> None:
        was = type(before.life) if before is not None else None
        now = type(after.life)
        if was is not now:
            self.coverage.note("life", f"{was.__name__ if was else 'start'} -> {now.__name__}")
            kill = after.killed
            if kill is not None and now is Terminating:
                self.coverage.note("cause", kill.cause.name)
        old = {flight.op for flight in before.calls.inflight} if before is not None else set()
        fresh = sorted({type(f.what.call).__name__ for f in after.calls.inflight if f.op not in old})
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
            # Each of them starts once for the end of another: that is not its own loop.
            for starts in (one for key, one in self.starts.items() if key[0] == after.uid and one):
                starts.popleft()
        book.restarting = after.memo.restarting
        for mark in after.memo.hooks:
            instance = instance_of(after, mark) if mark.kind is HookKind.PRE_STOP else None
            if instance is not None:
                self.leaving.setdefault(instance.id, self.world.time.now())
        kill = after.killed
        if kill is not None:
            book.kill = kill
        if isinstance(after.life, Gone):
            self.books[after.uid] = Book(reported=book.reported)
            # Who comes back under the same UID has not kept ending.
            self.starts = {key: starts for key, starts in self.starts.items() if key[0] != after.uid}
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
        if self.cluster is not None:
            said = self.cluster.take_row(row)
            if said:
                self.fail(
                    "an ended pod stays ended, and a wanted one is stopped for a reason",
                    f"pod {row.uid}: {said}",
                    where,
                )
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
            self.admissions.lost(uid)
        self.books[uid] = fresh
        self._referee.forget(uid)

    def wall_jumped(self) -> None:
        """Note that the wall clock was set: graces that are counted by it are not judged for a while."""
        self.wall_jumps.append(self.world.time.now())

    def agent_started(self) -> None:
        """Take over what the ledger holds as the truth that this life of the agent begins with."""
        self._referee.agent_began()
        last = {state.uid: state for _, state in self.states.values()}
        self.states.clear()
        self.kernel_books = KernelBooks()
        self.seen_sources.clear()
        self._touched = self._statuses = None
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
                book.promised_s = memo.kill.grace_s
            if status_data and ("status", uid) not in ledger._damaged:
                status = msgspec.msgpack.decode(status_data, type=PodStatus)
                if not memo.outdated or status.start_time != memo.outdated:
                    book.restarts = {s.name: s.restart_count for s in all_statuses(status)}
                    book.phase = status.phase if status.phase in TERMINAL else ""
                    statuscheck.keep(book, status)
        self.books[uid] = book

    def is_of_api(self, uid: Uid) -> bool:
        """Tell whether a pod is one that a user created at the API server."""
        return self.cluster is not None and uid in self.cluster.born_at

    def evicted_before(self) -> tuple[Uid, ...]:
        """Return the pods whose eviction was durable when this life of the agent began."""
        return tuple(
            uid
            for uid, book in self.books.items()
            if book.killed and book.kill is not None and book.kill.cause is KillCause.EVICTED
        )

    def check_leases(self, system: SimSystem) -> None:
        """At rest the puller knows what pods want, no more and no less, and keeps nothing beside that for long."""
        puller = system.committed(paths.IMAGES)
        assert isinstance(puller, ImagesState)
        wanted = {
            (state.uid, want.container, want.image)
            for _, state in system.committed_children(Path("/node/pods"))
            if isinstance(state, PodState)
            for want in state.sent.wants or ()
        }
        held = {(entry.uid, entry.want.container, entry.want.image) for entry in puller.entries.values()}
        if held != wanted:
            self.fail(
                "leases are what pods want, no more and no less",
                f"{sorted(held)} instead of {sorted(wanted)}",
                paths.IMAGES,
            )
        late = [lease for lease in puller.leases if lease.ended_at > self.world.time.now()]
        if late:
            self.fail("what is wanted no more is kept for a moment only", f"{late[0]}", paths.IMAGES)
        waiting = {entry.step.pull for entry in puller.entries.values() if isinstance(entry.step, Fetching)}
        if not waiting <= puller.pulls.keys():
            self.fail("nothing waits for a pull that is not under way", f"{sorted(waiting)}", paths.IMAGES)

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
    said = any(one.message == LEDGER_UNREAD for one in after.events)
    return was_recalling and not isinstance(after.life, Recalling) and said


def sentence(rule: Callable[..., str]) -> str:
    """Return the sentence that a rule checks."""
    assert rule.__doc__ is not None
    return rule.__doc__.splitlines()[0].rstrip(".")
