"""Incarnations, supervision, stopping: who lives, who dies, who is told."""

import pytest

from api.errors import AlreadyExistsError
from api.messages.kernel import ChildDied, Outcome, Restarted
from runtime.kernel.actor import Restart
from runtime.kernel.failure import ActorDiedError
from tests.harness.kernel import Change, Counted, DonePort, HoldingPort, Look, Note, Probe, Tap

QUICK = Restart(max_restarts=3, window_s=60.0, delay_s=0.01, growth=1.0)


def crash_on(n):
    def react(message, ctx):
        if message == Note(n=n):
            raise ValueError(f"crash {n}")

    return react


def test_an_exception_ends_the_incarnation_but_handle_and_mailbox_stay(world):
    def react(message, ctx):
        if message == Note(n=0):
            for n in (1, 2, 3):
                ctx.self.tell(Note(n=n))
        crash_on(1)(message, ctx)

    handle = world.spawn("a", react, restart=QUICK)
    handle.tell(Note(n=0))
    world.heard(Note(n=3))
    handle.tell(Note(n=4))
    world.heard(Note(n=4))
    start0, start1 = ("start", "/node/a", 0), ("start", "/node/a", 1)
    assert world.journal.entries == [start0, Note(n=0), Note(n=1), start1, Note(n=2), Note(n=3), Note(n=4)]
    row = world.system.get_actor("/node/a")
    assert (row.num_restarts, row.incarnation, row.death_cause) == (1, 1, "ValueError: crash 1")


class FailsToBeMade(Probe):
    lives = 0

    def __init__(self, journal, *rest):
        super().__init__(journal, *rest)
        FailsToBeMade.lives += 1
        if FailsToBeMade.lives == 1:
            raise ValueError("not made")


class FailsToStart(Probe):
    def on_start(self, ctx):
        if ctx.incarnation == 0:
            raise ValueError("not started")
        super().on_start(ctx)


@pytest.mark.parametrize(("actor", "cause"), [(FailsToBeMade, "not made"), (FailsToStart, "not started")])
def test_constructor_and_on_start_fail_as_receive_does(world, actor, cause):
    FailsToBeMade.lives = 0
    handle = world.system.spawn(world.spec("a", actor=actor, restart=QUICK))
    handle.tell(Note(n=1))
    world.heard(Note(n=1))
    row = world.system.get_actor("/node/a")
    assert (row.num_restarts, row.death_cause) == (1, f"ValueError: {cause}")


def test_parent_and_watchers_are_told_of_a_restart(world):
    child = world.spec("c", crash_on(1), restart=QUICK)
    world.spawn("p", begin=lambda ctx: ctx.spawn(child))
    world.heard(("start", "/node/p/c", 0))
    world.spawn("w", begin=lambda ctx: ctx.watch("/node/p/c"))
    world.heard(("start", "/node/w", 0))
    world.system.handle("/node/p/c").tell(Note(n=1))
    world.until(lambda: len(world.journal.of(Restarted)) == 2)
    told = Restarted(path="/node/p/c", incarnation=1, cause="ValueError: crash 1")
    assert world.journal.of(Restarted) == [told, told]
    assert world.system.get_actor("/node/w").handled == 1
    assert world.system.get_actor("/node/p").handled == 1


def test_past_its_budget_an_actor_is_dead_and_its_parent_is_told_the_cause(world):
    child = world.spec("c", crash_on(1), restart=Restart(max_restarts=2, delay_s=0.01))
    world.spawn("p", begin=lambda ctx: ctx.spawn(child))
    world.heard(("start", "/node/p/c", 0))
    for _ in range(3):
        world.system.handle("/node/p/c").tell(Note(n=1))
    world.heard(ChildDied(path="/node/p/c", cause="ValueError: crash 1"))
    row = world.system.get_actor("/node/p/c")
    assert (row.state.value, row.num_restarts) == ("DEAD", 2)
    assert world.state_of("/node/p") == "ALIVE"
    assert world.system.failed is None


def test_an_actor_below_the_root_past_its_budget_fails_the_system(world):
    world.spawn("a", crash_on(1), max_restarts=0).tell(Note(n=1))
    assert world.system.wait(5.0)
    assert "crash 1" in world.system.failed.message


