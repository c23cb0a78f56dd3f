"""Mailboxes, handles, dead letters: what becomes of a message."""

from threading import Event, Thread

import pykka
import pytest
from pykka import ActorRegistry

from api.errors import RejectedError, TimedOutError
from api.shown.introspection import ActorState
from runtime.kernel.actor import Actor
from runtime.kernel.cell import Cell
from runtime.kernel.failure import ActorDiedError, ActorUnavailableError
from tests.harness.kernel import Answer, Counted, DonePort, HoldingPort, Level, Look, Note, Other, Question


def test_a_cell_is_a_pykka_actor_in_its_registry(world):
    world.spawn("a")
    cells = [ref for ref in ActorRegistry.get_by_class(Cell) if ref.is_alive()]
    assert [ref for ref in cells if ref == world.system._cells["/node/a"].handle.ref]


def test_tell_goes_through_pykkas_actor_ref(world, monkeypatch):
    told = []
    tell = pykka.ActorRef.tell
    monkeypatch.setattr(
        pykka.ActorRef, "tell", lambda ref, message: (told.append(message), tell(ref, message))[1]
    )
    world.spawn("a").tell(Note(n=1))
    world.system.handle("/node/a").tell(Note(n=2))
    world.heard(Note(n=1), Note(n=2))
    assert told == [Note(n=1), Note(n=2)]


def test_pykkas_own_stop_stops_a_cell(world):
    handle = world.spawn("a")
    stopped = handle.ref.stop(block=False)
    world.until(lambda: world.state_of("/node/a") == "DEAD")
    assert stopped.get(timeout=5)
    assert ("stop", "/node/a") in world.journal
    assert not handle.ref.is_alive()
    assert handle.ref not in ActorRegistry.get_all()


def test_messages_of_one_sender_arrive_in_order(world):
    handle = world.spawn("a")
    sent = [Note(n=n) for n in range(200)]
    for note in sent:
        handle.tell(note)
    world.heard(sent[-1])
    assert world.journal.of(Note) == sent


def test_an_outcome_overtakes_ordinary_messages(world):
    port = DonePort()
    port.at_once = Counted(n=1)

    def react(message, ctx):
        if message == Note(n=0):
            for n in (1, 2):
                ctx.self.tell(Note(n=n))
            ctx.start(ctx.new_op(), port, Look(), 5.0)
            if world.kind == "sim":
                # In simulation an outcome takes virtual time, so put it there while the notes wait.
                world.system.after_effect = lambda then: then()
                world.system._cells["/node/a"].operations[1].carry_out()

    world.spawn("a", react).tell(Note(n=0))
    world.heard(Note(n=2))
    names = [type(entry).__name__ for entry in world.journal.entries[1:]]
    assert names == ["Note", "Outcome", "Note", "Note"]


def test_what_does_not_fit_is_a_dead_letter_and_the_sender_goes_on(world):
    def react(message, ctx):
        if message == Note(n=-1):
            for n in range(10):
                ctx.self.tell(Note(n=n))

    world.spawn("a", react, mailbox=4).tell(Note(n=-1))
    world.heard(Note(n=3))
    world.settle()
    assert [note.n for note in world.journal.of(Note)] == [-1, 0, 1, 2, 3]
    letters = world.system.dead_letters()
    assert [(letter.to, letter.message, letter.reason) for letter in letters] == [
        ("/node/a", f"Note {n}", "full") for n in range(4, 10)
    ]
    assert world.system.get_actor("/node/a").mailbox_high_water == 4


def test_an_outcome_has_its_place_in_a_full_mailbox(world):
    port = HoldingPort()

    def react(message, ctx):
        if message == Note(n=-1):
            ctx.start(ctx.new_op(), port, Look(n=5), 5.0)
            for n in range(10):
                ctx.self.tell(Note(n=n))

    world.spawn("a", react, mailbox=1).tell(Note(n=-1))
    world.until(
        lambda: any(getattr(entry, "result", None) == Counted(n=5) for entry in world.journal.entries)
    )


