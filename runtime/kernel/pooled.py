"""The executor of production: many actors on two threads.

More threads add no speed under one interpreter lock. A cell that has messages is queued once and drained in small
batches, so no two threads ever run it. A handler that holds its thread is found by the watchdog, which gives a spare
thread at once and names the actor, its message and where it stands; the held thread ends when its handler returns.

Nothing polls: workers wait on the queue, timers sleep until the next alarm, and the watchdog sleeps while no worker
has anything to do.
"""

import sys
import time
import traceback
from collections.abc import Callable
from random import SystemRandom
from threading import Condition, Event, Lock, Thread, get_ident

from api.ids import Path
from runtime.kernel import lifecycle
from runtime.kernel.actor import LogFactory, silent
from runtime.kernel.cell import Cell
from runtime.kernel.intercept import Interceptor
from runtime.kernel.offload import DEFAULT_BOUND, Offload
from runtime.kernel.operations import Operation
from runtime.kernel.runqueue import RunQueue
from runtime.kernel.system import System
from runtime.kernel.timers import ThreadTimers
from runtime.kernel.trace import brief

WORKERS = 2
BATCH = 32
SLICE_S = 0.005
"""What a cell may hold a thread, between messages, before other cells run."""


class CellThread:
    """A thread that runs cells, and what the watchdog needs to know of it."""

    __slots__ = ("cell", "ident", "replaced")

    def __init__(self) -> None:
        self.cell: Cell | None = None
        """What it runs now."""
        self.replaced = False
        """A spare runs in its place; it ends when its handler returns."""
        self.ident = 0


