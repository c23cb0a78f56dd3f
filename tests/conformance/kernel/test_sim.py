"""What only simulation promises: the same seed is the same run, and a killed agent starts again in the same world."""

import os
import subprocess
import sys

from runtime.kernel.actor import Restart
from runtime.kernel.sim import SimSystem, VirtualTime
from tests.harness.kernel import Counted, HoldingPort, Journal, Look, Note, Probe, World

RUN = """
import sys
from tests.conformance.kernel.test_sim import storm
sys.stdout.write("\\n".join(storm(int(sys.argv[1]))))
"""


def storm(seed):
    """Run thirty actors that tell, operate, crash and wake each other; return the trace."""
    lines = []
    system = SimSystem(seed, trace_log=lines.append)
    port = HoldingPort()

    def react(message, ctx):
        jitter = ctx.seed() % 30
        if isinstance(message, Note):
            if message.n % 11 == 10:
                raise ValueError(f"crash {message.n}")
            if message.n < 40:
                ctx.handle(f"/node/a{jitter}").tell(Note(n=message.n + 1))
                ctx.start(ctx.new_op(), port, Look(n=message.n), 5.0)
            ctx.wake_at(ctx.now() + jitter / 10)

    for n in range(30):
        spec = Probe.options(name=f"a{n}", restart=Restart(max_restarts=100, delay_s=0.01)).bind(
            Journal(), react
        )
        system.spawn(spec).tell(Note(n=n % 5))
    system.run_until_idle()
    lines.append(repr(system.summarize_actors()))
    system.halt()
    return lines


def test_the_same_seed_is_the_same_trace_in_any_process():
    here = storm(5)
    assert len(here) > 500
    for hashing in ("0", "4711"):
        env = {**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": os.pathsep.join(sys.path)}
        there = subprocess.run(
            [sys.executable, "-c", RUN, "5"], env=env, check=True, capture_output=True, text=True, timeout=60
        )
        assert there.stdout.split("\n") == here


def test_another_seed_is_another_trace():
    assert storm(5) != storm(6)


def test_the_next_cell_is_drawn_and_not_the_first_in():
    orders = set()
    for seed in range(5):
        journal = Journal()
        system = SimSystem(seed)
        for n in range(8):
            system.spawn(Probe.options(name=f"a{n}").bind(journal))
        system.run_until_idle()
        orders.add(tuple(entry[1] for entry in journal.entries))
        system.halt()
    assert len(orders) == 5
    assert tuple(f"/node/a{n}" for n in range(8)) not in orders


def test_one_step_delivers_one_message_and_calls_the_hook():
    steps = []
    world = World("sim", on_step=lambda: steps.append(1))
    handle = world.spawn("a")
    assert world.system.step()
    for n in range(3):
        handle.tell(Note(n=n))
    assert world.system.step()
    assert world.journal.of(Note) == [Note(n=0)]
    assert len(steps) == 2
    assert world.system.run_until_idle()
    assert not world.system.step()
    world.close()


def test_time_only_moves_when_it_is_told_to():
    world = World("sim")
    rung = []
    world.system.timers.call_at(5.0, lambda: rung.append(world.system.clock()))
    world.system.run_until(4.0)
    assert (rung, world.system.clock()) == ([], 4.0)
    world.system.run_for(2.0)
    assert (rung, world.system.clock()) == ([5.0], 6.0)
    wall = world.system.timers.wall()
    world.system.jump_wall(-60.0)
    world.system.run_for(10.0)
    assert world.system.timers.wall() - wall == -50_000_000_000
    world.close()


class WorldPort:
    """A port that lives in the world: it completes through the world's timers and remembers what it did."""

    name = "world"

    def __init__(self, timers):
        self.timers = timers
        self.effects = []

    def begin(self, call, deadline_s, done):
        def act():
            self.effects.append((self.timers.now(), call.n))
            done(Counted(n=call.n), None)

        return self.timers.call_at(self.timers.now() + 1.0, act)


def test_a_killed_agent_starts_again_in_the_same_world():
    time = VirtualTime(3)
    port = WorldPort(time)
    first_life, second_life = Journal(), Journal()

    def begin(ctx):
        ctx.start(ctx.new_op(), port, Look(n=ctx.incarnation), 60.0)
        ctx.wake_at(ctx.now() + 0.5)

    first = SimSystem(3, time=time)
    first.spawn(Probe.options(name="a").bind(first_life, None, begin))
    first.run_until(0.3)
    first.halt()
    assert not first.step(), "a halted system does nothing, nor does it move its world"
    second = SimSystem(3, time=time)
    second.spawn(Probe.options(name="a").bind(second_life, None, begin))
    second.run_until(10.0)
    assert [n for _, n in port.effects] == [0, 0], "the world carries on what the dead agent began"
    assert [entry for entry in first_life.entries if not isinstance(entry, tuple)] == []
    assert [type(entry).__name__ for entry in second_life.entries] == ["tuple", "Alarm", "Outcome"]
    assert second.clock() == 10.0
    assert time.lives == 2
    second.halt()