def test_a_level_keeps_only_its_newest_and_does_not_count_against_the_bound(world):
    def react(message, ctx):
        if message == Note(n=-1):
            for n in range(500):
                ctx.self.tell(Level(key=f"k{n % 2}", n=n))
            ctx.self.tell(Note(n=1))

    world.spawn("a", react, mailbox=1).tell(Note(n=-1))
    world.heard(Note(n=1))
    assert [(level.key, level.n) for level in world.journal.of(Level)] == [("k0", 498), ("k1", 499)]
    assert world.system.get_actor("/node/a").conflated == 498


def test_the_newest_level_does_not_overtake_what_was_told_before_it(world):
    def react(message, ctx):
        if message == Note(n=-1):
            ctx.self.tell(Level(key="k", n=1))
            ctx.self.tell(Note(n=2))
            ctx.self.tell(Level(key="k", n=3))

    world.spawn("a", react).tell(Note(n=-1))
    world.heard(Level(key="k", n=3))
    assert world.journal.entries[2:] == [Note(n=2), Level(key="k", n=3)]


def test_tell_to_nobody_is_a_dead_letter_and_never_raises(world):
    world.system.handle("/node/nobody").tell(Note(n=1))
    letter = world.system.dead_letters()[0]
    assert (letter.to, letter.reason) == ("/node/nobody", "no such actor")


def test_what_is_no_message_is_a_dead_letter_and_never_raises(world):
    world.spawn("a").tell({"not": "a message"})
    letter = world.system.dead_letters()[0]
    assert (letter.message, letter.reason) == ("dict", "not a message")


def test_messages_to_an_actor_that_stops_are_dead_letters_with_that_reason(world):
    def react(message, ctx):
        if message == Note(n=0):
            ctx.self.tell(Note(n=1))
            ctx.stop(ctx.self.path)

    handle = world.spawn("a", react, end=lambda ctx: ctx.self.tell(Note(n=2)))
    handle.tell(Note(n=0))
    world.until(lambda: world.state_of("/node/a") == "DEAD")
    handle.tell(Note(n=3))
    assert [(letter.message, letter.reason) for letter in world.system.dead_letters()] == [
        ("Note 1", "stopping"),
        ("Note 2", "stopping"),
        ("Note 3", "no such actor"),
    ]


def test_dead_letters_are_logged_ever_more_rarely(world):
    for n in range(120):
        world.system.handle("/node/nobody").tell(Note(n=n))
    assert [facts["count"] for facts in world.facts.of("dead letter")] == [1, 10, 100]


def test_the_accounts_of_messages_balance(world):
    def react(message, ctx):
        if isinstance(message, Other) and message.n % 7 == 0:
            raise ValueError("seven")
        if message == Note(n=-1):
            for n in range(50):
                ctx.self.tell(Other(n=n))
                ctx.self.tell(Level(key="k", n=n))

    first = world.spawn("a", react, mailbox=20)
    second = world.spawn("b", react, mailbox=20)
    for handle in (first, second):
        handle.tell(Note(n=-1))
    world.system.handle("/node/nobody").tell(Note())
    world.until(lambda: world.system.get_actor("/node/b").num_restarts >= 1)
    world.system.kill(second)
    world.until(lambda: world.state_of("/node/b") == "DEAD")
    second.tell(Note())
    total = world.system.summarize_actors()
    assert total.accepted == total.handled + total.conflated + total.dead_lettered + total.pending
    assert total.accepted == 2 * 101 + 2
    assert total.conflated >= 98


def test_ask_returns_what_is_told_to_its_reply_path(world):
    world.spawn("a", lambda message, ctx: ctx.handle(message.asked_by).tell(Answer()))
    assert world.system.ask("/node/a", lambda here: Question(asked_by=here), 5.0) == Answer()


def test_an_answer_after_the_deadline_is_a_dead_letter(world):
    asked = []
    world.spawn("a", lambda message, ctx: asked.append(message.asked_by))
    with pytest.raises(TimedOutError, match="did not answer"):
        world.system.ask("/node/a", lambda here: Question(asked_by=here), 0.1)
    world.system.handle(asked[0]).tell(Answer())
    assert world.system.dead_letters()[0].reason == "expired"


