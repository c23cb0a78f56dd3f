"""Loads for `bin/bench kernel`, one a process: ``python -m tests.harness.kernelload LOAD SIDE`` prints figures as JSON.

Each load exists for our actors and for pykka's ThreadingActor with its default settings, with the same bodies. A process
of its own means that neither the threads nor the memory of one measurement disturb another.
"""

import gc
import itertools
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pykka

from api.ids import Path as ActorPath
from api.messages import Message
from runtime.kernel.actor import Actor
from runtime.kernel.pooled import PooledSystem
from runtime.kernel.sim import SimSystem

MANY = 1000
FAN_ROUNDS = 40
ONE_TO_ONE = 100_000
IDLE_ACTORS = 2000
WAITS = 500
PATIENCE_S = 20.0
KIB = 1024


class Tick(Message, frozen=True, kw_only=True):
    n: int = 0


class Go(Message, frozen=True, kw_only=True):
    """Begins a fan-out; a second one is never sent."""


class Gate:
    """Opens when so many have come; `itertools.count` counts without a lock and without a loss."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.arrivals = itertools.count(1)
        self.open = Event()

    def arrive(self) -> None:
        if next(self.arrivals) == self.wanted:
            self.open.set()

    def wait(self) -> None:
        if not self.open.wait(PATIENCE_S):
            raise SystemExit("bench: messages got lost, the figures mean nothing")


# ---------------------------------------------------------------- bodies, the same for both sides


class Leader:
    """Tells all and, when each has answered, tells all again, so many rounds."""

    def __init__(self, rounds: int, gate: Gate) -> None:
        self.rounds, self.gate = rounds, gate
        self.followers = []
        self.missing = 0

    def take(self, message: Message) -> None:
        if isinstance(message, Tick):
            self.missing -= 1
            if self.missing:
                return
            self.gate.arrive()
            self.rounds -= 1
        if self.rounds:
            self.missing = len(self.followers)
            order = Tick()
            for follower in self.followers:
                follower.tell(order)


class Follower:
    """Answers its leader; counts what it got, so that each has a state of its own."""

    def __init__(self, leader) -> None:
        self.leader = leader
        self.got = 0

    def take(self, message: Message) -> None:
        self.got += 1
        self.leader.tell(Tick())


class Arrival:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def take(self, message: Message) -> None:
        self.gate.arrive()


class Stopwatch:
    def __init__(self, waits: list[int], handled: Event) -> None:
        self.waits, self.handled = waits, handled

    def take(self, message: Tick) -> None:
        self.waits.append(time.monotonic_ns() - message.n)
        self.handled.set()


class OurActor(Actor):
    def __init__(self, body) -> None:
        self.body = body

    def receive(self, message, ctx) -> None:
        self.body.take(message)


class PykkaActor(pykka.ThreadingActor):
    # Only so that the process can end without stopping a thousand threads first; no measure depends on it.
    use_daemon_thread = True

    def __init__(self, body) -> None:
        super().__init__()
        self.body = body

    def on_receive(self, message) -> None:
        self.body.take(message)


def starter(side: str) -> Callable[..., object]:
    """Return what starts an actor with a body and a mailbox bound."""
    if side == "pykka":
        return lambda body, room=256: PykkaActor.start(body)
    system = PooledSystem()
    numbers = itertools.count()
    return lambda body, room=256: system.spawn(
        OurActor.options(name=f"a{next(numbers)}", mailbox=room).bind(body)
    )


# ---------------------------------------------------------------- loads


def fan_out(side: str) -> dict[str, float]:
    """A thread outside tells each of 1,000 actors and, when all have handled it, tells them again."""
    start = starter(side)
    body = Arrival(Gate(MANY))
    tells = [start(body).tell for _ in range(MANY)]
    message = Tick()
    gc.collect()
    began = time.perf_counter()
    for _ in range(FAN_ROUNDS):
        body.gate = Gate(MANY)
        for tell in tells:
            tell(message)
        body.gate.wait()
    return {"per_s": MANY * FAN_ROUNDS / (time.perf_counter() - began)}


def gather(side: str) -> dict[str, float]:
    """One actor tells 1,000, hears from each, and tells them again."""
    start = starter(side)
    gate = Gate(FAN_ROUNDS)
    leader = Leader(FAN_ROUNDS, gate)
    # The bound that production gives to an actor that hears from many.
    handle = start(leader, 8 * MANY)
    leader.followers = [start(Follower(handle)) for _ in range(MANY)]
    gc.collect()
    began = time.perf_counter()
    handle.tell(Go())
    gate.wait()
    return {"per_s": 2 * MANY * FAN_ROUNDS / (time.perf_counter() - began)}


def one_to_one(side: str) -> dict[str, float]:
    """One thread tells one actor."""
    gate = Gate(ONE_TO_ONE)
    handle = starter(side)(Arrival(gate), ONE_TO_ONE)
    message = Tick()
    gc.collect()
    began = time.perf_counter()
    for _ in range(ONE_TO_ONE):
        handle.tell(message)
    gate.wait()
    return {"per_s": ONE_TO_ONE / (time.perf_counter() - began)}


def resident_kib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / KIB


def memory(side: str) -> dict[str, float]:
    """What 2,000 actors add to the process that have each handled a message and wait: heap, stacks, all."""
    start = starter(side)
    gate = Gate(IDLE_ACTORS)
    gc.collect()
    before = resident_kib()
    handles = [start(Arrival(gate)) for _ in range(IDLE_ACTORS)]
    for handle in handles:
        handle.tell(Tick())
    gate.wait()
    gc.collect()
    return {"kib": (resident_kib() - before) / IDLE_ACTORS}


def mailbox_wait(side: str) -> dict[str, float]:
    """One message at a time to an actor that has nothing else to do."""
    waits: list[int] = []
    handled = Event()
    handle = starter(side)(Stopwatch(waits, handled))
    for _ in range(WAITS):
        handled.clear()
        handle.tell(Tick(n=time.monotonic_ns()))
        if not handled.wait(PATIENCE_S):
            raise SystemExit("bench: a message got lost")
    return {"us": statistics.median(waits) / 1000, "p99_us": statistics.quantiles(waits, n=100)[-1] / 1000}


class Passer(Actor):
    """Passes each message on to the next of a ring of actors."""

    def __init__(self, onward):
        self.onward = onward

    def receive(self, message, ctx):
        if message.n:
            ctx.handle(self.onward).tell(Tick(n=message.n - 1))


def simulated(side: str) -> dict[str, float]:
    """In simulation forty messages pass among a hundred actors."""
    rates = []
    for seed in range(3):
        system = SimSystem(seed)
        count, hops = 100, 1000
        for n in range(count):
            system.spawn(Passer.options(name=f"a{n}").bind(ActorPath(f"/node/a{(n + 7) % count}")))
        for n in range(40):
            system.handle(ActorPath(f"/node/a{n}")).tell(Tick(n=hops))
        began = time.perf_counter()
        system.run_until_idle()
        rates.append(system.summarize_actors().handled / (time.perf_counter() - began))
        system.halt()
    return {"per_s": statistics.median(rates)}


def idle(side: str) -> dict[str, float]:
    """200 actors with nothing to do, over one round of pings."""
    start = starter(side)
    gate = Gate(1)
    for _ in range(200):
        start(Arrival(gate))
    Event().wait(0.5)
    began, from_ = time.process_time(), time.monotonic()
    Event().wait(6.0)
    return {"percent": 100 * (time.process_time() - began) / (time.monotonic() - from_)}


LOADS = {load.__name__: load for load in (fan_out, gather, one_to_one, memory, mailbox_wait, simulated, idle)}


def main(words: list[str]) -> None:
    load, side = words
    sys.stdout.write(json.dumps(LOADS[load](side)))
    sys.stdout.flush()
    # A thousand idle threads have nothing to tidy up.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
