"""What people see, also while actors are stuck."""

from threading import Event

import msgspec
import pytest

from api.errors import Failure, FailureKind, NotFoundError
from api.messages.kernel import Outcome
from api.shown.introspection import HOP_BOUNDS_S, Hop
from runtime.kernel.trace import RING_DEPTH
from tests.harness.kernel import Counted, DonePort, Level, Look, Note


def crash(message, ctx):
    if message == Note(n=99):
        raise ValueError("as planned")


def test_the_trace_keeps_the_last_deliveries_with_what_came_of_them(world):
    handle = world.spawn("a")
    for n in range(30):
        handle.tell(Note(n=n))
    world.heard(Note(n=29))
    world.settle()
    rows = world.system.trace("/node/a", 100)
    assert len(rows) == RING_DEPTH
    assert [row.message for row in rows] == [f"Note {n}" for n in range(14, 30)]
    assert rows[-1].outcome == "counted 30"
    assert world.system.trace("/node/a", 2) == rows[-2:]


def test_the_message_that_killed_an_incarnation_stays_in_the_trace_and_is_dumped(world):
    handle = world.spawn("a", crash, max_restarts=0)
    handle.tell(Note(n=1))
    handle.tell(Note(n=99))
    world.until(lambda: world.state_of("/node/a") == "DEAD")
    last = world.system.trace("/node/a", 1)[0]
    assert (last.message, last.outcome) == ("Note 99", "ValueError: as planned")
    dumped = world.facts.of("incarnation died")[0]
    assert "Note 1 | counted 1" in dumped["deliveries"][-2]
    assert "as planned" in dumped["traceback"]


def test_a_message_with_a_faulty_brief_costs_nobody_anything(world):
    class Faulty(Note, frozen=True, kw_only=True):
        def brief(self):
            raise ValueError("no words")

    world.spawn("a").tell(Faulty(n=1))
    world.heard(Faulty(n=1))
    world.settle()
    assert "brief() raised ValueError" in world.system.trace("/node/a", 1)[0].message


def test_the_committed_state_is_that_after_the_last_handled_message(world):
    handle = world.spawn("a", crash, max_restarts=0)
    for n in (1, 2, 99):
        handle.tell(Note(n=n))
    world.until(lambda: world.state_of("/node/a") == "DEAD")
    assert world.system.committed("/node/a") == Counted(n=2)
    assert world.system.committed("/node/x") is None
    assert world.system.committed_children("/node") == (("/node/a", Counted(n=2)),)


def test_committed_children_are_those_of_one_parent(world):
    world.spawn("p", begin=lambda ctx: [ctx.spawn(world.spec(name)) for name in ("y", "x")])
    world.heard(("start", "/node/p/x", 0))
    for name in ("x", "y"):
        world.system.handle(f"/node/p/{name}").tell(Note())
    world.until(lambda: len(world.system.committed_children("/node/p")) == 2)
    assert world.system.committed_children("/node/p") == (
        ("/node/p/x", Counted(n=1)),
        ("/node/p/y", Counted(n=1)),
    )
    assert world.system.committed_children("/node") == ()


def test_a_row_shows_operations_alarm_and_counters(world):
    port = DonePort()

    def begin(ctx):
        ctx.start(ctx.new_op(), port, Look(), 60.0)
        ctx.wake_at(ctx.now() + 100.0)

    world.spawn("a", begin=begin).tell(Level(key="k", n=1))
    world.until(lambda: port.begun and world.system.get_actor("/node/a").handled == 1)
    row = world.system.get_actor("/node/a")
    assert [(op.op, op.port, op.call) for op in row.operations] == [(1, "done", "Look")]
    assert 90.0 < row.alarm_in_s <= 100.0
    assert row.handled == 1
    assert msgspec.json.encode(row)


def test_rows_come_parents_before_children(world):
    world.spawn("b", begin=lambda ctx: ctx.spawn(world.spec("c")))
    world.heard(("start", "/node/b/c", 0))
    world.spawn("a")
    assert [row.path for row in world.system.list_actors()] == ["/node/a", "/node/b", "/node/b/c"]


def test_asking_for_somebody_unknown_is_not_found(world):
    for look in (world.system.get_actor, world.system.trace):
        with pytest.raises(NotFoundError):
            look("/node/nobody")


@pytest.fixture
def stuck(make_pooled):
    """A world in which six actors hold their threads until released."""
    world = make_pooled(ping_s=0.05, ping_limit_s=0.1, held_s=0.05)
    world.release = Event()

    def react(message, ctx):
        if message == Note(n=0):
            world.release.wait(20)

    handles = [world.spawn(f"a{n}", react) for n in range(6)]
    for handle in handles:
        handle.tell(Note(n=0))
    yield world
    world.release.set()


def test_others_go_on_while_handlers_hold_their_threads(stuck):
    stuck.spawn("b").tell(Note(n=5))
    stuck.heard(Note(n=5))
    stuck.until(lambda: stuck.system.threads >= 7)
    line = stuck.facts.of("handler holds its thread")[0]
    assert line["message"] == "Note 0"
    assert "wait" in line["stack"]


