"""Alarms, operations, streams: what an actor gets from the world."""

import subprocess
import sys
from functools import partial

import pytest

from api.errors import Failure, FailureKind, NotFoundError, RejectedError
from api.messages.kernel import Alarm, Heard, Outcome, StreamEnded
from tests.harness.kernel import Change, Counted, DonePort, HoldingPort, Level, Look, Note, Tap


def start(world, port, *calls, deadline_s=60.0, name="a"):
    def begin(ctx):
        for call in calls:
            ctx.start(ctx.new_op(), port, call, deadline_s)

    return world.spawn(name, begin=begin)


def outcomes(world):
    return world.journal.of(Outcome)


def test_an_alarm_rings_once_at_its_time(world):
    at = []
    world.spawn("a", begin=lambda ctx: (at.append(ctx.now() + 0.05), ctx.wake_at(at[0])))
    world.until(lambda: world.journal.of(Alarm))
    assert world.journal.of(Alarm) == [Alarm(at=at[0])]
    assert world.system.clock() >= at[0]
    assert world.system.get_actor("/node/a").alarm_in_s is None


def test_a_later_request_replaces_the_alarm_and_none_takes_it_back(world):
    def begin(offsets, ctx):
        for offset in offsets:
            ctx.wake_at(None if offset is None else ctx.now() + offset)

    world.spawn("later", begin=partial(begin, (0.01, 0.1)))
    world.spawn("earlier", begin=partial(begin, (30.0, 0.02)))
    world.spawn("none", begin=partial(begin, (0.01, None)))
    began = world.system.clock()
    world.until(lambda: len(world.journal.of(Alarm)) == 2)
    rung = [round(alarm.at - began, 1) for alarm in world.journal.of(Alarm)]
    assert rung == [0.0, 0.1]
    assert world.system.get_actor("/node/none").handled == 0


def test_an_alarm_in_the_past_rings_at_once(world):
    world.spawn("a", begin=lambda ctx: ctx.wake_at(ctx.now() - 5))
    world.until(lambda: world.journal.of(Alarm))


def test_now_stays_the_same_within_one_receive(world):
    seen = []

    def react(message, ctx):
        first = ctx.now()
        total = sum(range(20_000))
        seen.append((first, ctx.now(), total))

    world.spawn("a", react).tell(Note())
    world.until(lambda: seen)
    assert seen[0][0] == seen[0][1]


def test_a_call_that_returns_is_an_outcome_with_its_result(world):
    start(world, HoldingPort(), Look(n=3))
    world.until(lambda: outcomes(world))
    outcome = outcomes(world)[0]
    assert (outcome.op, outcome.call, outcome.result, outcome.failure) == (1, "Look", Counted(n=3), None)
    assert outcome.started_at <= outcome.ended_at


def test_an_operating_error_is_a_failure_of_its_kind(world):
    port = HoldingPort()

    def refuse(call):
        raise RejectedError("image reference is empty: name an image", reason="InvalidImageName")

    port.does = refuse
    start(world, port, Look())
    world.until(lambda: outcomes(world))
    assert outcomes(world)[0].failure == Failure(
        kind=FailureKind.REJECTED,
        message="image reference is empty: name an image",
        reason="InvalidImageName",
    )


@pytest.mark.parametrize("begins", [True, False])
def test_a_drivers_bug_is_unavailable_and_names_port_call_and_exception(world, begins):
    port = DonePort() if begins else HoldingPort()

    def burst(*_):
        raise KeyError("secret text")

    if begins:
        port.begin = burst
    else:
        port.does = burst
    start(world, port, Look())
    world.until(lambda: outcomes(world))
    failure = outcomes(world)[0].failure
    assert failure.kind is FailureKind.UNAVAILABLE
    for word in (port.name, "Look", "KeyError"):
        assert word in failure.message
    assert "secret" not in failure.message
    assert "KeyError" in world.facts.of("driver raised what no driver may raise")[0]["traceback"]


def test_a_driver_that_gives_nothing_is_unavailable(world):
    port = DonePort()
    start(world, port, Look())
    world.until(lambda: port.begun)
    port.finish(None)
    world.until(lambda: outcomes(world))
    assert outcomes(world)[0].failure.kind is FailureKind.UNAVAILABLE


def test_a_call_that_is_not_answered_times_out_and_its_late_answer_is_ignored(world):
    port = DonePort()
    start(world, port, Look(), deadline_s=0.1)
    world.until(lambda: outcomes(world))
    assert outcomes(world)[0].failure.kind is FailureKind.TIMED_OUT
    assert "done Look: not answered within 0.1 s" in outcomes(world)[0].failure.message
    assert port.undone == 1
    port.finish(Counted(n=1))
    world.settle()
    assert len(outcomes(world)) == 1


def test_a_deadline_of_nothing_still_gives_one_outcome(world):
    start(world, DonePort(), Look(), deadline_s=0.0)
    world.until(lambda: outcomes(world))
    assert outcomes(world)[0].failure.kind is FailureKind.TIMED_OUT


def test_only_the_first_answer_counts(world):
    port = DonePort()
    start(world, port, Look())
    world.until(lambda: port.begun)
    port.finish(Counted(n=1))
    port.finish(Counted(n=2))
    world.until(lambda: outcomes(world))
    world.settle()
    assert [outcome.result for outcome in outcomes(world)] == [Counted(n=1)]


def test_a_port_may_answer_before_begin_returns(world):
    port = DonePort()
    port.at_once = Counted(n=4)
    start(world, port, Look())
    world.until(lambda: outcomes(world))
    assert outcomes(world)[0].result == Counted(n=4)