def test_a_stopped_actor_fails_nothing(world):
    world.spawn("a", lambda message, ctx: ctx.stop(ctx.self.path)).tell(Note())
    world.until(lambda: world.state_of("/node/a") == "DEAD")
    assert world.system.failed is None


def test_a_restart_waits_ever_longer(world):
    world.spawn("a", begin=lambda ctx: 1 / 0, restart=Restart(max_restarts=3, delay_s=0.05, growth=2.0))
    began = world.system.clock()
    world.until(lambda: world.state_of("/node/a") == "DEAD")
    assert world.system.clock() - began >= 0.05 + 0.1 + 0.2


def test_the_new_incarnation_gets_the_outcomes_of_the_old_ones_operations(world):
    port = DonePort()

    def react(message, ctx):
        if message == Note(n=0):
            ctx.start(ctx.new_op(), port, Change(), 60.0)
        crash_on(1)(message, ctx)

    handle = world.spawn("a", react, restart=QUICK)
    handle.tell(Note(n=0))
    world.until(lambda: port.begun)
    handle.tell(Note(n=1))
    world.heard(("start", "/node/a", 1))
    assert len(world.system.get_actor("/node/a").operations) == 1
    port.finish(Counted(n=9))
    world.until(lambda: world.journal.of(Outcome))
    assert world.journal.of(Outcome)[0].result == Counted(n=9)
    assert world.system.get_actor("/node/a").operations == ()


def test_the_new_incarnation_sees_what_the_old_one_left_under_way_and_may_cancel_it(world):
    port, seen = DonePort(), []

    def begin(ctx):
        seen.extend((ctx.call_name(op), ctx.call_name(op + 1)) for op in ctx.in_flight())
        for op in ctx.in_flight():
            ctx.cancel(op)

    def react(message, ctx):
        if message == Note(n=0):
            ctx.start(ctx.new_op(), port, Change(), 60.0)
        crash_on(1)(message, ctx)

    handle = world.spawn("a", react, begin=begin, restart=QUICK)
    handle.tell(Note(n=0))
    world.until(lambda: port.begun)
    handle.tell(Note(n=1))
    world.until(lambda: port.undone)
    assert seen == [("Change", "")]


def test_operation_ids_go_on_over_incarnations(world):
    ids = []

    def react(message, ctx):
        ids.append(ctx.new_op())
        crash_on(1)(message, ctx)

    handle = world.spawn("a", react, restart=QUICK)
    for n in (0, 1, 2):
        handle.tell(Note(n=n))
    world.until(lambda: len(ids) == 3)
    assert ids == [1, 2, 3]


def test_streams_end_with_their_incarnation_and_the_next_opens_them_again(world):
    tap = Tap()
    handle = world.spawn("a", crash_on(1), begin=lambda ctx: ctx.listen(tap), restart=QUICK)
    world.until(lambda: len(tap.opened) == 1)
    first_push = tap.opened[0][0]
    handle.tell(Note(n=1))
    world.until(lambda: len(tap.opened) == 2)
    assert tap.closed == 1
    first_push(Note(n=7))
    tap.push(Note(n=8))
    world.until(lambda: any(getattr(entry, "item", None) == Note(n=8) for entry in world.journal.entries))
    assert not any(getattr(entry, "item", None) == Note(n=7) for entry in world.journal.entries)


def test_children_survive_a_restart_of_their_parent(world):
    seen = []

    def begin(ctx):
        seen.append(ctx.children())
        if not ctx.children():
            ctx.spawn(world.spec("c"))

    handle = world.spawn("p", crash_on(1), begin=begin, restart=QUICK)
    handle.tell(Note(n=1))
    world.heard(("start", "/node/p", 1))
    world.until(lambda: len(seen) == 2)
    assert seen == [(), ("/node/p/c",)]
    assert world.system.get_actor("/node/p/c").incarnation == 0


