"""What the actor kernel costs: ratios against pykka's ThreadingActor in the same run, and budgets.

Trace is on, as in production. Rounds of both sides alternate and the median of the ratios decides, so that a machine
that is busy with something else slows both. Absolute figures orient.
"""

import gc
import itertools
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from threading import Event

import msgspec
import pykka

from api.ids import Path
from api.messages import Message
from runtime.kernel.actor import Actor
from runtime.kernel.pooled import PooledSystem
from runtime.kernel.sim import SimSystem

ROUNDS = 5
MANY = 1000
PATIENCE_S = 60.0


class Tick(Message, frozen=True, kw_only=True):
    n: int = 0


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: the figure, what it is to be, and in which direction."""

    what: str
    figure: float
    unit: str
    limit: float
    at_least: bool
    detail: str = ""

    @property
    def met(self) -> bool:
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


class Round:
    """Says when so many messages have arrived everywhere; `itertools.count` counts without a lock and without a loss."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.done = Event()
        self.begin()

    def begin(self) -> None:
        self.arrivals = itertools.count(1)
        self.done.clear()

    def arrive(self) -> None:
        if next(self.arrivals) == self.wanted:
            self.done.set()


class Counter(Actor):
    """Notes each message as arrived."""

    def __init__(self, round_):
        self.round = round_

    def receive(self, message, ctx):
        self.round.arrive()


class ThreadCounter(pykka.ThreadingActor):
    """The same on pykka's own executor."""

    use_daemon_thread = True

    def __init__(self, round_):
        super().__init__()
        self.round = round_

    def on_receive(self, message):
        self.round.arrive()


def told_per_s(tells: list[Callable[[Message], None]], each: int, rounds: int, arrived: Round) -> float:
    """Tell each receiver `each` messages and wait until all are handled, `rounds` times; return messages per second."""
    message = Tick()
    gc.collect()
    began = time.perf_counter()
    for _ in range(rounds):
        arrived.begin()
        for _ in range(each):
            for tell in tells:
                tell(message)
        if not arrived.done.wait(PATIENCE_S):
            raise SystemExit("bench: messages got lost, the figures mean nothing")
    return len(tells) * each * rounds / (time.perf_counter() - began)


def ours(actors: int, each: int, rounds: int) -> float:
    arrived = Round(actors * each)
    system = PooledSystem()
    handles = [
        system.spawn(Counter.options(name=f"a{n}", mailbox=max(256, each)).bind(arrived))
        for n in range(actors)
    ]
    rate = told_per_s([handle.tell for handle in handles], each, rounds, arrived)
    system.halt()
    return rate


def threading_actor(actors: int, each: int, rounds: int) -> float:
    arrived = Round(actors * each)
    refs = [ThreadCounter.start(arrived) for _ in range(actors)]
    rate = told_per_s([ref.tell for ref in refs], each, rounds, arrived)
    for ref in refs:
        ref.stop(block=False)
    for ref in refs:
        ref.actor_stopped.wait(PATIENCE_S)
    return rate


def compare(what: str, actors: int, each: int, rounds: int, limit: float) -> Budget:
    """Return the median ratio of our rate to ThreadingActor's, under the same load."""
    pairs = [(ours(actors, each, rounds), threading_actor(actors, each, rounds)) for _ in range(ROUNDS)]
    own, other = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    detail = f"{own:,.0f}/s against {other:,.0f}/s"
    return Budget(what=what, figure=ratio, unit="x", limit=limit, at_least=True, detail=detail)


def memory_per_actor() -> Budget:
    """Return what one actor costs that has handled a message and waits for the next."""
    count = 2000

    def measured(make: Callable[[], object]) -> float:
        gc.collect()
        tracemalloc.start()
        kept = make()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0] / count / 1024
        tracemalloc.stop()
        del kept
        return size

    def start() -> PooledSystem:
        system = PooledSystem()
        arrived = Round(count)
        handles = [system.spawn(Counter.options(name=f"a{n}").bind(arrived)) for n in range(count)]
        for handle in handles:
            handle.tell(Tick())
        if not arrived.done.wait(PATIENCE_S):
            raise SystemExit("bench: actors did not answer")
        systems.append(system)
        return system

    systems: list[PooledSystem] = []
    size = measured(start)
    for system in systems:
        system.halt()
    return Budget(
        what="memory per idle actor",
        figure=size,
        unit="KiB",
        limit=4.0,
        at_least=False,
        detail=f"{count} actors",
    )