class PooledSystem(System):
    """Actors on a pool of threads, in real time.

    `held_s`: a handler that runs longer gets a spare thread; at most `spares` of them. Every `ping_s` each actor is
    pinged; one that does not answer within `ping_limit_s` counts as unresponsive. `bound`: see `Offload`.
    """

    clock = staticmethod(time.monotonic)

    def __init__(
        self,
        *,
        interceptor: Interceptor | None = None,
        log: LogFactory | None = None,
        trace_log: Callable[[str], None] | None = None,
        name: str = "node",
        workers: int = WORKERS,
        spares: int = 32,
        held_s: float = 0.2,
        ping_s: float = 5.0,
        ping_limit_s: float = 2.0,
        bound: int = DEFAULT_BOUND,
    ) -> None:
        self._clocks = ThreadTimers((log or silent)(Path(f"/{name}")))
        super().__init__(
            timers=self._clocks, interceptor=interceptor, log=log, trace_log=trace_log, name=name
        )
        self._queue = RunQueue()
        self._offload = Offload(bound)
        self._random = SystemRandom()
        self._news = Condition(Lock())
        self._workers: list[CellThread] = []
        self._workers_lock = Lock()
        self._spares, self._held_s = spares, held_s
        self._ping_s, self._ping_limit_s = ping_s, ping_limit_s
        self._watching = False
        self._busy = Event()
        self._closed = Event()
        for _ in range(workers):
            self._add_worker()
        self._watchdog = Thread(target=self._watch, name="kernel.watchdog", daemon=True)
        self._watchdog.start()
        if ping_s > 0:
            self._clocks.call_at(self.clock() + ping_s, self._ping)

    def ready(self, cell: Cell) -> None:
        """Queue `cell` for the next free thread."""
        self._queue.put(cell)

    def launch(self, operation: Operation) -> None:
        """Begin at once what completes by callback; find a thread for what holds its own."""
        if operation.blocking:
            self._offload.submit(operation)
        else:
            operation.carry_out()

    def after_effect(self, then: Callable[[], None]) -> None:
        """Settle at once."""
        then()

    def draw_seed(self) -> int:
        """Return a new random number of 63 bits."""
        return self._random.getrandbits(63)

    def await_until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        """Wait for a condition over deaths and answers."""
        with self._news:
            return self._news.wait_for(condition, deadline_s)

    def changed(self) -> None:
        """Wake those who wait."""
        with self._news:
            self._news.notify_all()

    def jump_wall(self, by_s: float) -> None:
        """Move the wall clock as the actors see it."""
        self._clocks.jump_wall(by_s)

    def close(self) -> None:
        """End the threads that are free to end; held ones are daemons and end with the process."""
        self.ended = True
        self._clocks.close()
        with self._workers_lock:
            count = len(self._workers)
        for _ in range(count):
            self._queue.put(None)
        self._closed.set()
        self._busy.set()

    def halt(self) -> None:
        """Stop at once, with no message to any actor."""
        self.halted = True
        for cell in self.cells():
            lifecycle.vanish(cell)
        self.close()

    @property
    def threads(self) -> int:
        """Return how many threads run actors and blocking calls now."""
        return len(self._workers) + self._offload.threads

    # Threads.

    def _add_worker(self) -> None:
        worker = CellThread()
        with self._workers_lock:
            self._workers.append(worker)
        Thread(target=self._work, args=(worker,), name="kernel.worker", daemon=True).start()

    def _work(self, worker: CellThread) -> None:
        queue = self._queue
        cell: Cell | None = None
        worker.ident = get_ident()
        queue.join()
        try:
            while not worker.replaced:
                if cell is None:
                    cell = queue.take()
                if cell is None:
                    return
                worker.cell = cell
                if not self._watching:
                    self._watching = True
                    self._busy.set()
                more = cell.run(BATCH, SLICE_S)
                worker.cell = None
                if not more:
                    cell = None
                elif worker.replaced or queue.waiting:
                    # Other cells wait.
                    queue.put(cell)
                    cell = None
        except Exception as error:
            # A bug of the kernel itself: nothing it would do from here on can be trusted.
            self.fail("the kernel failed while it ran an actor", error)
            raise
        finally:
            worker.cell = None
            queue.leave(worker.ident)
            with self._workers_lock:
                self._workers.remove(worker)

    def _watch(self) -> None:
        while not self.ended:
            self._busy.wait()
            self._busy.clear()
            # Sleep before the first check: a short handler is long over by then, and a trickle of messages costs
            # the watchdog at most one check each time.
            while not self._closed.wait(self._held_s / 2) and self._check():
                pass

    def _check(self) -> bool:
        """Check all workers; return whether there is a reason to check again soon."""
        with self._workers_lock:
            workers = list(self._workers)
        now = self.clock()
        busy = False
        for worker in workers:
            cell = worker.cell
            if cell is None or worker.replaced:
                continue
            busy = True
            if cell.current is None or now - cell.moment <= self._held_s:
                continue
            self._queue.leave(worker.ident)
            if len(workers) < WORKERS + self._spares:
                worker.replaced = True
                self.log.warning(
                    "handler holds its thread",
                    path=cell.path,
                    message=brief(cell.current),
                    stack=stack_line(worker),
                )
                self._add_worker()
        if not busy:
            # From here on the next worker that finds work wakes the watchdog. One that found some just before
            # has left its cell where the next check sees it.
            self._watching = False
            with self._workers_lock:
                busy = any(worker.cell is not None and not worker.replaced for worker in self._workers)
            self._watching = busy
        return busy

    def _ping(self) -> None:
        if self.ended:
            return
        now = self.clock()
        for cell in self.cells():
            cell.ping(now)
        self._clocks.call_at(now + self._ping_s, self._ping)

    def unresponsive(self, cell: Cell) -> str:
        """Return who is stuck, on which message, for how long and where, or an empty text."""
        now = self.clock()
        asked_at = cell.pinged_at
        message = cell.current
        held_s = now - cell.moment if message is not None else 0.0
        if held_s > self._ping_limit_s and message is not None:
            where = self._stack_of(cell)
            return f"{cell.path} handles {brief(message)} for {held_s:.1f} s, at {where}"
        if asked_at is not None and now - asked_at > self._ping_limit_s:
            return f"{cell.path} has not answered its ping for {now - asked_at:.1f} s: no thread is free to run it"
        return ""

    def _stack_of(self, cell: Cell) -> str:
        with self._workers_lock:
            found = [worker for worker in self._workers if worker.cell is cell]
        return stack_line(found[0]) if found else "a line it has just left"


def stack_line(worker: CellThread) -> str:
    """Return the innermost line at which a worker's thread stands."""
    frame = sys._current_frames().get(worker.ident)  # noqa: SLF001  # the only way
    if frame is None:
        return "a line it has just left"
    last = traceback.extract_stack(frame)[-1]
    return f"{last.filename}:{last.lineno} in {last.name}: {last.line}"