def test_a_name_is_free_only_when_its_holder_is_gone(world):
    first = world.spawn("a")
    with pytest.raises(AlreadyExistsError):
        world.spawn("a")
    world.system.kill(first)
    world.until(lambda: world.state_of("/node/a") == "DEAD")
    second = world.spawn("a")
    first.tell(Note(n=1))
    second.tell(Note(n=2))
    world.heard(Note(n=2))
    assert Note(n=1) not in world.journal
    with pytest.raises(ActorDiedError):
        world.system.kill(first)
    assert first != second


def test_a_watcher_of_somebody_already_dead_is_told_at_once(world):
    world.spawn("w", begin=lambda ctx: ctx.watch("/node/gone"))
    world.heard(ChildDied(path="/node/gone", cause="no such actor"))


def test_a_watcher_is_told_of_a_stop_without_a_cause(world):
    handle = world.spawn("a", lambda message, ctx: ctx.stop(ctx.self.path))
    world.spawn("w", begin=lambda ctx: ctx.watch("/node/a"))
    world.heard(("start", "/node/w", 0))
    handle.tell(Note())
    world.heard(ChildDied(path="/node/a", cause=""))


def test_children_stop_in_reverse_order_before_their_parent(world):
    def begin(ctx):
        for name in ("x", "y", "z"):
            ctx.spawn(world.spec(name))

    world.spawn("p", begin=begin)
    world.heard(("start", "/node/p/z", 0))
    assert world.system.shutdown(5.0) == ()
    stops = [entry[1] for entry in world.journal.of(tuple) if entry[0] == "stop"]
    assert stops == ["/node/p/z", "/node/p/y", "/node/p/x", "/node/p"]
    assert world.system.wait(1.0)
    assert world.system.failed is None


def test_the_last_started_below_the_root_stops_first(world):
    for name in ("x", "y", "z"):
        world.spawn(name)
    assert world.system.shutdown(5.0) == ()
    assert [entry[1] for entry in world.journal.of(tuple) if entry[0] == "stop"] == [
        "/node/z",
        "/node/y",
        "/node/x",
    ]


def test_a_parent_stops_a_child_and_is_told_when_it_is_gone(world):
    handle = world.spawn("p", note_stops, begin=lambda ctx: ctx.spawn(world.spec("c")))
    handle.tell(Note(n=0))
    world.heard(ChildDied(path="/node/p/c", cause=""))
    assert world.state_of("/node/p/c") == "DEAD"
    assert world.journal.entries[-2:] == [("stop", "/node/p/c"), ChildDied(path="/node/p/c", cause="")]


def note_stops(message, ctx):
    if message == Note(n=0):
        ctx.stop("/node/p/c")


def test_kill_without_restart_is_for_good_and_without_goodbye(world):
    handle = world.spawn("p", begin=lambda ctx: ctx.spawn(world.spec("c")))
    world.heard(("start", "/node/p/c", 0))
    world.system.kill(handle, no_restart=True)
    world.until(lambda: world.state_of("/node/p") == "DEAD")
    assert world.system.get_actor("/node/p").death_cause == "killed"
    assert ("stop", "/node/p") not in world.journal
    assert world.state_of("/node/p/c") == "DEAD"


def test_kill_with_restart_costs_one_incarnation(world):
    handle = world.spawn("a", restart=QUICK)
    world.heard(("start", "/node/a", 0))
    world.system.kill(handle, no_restart=False)
    world.heard(("start", "/node/a", 1))
    assert world.system.get_actor("/node/a").num_restarts == 1


def test_on_stop_that_raises_is_logged_and_still_a_stop(world):
    world.spawn("a", end=lambda ctx: 1 / 0)
    assert world.system.shutdown(5.0) == ()
    assert "ZeroDivisionError" in world.facts.of("on_stop failed")[0]["traceback"]


def test_calls_that_had_not_begun_are_not_made_for_the_dead(world):
    port = HoldingPort(bounds={"Look": 1})
    port.holds = (Look,)

    def react(message, ctx):
        for n in range(3):
            ctx.start(ctx.new_op(), port, Look(n=n), 60.0)
        ctx.stop(ctx.self.path)

    if world.kind == "sim":
        port.holds = ()
    world.spawn("a", react).tell(Note())
    world.until(lambda: world.state_of("/node/a") == "DEAD")
    port.release.set()
    world.settle()
    assert len(port.calls) <= 1
