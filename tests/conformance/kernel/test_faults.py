"""The intercept seam: every planned fault strikes, is counted, and can be planned from what was seen."""

import pytest

from api.errors import FailureKind
from api.faults import (
    CrashActor,
    CutStream,
    DelayMessage,
    DelayOperation,
    DropItem,
    DropMessage,
    DuplicateMessage,
    FailOperation,
    FaultPlan,
    HangOperation,
    JumpWallClock,
    KillProcess,
    When,
)
from api.messages.kernel import Heard, Outcome, StreamEnded
from runtime.kernel.actor import Restart
from runtime.kernel.intercept import FaultInterceptor
from tests.harness.kernel import Counted, HoldingPort, Look, Note, Other, Tap


@pytest.fixture
def broken(make_world):
    """Make a world with these faults; what a kill does is noted in its journal, before it halts."""

    def make(*faults):
        kills = []
        seam = FaultInterceptor(FaultPlan(faults=faults), lambda: (kills.append(1), world.system.halt()))
        world = make_world(interceptor=seam)
        world.seam, world.kills = seam, kills
        return world

    return make


def strikes(world):
    return [count for _, count in world.seam.struck]


def test_an_actor_crashes_on_its_nth_message(broken):
    world = broken(CrashActor(path="/node/*", message="Note", after=1))
    handle = world.spawn("a", restart=Restart(delay_s=0.01))
    for n in range(3):
        handle.tell(Other(n=n))
        handle.tell(Note(n=n))
    world.heard(Note(n=2))
    assert [note.n for note in world.journal.of(Note)] == [0, 2]
    assert world.system.get_actor("/node/a").death_cause == "FaultError: planned crash of /node/a on Note"
    assert strikes(world) == [1]


@pytest.mark.parametrize("where", ["begin", "react", "end"])
def test_a_death_that_no_fault_planned_is_known(broken, where):
    def fail(*args):
        if args[-1].incarnation == 0:
            raise LookupError(where)

    world = broken(CrashActor(path="/node/planned"))
    for name, hooks in (("planned", {}), ("bug", {where: fail})):
        handle = world.spawn(name, restart=Restart(delay_s=0.01), **hooks)
        world.until(lambda name=name: world.state_of(f"/node/{name}") in {"ALIVE", "RESTARTING"})
        handle.tell(Note(n=1))
    world.settle()
    handle.ref.stop(block=False)
    world.until(lambda: world.state_of("/node/bug") == "DEAD")
    assert strikes(world) == [1]
    assert world.seam.unplanned == [("/node/bug", f"LookupError: {where}")]


def test_a_message_is_dropped_and_the_accounts_balance(broken):
    world = broken(DropMessage(path="/node/a", message="Note", after=1, times=2))
    handle = world.spawn("a")
    for n in range(5):
        handle.tell(Note(n=n))
    world.heard(Note(n=4))
    assert [note.n for note in world.journal.of(Note)] == [0, 3, 4]
    assert [letter.reason for letter in world.system.dead_letters()] == ["fault", "fault"]
    total = world.system.summarize_actors()
    assert (total.accepted, total.handled, total.dead_lettered) == (5, 3, 2)


def test_a_message_is_delayed_past_later_ones(broken):
    world = broken(DelayMessage(path="/node/a", delay_s=0.05))
    handle = world.spawn("a")
    for n in range(3):
        handle.tell(Note(n=n))
    world.heard(Note(n=0))
    assert [note.n for note in world.journal.of(Note)] == [1, 2, 0]


def test_a_message_is_delivered_twice(broken):
    world = broken(DuplicateMessage(path="/node/a"))
    handle = world.spawn("a")
    for n in range(2):
        handle.tell(Note(n=n))
    world.heard(Note(n=1))
    assert [note.n for note in world.journal.of(Note)] == [0, 0, 1]


def operate(world, deadline_s=60.0):
    port = HoldingPort()

    def react(message, ctx):
        if isinstance(message, Note):
            ctx.start(ctx.new_op(), port, Look(n=message.n), deadline_s)

    world.handle = world.spawn("a", react)
    world.handle.tell(Note(n=1))
    return port