def test_cancel_asks_the_port_and_its_answer_is_the_outcome(world):
    port = DonePort()
    world.spawn(
        "a",
        lambda message, ctx: isinstance(message, Note) and ctx.cancel(1),
        begin=lambda ctx: ctx.start(ctx.new_op(), port, Look(), 60.0),
    )
    world.until(lambda: port.begun)
    world.system.handle("/node/a").tell(Note())
    world.until(lambda: port.undone)
    assert outcomes(world) == []
    port.finish(None, Failure(kind=FailureKind.CANCELLED, message="as asked"))
    world.until(lambda: outcomes(world))
    assert outcomes(world)[0].failure.kind is FailureKind.CANCELLED


def test_a_call_cancelled_before_it_began_is_never_made(world):
    port = HoldingPort(bounds={"Look": 1})
    port.holds = (Look,) if world.kind == "pooled" else ()

    def begin(ctx):
        for n in range(2):
            ctx.start(ctx.new_op(), port, Look(n=n), 60.0)
        ctx.cancel(2)

    world.spawn("a", begin=begin)
    world.until(lambda: outcomes(world))
    assert (outcomes(world)[0].op, outcomes(world)[0].failure.kind) == (2, FailureKind.CANCELLED)
    port.release.set()
    world.until(lambda: len(outcomes(world)) == 2)
    assert port.calls == [Look(n=0)]


def test_calls_of_one_class_never_starve_those_of_another(make_pooled):
    world = make_pooled()
    port = HoldingPort(bounds={"Change": 3})
    port.holds = (Change,)
    start(world, port, *(Change(n=n) for n in range(100)), Look(n=1))
    world.until(lambda: outcomes(world))
    assert outcomes(world)[0].call == "Look"
    world.until(lambda: len(port.calls) == 4)
    assert len([call for call in port.calls if isinstance(call, Change)]) == 3
    port.release.set()
    world.until(lambda: len(outcomes(world)) == 101)
    assert len(port.calls) == 101


def test_a_call_that_never_began_says_so_at_its_deadline(make_pooled):
    world = make_pooled()
    port = HoldingPort(bounds={"Change": 1})
    port.holds = (Change,)
    start(world, port, Change(n=0), Change(n=1), deadline_s=0.1)
    world.until(lambda: len(outcomes(world)) == 2)
    assert [o.failure.kind for o in outcomes(world)] == [FailureKind.TIMED_OUT] * 2
    assert any("not even begun" in o.failure.message for o in outcomes(world))
    port.release.set()


HANGS = """
import sys
from threading import Event
from runtime.kernel.pooled import PooledSystem
from tests.harness.kernel import Look, Probe, Journal

class Hung:
    name = "hung"
    def perform(self, call, deadline_s):
        begun.set()
        Event().wait()

begun = Event()
system = PooledSystem()
system.spawn(Probe.options(name="a").bind(Journal(), None, lambda ctx: ctx.start(ctx.new_op(), Hung(), Look(), 600.0)))
assert begun.wait(10)
assert system.shutdown(2.0) == ()
"""


def test_a_hung_call_never_holds_up_the_exit():
    subprocess.run([sys.executable, "-c", HANGS], check=True, timeout=20)


def test_items_of_a_stream_are_heard_and_conflated(world):
    tap = Tap()

    def react(message, ctx):
        if message == Note(n=0):
            for n in range(10):
                tap.push(Level(key="k", n=n))
            tap.push(Note(n=1))

    world.spawn("a", react, begin=lambda ctx: ctx.listen(tap)).tell(Note(n=0))
    world.heard(Heard(stream="tap", item=Note(n=1)))
    assert world.journal.of(Heard) == [
        Heard(stream="tap", item=Level(key="k", n=9)),
        Heard(stream="tap", item=Note(n=1)),
    ]


def test_the_end_of_a_stream_is_a_message_behind_its_items(world):
    tap = Tap()
    failure = Failure(kind=FailureKind.UNAVAILABLE, message="socket closed")

    def react(message, ctx):
        if message == Note(n=0):
            tap.push(Note(n=1))
            tap.end(failure)
            tap.push(Note(n=2))
            ctx.listen(tap)

    world.spawn("a", react, begin=lambda ctx: ctx.listen(tap)).tell(Note(n=0))
    world.heard(StreamEnded(stream="tap", failure=failure))
    assert world.journal.entries[-2:] == [
        Heard(stream="tap", item=Note(n=1)),
        StreamEnded(stream="tap", failure=failure),
    ]
    assert len(tap.opened) == 2


def test_an_open_stream_is_left_as_it_is_and_unlisten_closes_it(world):
    tap = Tap()

    def react(message, ctx):
        ctx.listen(tap)
        ctx.unlisten("tap")
        tap.push(Note(n=9))
        ctx.unlisten("tap")

    world.spawn("a", react, begin=lambda ctx: ctx.listen(tap)).tell(Note(n=0))
    world.until(lambda: tap.closed)
    world.settle()
    assert (len(tap.opened), tap.closed) == (1, 1)
    assert world.journal.of(Heard) == []


@pytest.mark.parametrize("error", [NotFoundError("no such folder: /pods"), KeyError("bug")])
def test_a_stream_that_cannot_be_opened_ends_with_the_reason(world, error):
    tap = Tap()
    tap.broken = error
    world.spawn("a", begin=lambda ctx: ctx.listen(tap))
    world.until(lambda: world.journal.of(StreamEnded))
    failure = world.journal.of(StreamEnded)[0].failure
    if isinstance(error, NotFoundError):
        assert failure == error.failure()
    else:
        assert "KeyError" in failure.message
