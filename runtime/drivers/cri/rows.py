"""Listings of sandboxes and containers; requests that come while they are in flight share the next one.

A runtime walks all that it has for each listing, also for one of a single pod. A hundred inspections at the same time
cost a few listings of everything instead of a hundred. An answer is never older than its request: a listing in flight
answers no later request.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.errors import Failure, FailureKind, OperatingError
from api.ids import Instant, Uid
from api.ports.port import Undo
from api.ports.runtime import LABEL_POD_UID
from runtime.drivers.cri.known import Known
from runtime.drivers.cri.link import Channels
from runtime.drivers.cri.opencall import Answer, Together, nothing
from runtime.net.loop import After
from runtime.wire import cri
from runtime.wire.generated import cri_pb2 as pb

AT_ONCE = 2
"""Listings under way: one that is slow leaves room for another."""
STALE_S = 30.0
"""A listing that is under way for longer hangs, and is not counted: later requests do not wait for it."""
BUG = Failure(kind=FailureKind.UNAVAILABLE, message="the driver failed to read a listing: a bug, see the log")
ALL = None
"""Asks for the rows of all pods."""


class PodRows:
    """Rows of one pod, sandboxes and containers in the order of the listing."""

    __slots__ = ("containers", "sandboxes")

    def __init__(self) -> None:
        self.sandboxes: list[pb.PodSandbox] = []
        self.containers: list[pb.Container] = []

    @property
    def ids(self) -> list[str]:
        """Return the ids of all of them."""
        return [row.id for row in self.sandboxes] + [row.id for row in self.containers]


@dataclass(slots=True, eq=False)
class Waiter:
    """A request for the rows of a pod, or of all."""

    uid: Uid | None
    until: Instant
    answer: Answer | None
    batch: "Batch | None" = None


@dataclass(slots=True, eq=False)
class Batch:
    """The requests that one listing answers."""

    waiters: list[Waiter]
    begun_at: Instant
    undo: Undo = field(default=nothing)


class Rows:
    """Shares listings. Its methods may be called on any thread; `after` schedules the check for listings that hang."""

    def __init__(self, link: Channels, known: Known, after: After) -> None:
        self._link, self._known, self._after = link, known, after
        self._lock = threading.Lock()
        self._under_way: list[Batch] = []
        self._waiting: list[Waiter] = []
        self.unlabelled: frozenset[Uid] = frozenset()
        """Pods without the label that a listing can be filtered by."""

    def of(self, uid: Uid | None) -> "Question":
        """Return what to ask for the rows of a pod, a `PodRows`, or of `ALL`, those by UID.

        What has no pod's UID of any kind stands under the empty one.
        """
        return Question(self, uid)

    def add(self, waiter: Waiter) -> Undo:
        """Answer a waiter by a listing that begins now or later."""
        with self._lock:
            self._waiting.append(waiter)
            batch = self._next()
            is_first = self._waiting == [waiter]
        if batch is not None:
            self._list(batch)
        elif is_first:
            self._after(STALE_S, self._go_on)
        return lambda: self._give_up(waiter)

    def _next(self) -> Batch | None:
        """Return the next batch, None while it may not begin. Under the lock."""
        now = time.monotonic()
        counted = sum(now - batch.begun_at < STALE_S for batch in self._under_way)
        if not self._waiting or counted >= AT_ONCE:
            return None
        batch, self._waiting = Batch(self._waiting, now), []
        for waiter in batch.waiters:
            waiter.batch = batch
        self._under_way.append(batch)
        return batch

    def _go_on(self) -> None:
        """Begin the next batch when the listings in flight hang."""
        with self._lock:
            batch = self._next()
        if batch is not None:
            self._list(batch)

    def _give_up(self, waiter: Waiter) -> None:
        """Answer a request that was cancelled; a listing without requests is cancelled too."""
        with self._lock:
            answer, waiter.answer = waiter.answer, None
            batch = waiter.batch
            if batch is None and waiter in self._waiting:
                self._waiting.remove(waiter)
            alone = batch is not None and all(one.answer is None for one in batch.waiters)
        if answer is not None:
            answer(None, Failure(kind=FailureKind.CANCELLED, message="cancelled before it was listed"))
        if batch is not None and alone:
            batch.undo()

    def _list(self, batch: Batch) -> None:
        """Begin both listings, filtered where only one pod is asked for."""
        uids = {waiter.uid for waiter in batch.waiters}
        [uid] = uids if len(uids) == 1 else [ALL]
        selector = {} if uid is ALL or uid in self.unlabelled else {LABEL_POD_UID: uid}
        sandboxes = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(label_selector=selector))
        containers = pb.ListContainersRequest(filter=pb.ContainerFilter(label_selector=selector))
        asks = (
            self._link.ask(cri.LIST_SANDBOXES, sandboxes),
            self._link.ask(cri.LIST_CONTAINERS, containers),
        )
        patience_s = max(waiter.until for waiter in batch.waiters) - time.monotonic()
        batch.undo = Together(asks).begin(
            patience_s, lambda replies, _: self._over(batch, replies, whole=not selector)
        )

    def _over(self, batch: Batch, replies: Sequence[Any], *, whole: bool) -> None:
        """Begin the next listing, then answer those of this one."""
        failure = next((one.failure() for one in replies if isinstance(one, OperatingError)), None)
        rows: Mapping[Uid, PodRows] | None = None
        try:
            rows = {} if failure is not None else self._take_in(replies, whole=whole)
        finally:
            # Also after a bug: the requests are answered, and the next listing begins.
            self._answer(batch, rows or {}, failure if rows is not None else BUG)

    def _answer(self, batch: Batch, rows: Mapping[Uid, PodRows], failure: Failure | None) -> None:
        with self._lock:
            self._under_way.remove(batch)
            following = self._next()
            answers = [(waiter.uid, waiter.answer) for waiter in batch.waiters]
            for waiter in batch.waiters:
                waiter.answer = None
        if following is not None:
            self._list(following)
        for uid, answer in answers:
            if answer is not None:
                found = rows if uid is ALL else rows.get(uid) or PodRows()
                answer(None if failure is not None else found, failure)

    def _take_in(self, replies: Sequence[Any], *, whole: bool) -> Mapping[Uid, PodRows]:
        """Make the rows known; return them by pod. Rows without metadata belong to no pod that could be named."""
        rows: dict[Uid, PodRows] = {}
        unlabelled = set()
        for sandbox in replies[0].items:
            if not sandbox.HasField("metadata"):
                continue
            self._known.absorb_sandbox_row(sandbox)
            uid = Uid(sandbox.metadata.uid)
            rows.setdefault(uid, PodRows()).sandboxes.append(sandbox)
            if LABEL_POD_UID not in sandbox.labels:
                unlabelled.add(uid)
        for container in replies[1].containers:
            if container.HasField("metadata"):
                self._known.absorb_container_row(container)
                rows.setdefault(self._known.uid_of(container), PodRows()).containers.append(container)
        if whole:
            self.unlabelled = frozenset(unlabelled)
        return rows


class Question:
    """The rows of a pod, or of all, as something that a call asks for."""

    __slots__ = ("_rows", "_uid")

    def __init__(self, rows: Rows, uid: Uid | None) -> None:
        self._rows, self._uid = rows, uid

    def begin(self, left_s: float, answer: Answer) -> Undo:
        """Answer with rows that were listed from now on."""
        return self._rows.add(Waiter(self._uid, time.monotonic() + left_s, answer))