def test_whom_a_held_handler_told_is_not_held_up_with_it(make_pooled):
    world = make_pooled(held_s=0.05)
    told, answers = world.spawn("b", lambda message, ctx: heard.set()), []
    heard = Event()

    def react(message, ctx):
        told.tell(Note(n=5))
        answers.append(heard.wait(20))

    world.spawn("a", react).tell(Note(n=0))
    world.until(lambda: answers)
    assert answers == [True]


def test_health_names_the_stuck_actor_its_message_and_where_it_stands(stuck):
    stuck.until(lambda: len(stuck.system.summarize_actors().stuck) == 6)
    sentence = stuck.system.get_actor("/node/a0").unresponsive
    assert sentence.startswith("/node/a0 handles Note 0 for ")
    assert "threading.py" in sentence
    assert sentence.split(" for ")[0] in stuck.system.summarize_actors().stuck[0]
    stuck.release.set()
    stuck.until(lambda: stuck.system.summarize_actors().stuck == ())
    stuck.until(lambda: stuck.system.threads == 2)


def test_reads_answer_and_stops_name_who_is_alive_while_actors_are_stuck(stuck):
    stuck.until(lambda: stuck.system.get_actor("/node/a5").current_message == "Note 0")
    stuck.system.handle("/node/a5").tell(Note(n=1))
    row = stuck.system.get_actor("/node/a5")
    assert (row.mailbox_depth, row.state.value) == (1, "ALIVE")
    alive = stuck.system.shutdown(0.2)
    assert alive == tuple(f"/node/a{n}" for n in range(6))


def test_when_no_thread_is_left_the_ping_says_so(make_pooled):
    world = make_pooled(ping_s=0.05, ping_limit_s=0.1, held_s=0.05, spares=0)
    release = Event()
    for n in range(2):
        world.spawn(f"a{n}", lambda message, ctx: release.wait(20)).tell(Note())
    world.spawn("b")
    world.until(lambda: "has not answered its ping" in world.system.get_actor("/node/b").unresponsive)
    release.set()
    world.until(lambda: world.system.get_actor("/node/b").unresponsive == "")


def test_a_child_that_does_not_stop_in_time_is_named_and_keeps_its_name(make_pooled):
    world = make_pooled()
    release = Event()
    held = world.spec("c", lambda message, ctx: release.wait(20), stop_deadline_s=0.05)
    parent = world.spawn("p", begin=lambda ctx: ctx.spawn(held))
    world.heard(("start", "/node/p/c", 0))
    world.system.handle("/node/p/c").tell(Note())
    world.heard(Note())
    parent.ref.stop(block=False)
    world.until(lambda: world.state_of("/node/p") == "DEAD")
    assert world.facts.of("child did not stop in time")[0]["child"] == "/node/p/c"
    assert world.state_of("/node/p/c") == "ALIVE"
    release.set()
    world.until(lambda: world.state_of("/node/p/c") == "DEAD")


def hop(world, kind, name="Scripted"):
    return next((row for row in world.system.hops() if row.hop is kind and row.name == name), None)


def test_every_hop_of_a_message_is_counted_by_class(world):
    handle = world.spawn("a", crash)
    name = world.system.get_actor("/node/a").class_name
    for n in (1, 2, 99):
        handle.tell(Note(n=n))
    world.until(lambda: world.system.get_actor("/node/a").num_restarts == 1)
    handle.tell(Note(n=4))
    world.heard(Note(n=4))
    world.settle()
    waited, handled = hop(world, Hop.MAILBOX, name), hop(world, Hop.HANDLER, name)
    assert sum(waited.counts) == 4
    # What kills an incarnation was handled too.
    assert sum(handled.counts) == 4 == world.system.get_actor("/node/a").handled
    assert handled.endings == (("restarted", 1),)
    assert len(handled.counts) == len(HOP_BOUNDS_S) + 1
    assert handled.sum_s >= 0


def test_calls_are_counted_by_port_and_how_they_ended(world):
    port = DonePort()
    for name in "ab":
        world.spawn(name, begin=lambda ctx: ctx.start(ctx.new_op(), port, Look(n=1), 60.0))
    world.until(lambda: len(port.begun) == 2)
    port.begun[0][2](Counted(n=1), None)
    port.begun[1][2](None, Failure(kind=FailureKind.DENIED, message="not yours"))
    world.until(lambda: len(world.journal.of(Outcome)) == 2)
    row = hop(world, Hop.OPERATION, port.name)
    assert (row.call, sum(row.counts)) == ("Look", 2)
    assert row.endings == (("Denied", 1), ("ok", 1))


def test_dead_letters_are_counted_by_reason(world):
    world.system.route("/node/nobody", Note(n=1))
    world.system.route("/node/nobody", Note(n=2))
    assert world.system.dead_letter_counts() == (("no such actor", 2),)