class Waiter(Actor):
    """Notes how long each message waited."""

    def __init__(self, waits, handled):
        self.waits, self.handled = waits, handled

    def receive(self, message, ctx):
        self.waits.append(time.monotonic_ns() - message.n)
        self.handled.set()


def mailbox_wait() -> Budget:
    """Return the median time from tell to receive while nothing else is going on."""
    waits: list[int] = []
    handled = Event()
    system = PooledSystem()
    handle = system.spawn(Waiter.options(name="a").bind(waits, handled))
    for _ in range(1000):
        handled.clear()
        handle.tell(Tick(n=time.monotonic_ns()))
        if not handled.wait(PATIENCE_S):
            raise SystemExit("bench: a message got lost")
    system.halt()
    return Budget(
        what="median mailbox wait when idle",
        figure=statistics.median(waits) / 1000,
        unit="us",
        limit=100.0,
        at_least=False,
        detail=f"p99 {statistics.quantiles(waits, n=100)[-1] / 1000:.0f} us",
    )


class Passer(Actor):
    """Passes each message on to the next of a ring of actors."""

    def __init__(self, onward):
        self.onward = onward

    def receive(self, message, ctx):
        if message.n:
            ctx.handle(self.onward).tell(Tick(n=message.n - 1))


def simulated() -> Budget:
    """Return deliveries per second in simulation: a hundred actors, forty messages on their way."""
    rates = []
    for seed in range(ROUNDS):
        system = SimSystem(seed)
        count, hops = 100, 1000
        for n in range(count):
            system.spawn(Passer.options(name=f"a{n}").bind(Path(f"/node/a{(n + 7) % count}")))
        for n in range(40):
            system.handle(Path(f"/node/a{n}")).tell(Tick(n=hops))
        began = time.perf_counter()
        system.run_until_idle()
        spent = time.perf_counter() - began
        rates.append(system.summarize_actors().handled / spent)
        system.halt()
    return Budget(
        what="simulated deliveries",
        figure=statistics.median(rates),
        unit="/s",
        limit=50_000.0,
        at_least=True,
        detail="40 messages among 100 actors",
    )


def idle() -> Budget:
    """Return the share of one core that a system of actors takes that have nothing to do, pings included."""
    system = PooledSystem(ping_s=5.0)
    arrived = Round(200)
    for n in range(200):
        system.spawn(Counter.options(name=f"a{n}").bind(arrived))
    Event().wait(0.5)
    began = time.process_time()
    span = 6.0
    Event().wait(span)
    share = 100 * (time.process_time() - began) / span
    system.halt()
    return Budget(
        what="CPU of 200 idle actors",
        figure=share,
        unit="%",
        limit=0.5,
        at_least=False,
        detail="one round of pings",
    )


def main() -> int:
    """Print the table; return how the process is to exit."""
    measures: list[Callable[[], Budget]] = [
        lambda: compare("fan-out to 1,000 actors", MANY, 1, 30, 20.0),
        lambda: compare("one-to-one tell", 1, 100_000, 1, 1.0),
        memory_per_actor,
        mailbox_wait,
        simulated,
        idle,
    ]
    print(f"{'what':32} {'figure':>12} {'budget':>14}        detail")
    missed = 0
    for measure in measures:
        budget = measure()
        sign = ">=" if budget.at_least else "<="
        verdict = "ok" if budget.met else "MISSED"
        missed += not budget.met
        print(
            f"{budget.what:32} {budget.figure:>9,.2f} {budget.unit:3}{sign} {budget.limit:>8,.1f} {budget.unit:3}"
            f" {verdict:6} {budget.detail}",
            flush=True,
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