def test_asking_the_dead_raises_with_the_cause_of_death(world):
    def react(message, ctx):
        raise ValueError("no questions")

    world.spawn("a", react, max_restarts=0)
    with pytest.raises(ActorDiedError, match="no questions"):
        world.system.ask("/node/a", lambda here: Question(asked_by=here), 5.0)
    with pytest.raises(ActorDiedError, match="no questions"):
        world.system.ask("/node/a", lambda here: Question(asked_by=here), 5.0)
    with pytest.raises(ActorDiedError, match="never started"):
        world.system.ask("/node/x", lambda here: Question(asked_by=here), 5.0)


def test_asking_one_that_restarts_waits_and_then_says_that_it_may_come_back(world):
    def begin(ctx):
        raise ValueError("not today")

    world.spawn("a", begin=begin, max_restarts=100)
    with pytest.raises(ActorUnavailableError, match="not today"):
        world.system.ask("/node/a", lambda here: Question(asked_by=here), 0.2)


def test_names_must_be_one_step_of_a_path(world):
    with pytest.raises(RejectedError, match="one step of a path"):
        world.spawn("a/b")


def test_handles_can_be_compared(world):
    first, second = world.spawn("a"), world.spawn("b")
    assert first != second
    assert first == world.system._cells["/node/a"].handle
    assert world.system.handle("/node/a") == world.system.handle("/node/a")
    assert len({first, second, first}) == 2


def test_states_have_rays_names(world):
    world.spawn("a")
    world.until(lambda: world.state_of("/node/a") == ActorState.ALIVE.value)
    row = world.system.list_actors(ActorState.ALIVE)[0]
    assert (row.path, row.class_name, row.name, row.parent, row.num_restarts) == (
        "/node/a",
        "Probe",
        "a",
        "/node",
        0,
    )
    assert world.system.list_actors(ActorState.DEAD) == ()
    assert world.system.summarize_actors().by_state == (("ALIVE", 1),)


class Serial(Actor):
    """Notes what each sender told, and whether ever two threads were inside at once."""

    def __init__(self, seen):
        self.seen, self.inside, self.overlaps = seen, 0, 0

    def receive(self, message, ctx):
        self.inside += 1
        if self.inside != 1:
            self.seen["overlaps"] += 1
        self.seen.setdefault(message.key if isinstance(message, Level) else message.n // 100_000, []).append(
            message.n
        )
        self.inside -= 1


def test_many_threads_telling_lose_nothing_reorder_nothing_and_never_run_a_cell_twice(make_pooled):
    world = make_pooled()
    senders, each = 4, 3000
    seen = [{"overlaps": 0} for _ in range(3)]
    handles = [
        world.system.spawn(Serial.options(name=f"a{n}", mailbox=senders * each).bind(seen[n]))
        for n in range(3)
    ]

    def send(sender):
        for n in range(each):
            for handle in handles:
                handle.tell(Note(n=sender * 100_000 + n))
                handle.tell(Level(key=f"level of {sender}", n=n))

    threads = [Thread(target=send, args=(sender,)) for sender in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.settle()
    for heard in seen:
        assert heard["overlaps"] == 0
        for sender in range(senders):
            assert heard[sender] == [sender * 100_000 + n for n in range(each)]
            levels = heard[f"level of {sender}"]
            assert levels == sorted(set(levels))
            assert levels[-1] == each - 1
    total = world.system.summarize_actors()
    assert total.accepted == senders * each * 2 * 3 == total.handled + total.conflated


class Restless(Actor):
    """Always has one more message for itself, until it is to end."""

    def __init__(self, end):
        self.end = end

    def receive(self, message, ctx):
        if not self.end.is_set():
            ctx.self.tell(message)


def test_an_actor_that_never_runs_dry_leaves_the_only_thread_to_others(make_pooled):
    world = make_pooled(workers=1)
    end = Event()
    try:
        world.system.spawn(Restless.options(name="restless").bind(end)).tell(Note())
        world.spawn("other").tell(Other(n=1))
        world.heard(Other(n=1))
    finally:
        end.set()
    assert world.journal.of(Other) == [Other(n=1)]


def test_an_actor_goes_on_by_itself_after_a_full_batch(make_pooled):
    world = make_pooled(workers=1)
    handle = world.spawn("a", mailbox=1000)
    for n in range(500):
        handle.tell(Note(n=n))
    world.heard(Note(n=499))
    assert world.journal.of(Note) == [Note(n=n) for n in range(500)]