@pytest.mark.parametrize(("when", "made"), [(When.BEFORE, 0), (When.AFTER, 1)])
def test_an_operation_fails_before_or_after_its_effect(broken, when, made):
    world = broken(FailOperation(port="holding", call="Look", when=when, kind="Conflict"))
    port = operate(world)
    world.until(lambda: world.journal.of(Outcome))
    assert world.journal.of(Outcome)[0].failure.kind is FailureKind.CONFLICT
    assert len(port.calls) == made
    world.handle.tell(Note(n=2))
    world.until(lambda: len(world.journal.of(Outcome)) == 2)
    assert world.journal.of(Outcome)[1].result == Counted(n=2)
    assert strikes(world) == [1]


@pytest.mark.parametrize(("when", "made"), [(When.BEFORE, 0), (When.AFTER, 1)])
def test_an_operation_hangs_until_its_deadline(broken, when, made):
    world = broken(HangOperation(port="holding", when=when))
    port = operate(world, deadline_s=0.2)
    world.until(lambda: world.journal.of(Outcome))
    assert world.journal.of(Outcome)[0].failure.kind is FailureKind.TIMED_OUT
    assert len(port.calls) == made


def test_an_operation_is_completed_later_than_the_port_did(broken):
    world = broken(DelayOperation(port="holding", delay_s=0.1))
    operate(world)
    began = world.system.clock()
    world.until(lambda: world.journal.of(Outcome))
    assert world.journal.of(Outcome)[0].result == Counted(n=1)
    assert world.system.clock() - began >= 0.1


@pytest.mark.parametrize(("when", "made"), [(When.BEFORE, 0), (When.AFTER, 1)])
def test_the_process_is_killed_before_or_after_an_effect(broken, when, made):
    world = broken(KillProcess(port="holding", when=when))
    port = operate(world)
    world.until(lambda: world.kills)
    assert len(port.calls) == made
    assert world.system.halted
    world.handle.tell(Note(n=2))
    assert world.journal.of(Outcome) == []
    assert world.system.dead_letters() == ()


def test_a_stream_is_cut_at_its_nth_item_and_loses_items(broken):
    world = broken(DropItem(stream="ta*"), CutStream(stream="tap", after=2))
    tap = Tap()
    world.spawn("a", begin=lambda ctx: ctx.listen(tap))
    world.until(lambda: tap.opened)
    for n in range(4):
        tap.push(Note(n=n))
    world.until(lambda: world.journal.of(StreamEnded))
    assert world.journal.of(Heard) == [Heard(stream="tap", item=Note(n=1))]
    assert world.journal.of(StreamEnded)[0].failure.kind is FailureKind.UNAVAILABLE
    assert tap.closed == 1
    assert strikes(world) == [1, 1]


def test_the_wall_clock_jumps_at_a_reading_but_never_the_monotonic_one(broken):
    world = broken(JumpWallClock(by_s=3600.0, after=1))
    seen = []
    handle = world.spawn("a", lambda message, ctx: seen.append((ctx.now(), ctx.wall())))
    for n in range(3):
        handle.tell(Note(n=n))
    world.until(lambda: len(seen) == 3)
    (now0, wall0), (now1, wall1), (now2, wall2) = seen
    assert wall1 - wall0 >= 3_600_000_000_000
    assert wall2 - wall1 < 60_000_000_000
    assert now2 - now0 < 60.0
    assert now1 >= now0


def test_the_points_seen_say_where_faults_could_strike(broken):
    world = broken()
    operate(world)
    world.until(lambda: world.journal.of(Outcome))
    assert world.seam.points == (("holding", "Look", When.AFTER, 1), ("holding", "Look", When.BEFORE, 1))


def test_the_first_fault_that_strikes_wins_and_each_counts_what_it_selects(broken):
    world = broken(DropMessage(path="*"), DuplicateMessage(path="*", after=1))
    handle = world.spawn("a")
    for n in range(3):
        handle.tell(Note(n=n))
    world.heard(Note(n=2))
    assert [note.n for note in world.journal.of(Note)] == [1, 1, 2]
