"""The executor of simulation: one thread, virtual time, everything that may differ drawn from a seed.

The next cell to run is drawn, never first-in-first-out. Operations begin at virtual instants and their outcomes come
at later ones. Same seed, same trace, byte for byte, in any process.

`VirtualTime` is the world's clock: it survives `SimSystem.halt`, which drops a whole agent as kill -9 would, so that
a new system with the same clock starts in the same world.
"""

import heapq
from collections.abc import Callable
from random import Random

from api.ids import Instant, WallNs
from api.ports.port import Undo
from runtime.kernel import lifecycle
from runtime.kernel.actor import LogFactory
from runtime.kernel.cell import Cell
from runtime.kernel.intercept import Interceptor
from runtime.kernel.operations import Operation
from runtime.kernel.system import System

EPOCH_NS = 1_700_000_000_000_000_000
"""Where virtual wall clocks start unless given otherwise."""


class VirtualTimer:
    """One alarm of virtual time; calling it cancels it."""

    __slots__ = ("then",)

    def __init__(self, then: Callable[[], None]) -> None:
        self.then: Callable[[], None] | None = then

    def __call__(self) -> None:
        """Cancel the alarm."""
        self.then = None


class VirtualTime:
    """Virtual clocks with alarms. `start` is the first wall clock time, in nanoseconds since the epoch."""

    def __init__(self, seed: int, start: WallNs = EPOCH_NS) -> None:
        self.seed = seed
        self.lives = 0
        """How many systems have run on this clock; each draws other numbers."""
        self._now: Instant = 0.0
        self._wall_start = start
        self._heap: list[tuple[Instant, int, VirtualTimer]] = []
        self._number = 0

    def now(self) -> Instant:
        """Return virtual seconds since the start."""
        return self._now

    def wall(self) -> WallNs:
        """Return the virtual wall clock in nanoseconds: start, plus virtual time, plus jumps."""
        return self._wall_start + round(self._now * 1e9)

    def jump_wall(self, by_s: float) -> None:
        """Move the wall clock."""
        self._wall_start += round(by_s * 1e9)

    def call_at(self, at: Instant, then: Callable[[], None]) -> Undo:
        """Call `then` when virtual time reaches `at`; alarms of one instant ring in the order of their setting."""
        self._number += 1
        timer = VirtualTimer(then)
        heapq.heappush(self._heap, (max(at, self._now), self._number, timer))
        return timer

    def next_at(self) -> Instant | None:
        """Return when the next alarm rings."""
        heap = self._heap
        while heap and heap[0][2].then is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def fire_next(self) -> bool:
        """Go to the next alarm and ring it; return whether there was one."""
        if self.next_at() is None:
            return False
        self._now, _, timer = heapq.heappop(self._heap)
        then, timer.then = timer.then, None
        if then is not None:
            then()
        return True

    def advance(self, to: Instant) -> None:
        """Go to `to`, at which or before which no alarm is left."""
        self._now = max(self._now, to)


class SimSystem(System):
    """Actors in virtual time on the calling thread.

    `time` is handed on from a halted system to the next; without it a new world begins from `seed`. `latency_s` is
    the range from which the time to begin an operation, and the time its outcome takes back, are drawn.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        time: VirtualTime | None = None,
        interceptor: Interceptor | None = None,
        log: LogFactory | None = None,
        trace_log: Callable[[str], None] | None = None,
        on_step: Callable[[], None] | None = None,
        latency_s: tuple[float, float] = (0.0002, 0.02),
        name: str = "node",
    ) -> None:
        self.time = time or VirtualTime(seed)
        self.clock = self.time.now
        super().__init__(timers=self.time, interceptor=interceptor, log=log, trace_log=trace_log, name=name)
        self.seed = seed
        self.on_step = on_step
        self.time.lives += 1
        # Seeding with a text is the same in every process, whatever its hash seed.
        self._random = Random(f"{seed}/{self.time.seed}/{self.time.lives}")  # noqa: S311  # repeatable on purpose
        self._latency_s = latency_s
        self._ready: list[Cell] = []

    def ready(self, cell: Cell) -> None:
        """Let `cell` be drawn."""
        if not self.halted:
            self._ready.append(cell)

    def launch(self, operation: Operation) -> None:
        """Begin the operation at a drawn instant."""
        self.time.call_at(self.time.now() + self._draw_latency(), operation.carry_out)

    def after_effect(self, then: Callable[[], None]) -> None:
        """Settle at a drawn instant."""
        self.time.call_at(self.time.now() + self._draw_latency(), then)

    def _draw_latency(self) -> float:
        low, high = self._latency_s
        return low + (high - low) * self._random.random() ** 3

    def draw_seed(self) -> int:
        """Return a number of 63 bits, a function of the run's seed."""
        return self._random.getrandbits(63)

    def await_until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        """Step until `condition` holds, or for `deadline_s` of virtual time."""
        until = self.time.now() + deadline_s
        while not condition():
            if not self._step_before(until):
                self.time.advance(until)
                return condition()
        return True

    def changed(self) -> None:
        """Conditions are checked after each step anyway."""

    def jump_wall(self, by_s: float) -> None:
        """Move the virtual wall clock."""
        self.time.jump_wall(by_s)

    def close(self) -> None:
        """Run nothing any more."""
        self.ended = True
        self._ready.clear()

    def halt(self) -> None:
        """Drop the whole system as kill -9 would: no callback runs, later completions are ignored, time goes on."""
        self.halted = True
        for cell in self.cells():
            lifecycle.vanish(cell)
        self._ready.clear()

    def step(self) -> bool:
        """Deliver one message, or else ring the next alarm; return whether there was anything to do."""
        if self.halted:
            return False
        ready = self._ready
        if ready:
            count = len(ready)
            if count == 1:
                cell = ready.pop()
            else:
                index = int(self._random.random() * count)
                cell = ready[index]
                ready[index] = ready[-1]
                ready.pop()
            if cell.run(1, 0.0):
                self.ready(cell)
        elif not self.time.fire_next():
            return False
        if self.on_step is not None:
            self.on_step()
        return True

    def _step_before(self, until: Instant) -> bool:
        """Step, unless the next thing to do is after `until`."""
        if not self._ready:
            at = self.time.next_at()
            if at is None or at > until:
                return False
        return self.step()

    def run_until(self, at: Instant) -> None:
        """Do all that is due up to the instant `at`, and be there then. Ends early only when halted."""
        while not self.halted and self._step_before(at):
            pass
        if not self.halted:
            self.time.advance(at)

    def run_for(self, seconds: float) -> None:
        """Do all that is due in the next `seconds`."""
        self.run_until(self.time.now() + seconds)

    def run_until_idle(self, limit_s: float = 3600.0) -> bool:
        """Step until there is nothing left to do, for at most `limit_s` of virtual time; return whether it came to rest."""
        until = self.time.now() + limit_s
        while not self.halted and self._step_before(until):
            pass
        return not self._ready and self.time.next_at() is None
